"""Sample digits: strokes on a seven-segment grid, with random position, size, slant and thickness."""

import random
from functools import cache

import numpy as np

from highway.cards.datasets import CLASSES, SIDE

IMAGES = {"train": 2000, "test": 400}
SEED = 19981111
CORNERS = {"a": (0, 0), "b": (0, 1), "c": (1, 0), "d": (1, 1), "e": (2, 0), "f": (2, 1)}  # row, column
STROKES = (  # the strokes of the digits 0 to 9
    *("ab bf fe ea", "bf", "ab bd dc ce ef", "ab bf fe cd", "ac cd bf"),
    *("ba ac cd df fe", "ba ae ef fd dc", "ab bf", "ab bf fe ea cd", "dc ca ab bf fe"),
)


@cache
def digits() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return a dictionary from each split to images (N, 28, 28) of bytes and the digit of each."""
    rng = random.Random(SEED)
    splits = {}
    for split, count in IMAGES.items():
        labels = np.array([rng.randrange(CLASSES) for _ in range(count)])
        splits[split] = np.stack([_drawn(int(label), rng) for label in labels]), labels
    return splits


def _drawn(digit: int, rng: random.Random) -> np.ndarray:
    top, left = 5 + 2 * rng.random(), 8 + 3 * rng.random()
    height, width, slant = 8 + 2 * rng.random(), 8 + 3 * rng.random(), 3 * rng.random() - 1
    rows, columns = np.mgrid[0:SIDE, 0:SIDE]
    distance = np.full((SIDE, SIDE), np.inf)
    for stroke in STROKES[digit].split():
        ends = [
            (top + row * height, left + column * width + (1 - row) * slant)
            for row, column in (CORNERS[corner] for corner in stroke)
        ]
        distance = np.minimum(distance, _to_segment(rows, columns, ends[0], ends[1]))
    ink = np.clip(1.8 + rng.random() - distance, 0, 1)
    return (255 * ink).astype(np.uint8)


def _to_segment(
    rows: np.ndarray, columns: np.ndarray, start: tuple[float, float], end: tuple[float, float]
) -> np.ndarray:
    """Return the distance of each pixel from the line between two points, in pixels."""
    down, right = end[0] - start[0], end[1] - start[1]
    along = ((rows - start[0]) * down + (columns - start[1]) * right) / (down**2 + right**2)
    along = along.clip(0, 1)
    return np.hypot(rows - start[0] - along * down, columns - start[1] - along * right)
