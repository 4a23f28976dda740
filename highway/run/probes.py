"""Save the arrays that figures need: one file per measurement, one array per location in the model."""

from pathlib import Path

import numpy as np
from torch import Tensor

from highway.ledger.files import written_atomically


def save_probes(probes: dict[str, dict[str, Tensor]], folder: Path) -> None:
    for name, values in probes.items():
        arrays = {location: value.detach().float().cpu().numpy() for location, value in values.items()}
        with written_atomically(folder / f"{name}.npz") as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
