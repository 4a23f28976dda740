"""Figures of the biases b1 of transform gates: a heat map by sublayer, and the same vectors placed by t-SNE."""

from typing import Any

import numpy as np
from matplotlib import pyplot as plt

from highway.report.collect import Collected
from highway.report.sample import Sample
from highway.report.style import COLOURS
from highway.sweep.table import Figure

PERPLEXITY = 5.0
ATTENTION, FEED_FORWARD = COLOURS[:2]


def draw_biases(figure: Figure, collected: Collected) -> Any:
    """Draw the biases of the first seed of the figure's row; a1 ... aN are attention, b1 ... bN feed-forward."""
    samples = collected.finished(figure.rows[0])
    biases = gate_biases(samples[0]) if samples else {}
    names = list(biases)
    canvas, (left, right) = plt.subplots(
        1, 2, figsize=(7.2, max(2.6, 0.2 * len(names))), gridspec_kw={"width_ratios": [2, 1]}
    )
    for axis in (left, right):
        axis.grid(False)
    if not biases:
        left.set_title(f"no run of {figure.rows[0]} has such biases", loc="left", fontsize=9)
        return canvas
    values = np.stack([biases[name] for name in names])
    limit = float(np.abs(values).max()) or 1.0
    image = left.imshow(values, aspect="auto", cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="nearest")
    left.set_yticks(range(len(names)), names)
    left.set_xlabel("component")
    left.set_title("biases b1 of the transform gates", loc="left", fontsize=9)
    canvas.colorbar(image, ax=left, pad=0.02)
    for name, (x, y) in zip(names, t_sne(values, PERPLEXITY), strict=True):
        colour = FEED_FORWARD if name.split()[-1][0] == "b" else ATTENTION
        right.scatter(x, y, s=14, color=colour)
        right.annotate(name, (x, y), textcoords="offset points", xytext=(4, 2), fontsize=7, color=colour)
    right.set_xticks([])
    right.set_yticks([])
    right.set_title("t-SNE", loc="left", fontsize=9)
    canvas.tight_layout(rect=(0, 0.03, 1, 1))
    return canvas


def gate_biases(sample: Sample) -> dict[str, np.ndarray]:
    """Return the biases by sublayer: a1 ... aN self-attention, b1 ... bN feed-forward, c1 ... cN cross-attention.

    With two stacks the names begin with `encoder` or `decoder`, and the encoder comes first.
    """
    biases = sample.probe("gate_biases")
    return {_short_name(name): biases[name] for name in sorted(biases, key=_order)}


SUBLAYERS = {"attention": "a", "itself": "a", "feed_forward": "b", "cross": "c"}


def _order(name: str) -> tuple[bool, str, str, int]:
    """Return a sort key: stack by stack, the encoder first, and in each all of a, then b, then c."""
    stack, layer, sublayer = name.split(".")[:3]
    return stack != "encoder", stack, SUBLAYERS.get(sublayer, sublayer), int(layer)


def _short_name(name: str) -> str:
    """Shorten `blocks.0.attention.gate` to `a1`, `decoder.0.cross.gate` to `decoder c1`."""
    stack, layer, sublayer = name.split(".")[:3]
    return f"{'' if stack == 'blocks' else f'{stack} '}{SUBLAYERS.get(sublayer, sublayer)}{int(layer) + 1}"


def t_sne(points: np.ndarray, perplexity: float, seed: int = 0) -> np.ndarray:
    """Place vectors (n, d) in the plane, (n, 2), by exact t-SNE (van der Maaten and Hinton 2008)."""
    from sklearn.manifold import TSNE  # takes a second to import

    perplexity = min(perplexity, (len(points) - 1) / 3)
    return TSNE(perplexity=perplexity, method="exact", init="random", random_state=seed).fit_transform(points)
