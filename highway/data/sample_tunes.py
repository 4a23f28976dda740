"""Sample tunes: a melody on a scale over chords, as rows of keys that are down.

A model has to learn that a note is held for a few steps and that phrases recur. It also has to learn that a bar has one
chord, which determines the notes on strong beats.
"""

import random
from functools import cache

import numpy as np

from highway.cards.datasets import KEYS

TUNES = {"train": 120, "valid": 20, "test": 20}
SEED = 20120626
SCALE = (0, 2, 4, 5, 7, 9, 11)
PROGRESSIONS = ((0, 3, 4, 0), (0, 5, 3, 4), (0, 4, 5, 3), (0, 0, 4, 0))  # degrees of the scale
BAR = 8  # steps


@cache
def tunes() -> dict[str, list[np.ndarray]]:
    """Return a dictionary from each split to its tunes, each of shape (steps, 88) with values 0 and 1."""
    rng = random.Random(SEED)
    return {split: [_tune(rng) for _ in range(count)] for split, count in TUNES.items()}


def _tune(rng: random.Random) -> np.ndarray:
    root, degree = 24 + rng.randrange(12), 7
    phrases = []
    for chords in (rng.choice(PROGRESSIONS), rng.choice(PROGRESSIONS)):
        phrase = np.zeros((len(chords) * BAR, KEYS), dtype=np.uint8)
        step = 0
        while step < len(phrase):
            length = rng.choice((1, 2, 2, 2, 4))
            chord = chords[step // BAR]
            degree = max(4, min(degree + rng.choice((-2, -1, -1, 1, 1, 2)), 18))
            if step % BAR == 0:  # a strong beat rests on the chord
                degree += (chord - degree) % 7 if (chord - degree) % 7 < 4 else (chord - degree) % 7 - 7
            phrase[step : step + length, _key(root + 24, degree)] = 1
            step += length
        for bar, chord in enumerate(chords):
            for third in (chord, chord + 2, chord + 4):
                phrase[bar * BAR : (bar + 1) * BAR, _key(root, third)] = 1
        phrases.append(phrase)
    order = rng.choice(((0, 0, 1), (0, 1, 0), (0, 1), (0, 0, 1, 1)))
    return np.concatenate([phrases[number] for number in order])


def _key(root: int, degree: int) -> int:
    octave, step = divmod(degree, len(SCALE))
    return min(root + 12 * octave + SCALE[step], KEYS - 1)
