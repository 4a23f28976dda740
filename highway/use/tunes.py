"""Going on with a tune, step by step, and writing it down as a MIDI file."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import mido
import torch
from torch import Tensor

from highway.config.models import Remembers
from highway.errors import Refused
from highway.ledger.files import written_atomically
from highway.use.load import Trained

LOWEST = 21  # the first of 88 keys in MIDI's numbers
VELOCITY = 80
TICKS = 500  # of a beat, which takes half a second


def beginning(trained: Trained, number: int, steps: int) -> Tensor:
    """The first steps of a tune of the test set, counted from 1: (T, 88)."""
    tunes = trained.streams.splits["test"]
    if not 1 <= number <= len(tunes):
        raise Refused(f"--tune {number}: the test set has tunes 1 to {len(tunes)}.")
    if not 1 <= steps <= len(tunes[number - 1]):
        raise Refused(f"--begin {steps}: tune {number} has steps 1 to {len(tunes[number - 1])}.")
    return tunes[number - 1][:steps].float()


@torch.inference_mode()
def continued(trained: Trained, keys: Tensor, length: int, temperature: float, seed: int) -> Tensor:
    """keys (T, 88) and `length` more steps; each key is drawn for itself, at temperature 0 down if that is likelier."""
    generator, carries = torch.Generator().manual_seed(seed), trained.experiment.remembers is Remembers.STATE
    reads, state = keys, None
    for _ in range(length):
        features, left = trained.model(reads[None], state)
        logits = trained.model.logits(features[0, -1]).float()
        if temperature == 0:
            new = (logits > 0).float()
        else:
            new = torch.bernoulli(torch.sigmoid(logits / temperature), generator=generator)
        keys = torch.cat((keys, new[None]))
        reads, state = (new[None], left) if carries else (keys, None)
    return keys


def write_midi(keys: Tensor, path: Path, step_seconds: float) -> None:
    """A key that is down at several steps in a row is one note."""
    if not 1 / (2 * TICKS) <= step_seconds <= 60:
        raise Refused(f"--step-seconds {step_seconds:g}: a step sounds from a thousandth of a second to a minute.")
    ticks = round(step_seconds * 2 * TICKS)
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
