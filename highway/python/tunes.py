"""Continue a tune step by step with a trained model, and write it as a MIDI file."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from highway.cards.models import Remembers
from highway.config.extras import need
from highway.errors import Refused
from highway.ledger.files import written_atomically
from highway.python.load import Trained

LOWEST = 21  # MIDI number of the lowest of 88 keys
VELOCITY = 80
TICKS = 500  # ticks in a beat of half a second


def beginning(trained: Trained, number: int, steps: int) -> Tensor:
    """Return the first steps of a tune of the test set, (steps, 88); tunes are counted from 1."""
    tunes = trained.streams.splits["test"]
    if not 1 <= number <= len(tunes):
        raise Refused(f"--tune {number} does not exist: the test set has tunes 1 to {len(tunes)}.")
    if not 1 <= steps <= len(tunes[number - 1]):
        raise Refused(f"--begin {steps} is out of range: tune {number} has steps 1 to {len(tunes[number - 1])}.")
    return tunes[number - 1][:steps].float()


@torch.inference_mode()
def continued(trained: Trained, keys: Tensor, length: int, temperature: float, seed: int) -> Tensor:
    """Return keys (T, 88) followed by `length` steps of the model.

    Each key is drawn independently; at temperature 0 a key is down if its probability is above one half.
    """
    generator, carries = torch.Generator().manual_seed(seed), trained.experiment.remembers is Remembers.STATE
    reads, state = keys, None
    for _ in range(length):
        features, new_state = trained.model(reads[None], state)
        logits = trained.model.logits(features[0, -1]).float()
        if temperature == 0:
            new = (logits > 0).float()
        else:
            new = torch.bernoulli(torch.sigmoid(logits / temperature), generator=generator)
        keys = torch.cat((keys, new[None]))
        reads, state = (new[None], new_state) if carries else (keys, None)
    return keys


def write_midi(keys: Tensor, path: Path, step_seconds: float) -> None:
    """Write keys (T, 88) as a MIDI file; a key that is down for several steps in a row becomes one long note."""
    if not 1 / (2 * TICKS) <= step_seconds <= 60:
        raise Refused(f"--step-seconds {step_seconds:g} is out of range. Write a number from 0.001 to 60.")
    ticks = round(step_seconds * 2 * TICKS)
    need("mido", "music", "a MIDI file")
    import mido

    track: Any = mido.MidiTrack()
    padded = torch.nn.functional.pad(keys.int(), (0, 0, 1, 1))
    since = 0
    for before, now in pairwise(padded):
        for kind, changed in (("note_off", before > now), ("note_on", now > before)):
            for key in changed.nonzero().flatten().tolist():
                track.append(mido.Message(kind, note=LOWEST + key, velocity=VELOCITY, time=since * ticks))
                since = 0
        since += 1
    midi = mido.MidiFile(ticks_per_beat=TICKS)
    midi.tracks.append(track)
    with written_atomically(path) as file:
        midi.save(file=file)
