"""The arrays that figures need, taken from a trained model; its modules say which, and their place in it is the key."""

from pathlib import Path

import numpy as np
from torch import nn

from highway.describe import probes_of
from highway.ledger.files import written_atomically


def save_probes(model: nn.Module, folder: Path) -> None:
    for name, values in probes_of(model).items():
        arrays = {place: value.detach().float().cpu().numpy() for place, value in values.items()}
        with written_atomically(folder / f"{name}.npz") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
