"""The arrays that figures need, taken from a trained model: the biases of every transform gate (Figs. 13, 14)."""

from pathlib import Path

import numpy as np
from torch import nn

from highway.gates.residual import ResidualGate
from highway.ledger.files import written_atomically


def save_probes(model: nn.Module, folder: Path) -> None:
    biases = {
        name: gate.transform_gate.bias.detach().float().cpu().numpy()
        for name, gate in model.named_modules()
        if isinstance(gate, ResidualGate)
    }
    if biases:
        with written_atomically(folder / "gate_biases.npz") as file:
            np.savez(file, **biases)  # type: ignore[arg-type]
