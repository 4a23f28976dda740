"""Figures of what a trained model leaves in its probes: biases and values of its gates, and norms of its gradients."""

import math
from typing import Any

import numpy as np
from matplotlib import pyplot as plt

from highway.report.collect import Collected
from highway.report.style import BAND, COLOURS, NOTE, PLAIN, looks
from highway.tables.table import Figure

SUBLAYERS = {"attention": "a", "itself": "a", "feed_forward": "b", "cross": "c"}
LETTER_COLOURS = dict(zip("abc", COLOURS, strict=False))
PERPLEXITY = 5.0  # of t-SNE
SMALLEST = 1e-12  # the smallest norm of a gradient that is drawn


def draw_biases(figure: Figure, collected: Collected) -> Any:
    """Draw the biases b1 of the first seed of the figure's row by sublayer, as a map and placed by t-SNE.

    a1 ... aN are self-attention, b1 ... bN feed-forward, c1 ... cN cross-attention.
    """
    samples = collected.finished(figure.rows[0])
    probe = samples[0].probe("gate_biases") if samples else {}
    biases = {"{}{}{}".format(*_sublayer(name)): probe[name] for name in sorted(probe, key=_sublayer)}
    size = (7.2, max(2.6, 0.2 * len(biases)))
    canvas, (left, right) = plt.subplots(1, 2, figsize=size, gridspec_kw={"width_ratios": [2, 1]})
    left.set_title("biases b1 of the transform gates")
    right.set_title("t-SNE")
    if biases:
        values = np.stack(list(biases.values()))
        limit = float(np.abs(values).max()) or 1.0
        image = left.imshow(values, aspect="auto", cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="nearest")
        left.grid(False)
        left.set_yticks(range(len(biases)), list(biases))
        left.set_xlabel("component")
        canvas.colorbar(image, ax=left, pad=0.02)
        for name, place in zip(biases, _t_sne(values), strict=True):
            colour = LETTER_COLOURS.get(name.split()[-1][0], PLAIN)
            right.scatter(*place, s=14, color=colour)
            right.annotate(name, place, textcoords="offset points", xytext=(4, 2), fontsize=7, color=colour)
        right.set_xticks([])
        right.set_yticks([])
    return canvas


def _t_sne(vectors: np.ndarray) -> np.ndarray:
    """Place vectors (n, d) in the plane, (n, 2), by exact t-SNE (van der Maaten and Hinton 2008)."""
    from sklearn.manifold import TSNE  # takes a second to import

    perplexity = min(PERPLEXITY, (len(vectors) - 1) / 3)
    return TSNE(perplexity=perplexity, method="exact", init="random", random_state=0).fit_transform(vectors)


def _sublayer(name: str) -> tuple[str, str, int]:
    """Split `blocks.0.attention.gate` to ("", "a", 1), and `decoder.0.cross.gate` to ("decoder ", "c", 1)."""
    stack, layer, sublayer = name.split(".")[:3]
    return "" if stack == "blocks" else f"{stack} ", SUBLAYERS.get(sublayer, sublayer), int(layer) + 1


def draw_gate_values(figure: Figure, collected: Collected) -> Any:
    """Draw a histogram for each row, over all gates and seeds."""
    canvas, axes = _panels(len(figure.rows), "g", "share of values")
    row_looks = looks(collected)
    for axis, row_id in zip(axes, figure.rows, strict=False):
        axis.set_title(collected.table.row(row_id).label)
        probes = [sample.probe("gate_values") for sample in collected.finished(row_id)]
        histograms = [histogram for probe in probes for histogram in probe.values()]
        if histograms:
            counts = np.sum(histograms, axis=0)
            edges = np.linspace(0, 1, len(counts) + 1)
            mean = float((counts * (edges[:-1] + edges[1:]) / 2).sum() / counts.sum())
            axis.stairs(counts / counts.sum(), edges, fill=True, color=row_looks[row_id].colour)
            axis.axvline(mean, color=PLAIN, linewidth=1.0, label=f"{NOTE}line: mean")
            axis.set_title(f"{axis.get_title('left')}: {counts.sum():,.0f} values, mean {mean:.3f}")
    return canvas


def draw_gradients(figure: Figure, collected: Collected) -> Any:
    """Draw a panel for each group: the norm of the gradient of a step's loss by the state k steps before."""
    canvas, axes = _panels(len(figure.groups), "k, steps back", "|d loss[t] / d s[t-k]|", sharey=True)
    row_looks = looks(collected)
    for axis, (group, row_ids) in zip(axes, figure.groups.items(), strict=False):
        axis.set_title(group)
        for row_id in row_ids:
            look, label = row_looks[row_id], collected.table.row(row_id).label
            probes = [sample.probe("gradient_norms") for sample in collected.finished(row_id)]
            norms = np.array([probe["state"] for probe in probes if probe])  # (seeds, steps back)
            if len(norms):
                axis.plot(norms.mean(0), color=look.colour, linestyle=look.dash, label=label)
                steps, low, high = range(norms.shape[1]), norms.min(0), norms.max(0)
                axis.fill_between(steps, low, high, color=look.colour, alpha=0.18, linewidth=0, label=BAND)
    axes[0].set_yscale("log")
    axes[0].set_ylim(bottom=max(axes[0].get_ylim()[0], SMALLEST))
    return canvas


def _panels(count: int, x_label: str, y_label: str, sharey: bool = False) -> tuple[Any, list[Any]]:
    """Return a canvas and its panels, two in a row, on one x axis."""
    rows = math.ceil(count / 2)
    canvas, grid = plt.subplots(rows, 2, figsize=(7.2, 2.2 * rows), squeeze=False, sharex=True, sharey=sharey)
    for axis in grid[:, 0]:
        axis.set_ylabel(y_label)
    panels = list(grid.flat)[:count]
    for axis in panels[-2:]:
        axis.set_xlabel(x_label)
        axis.tick_params(labelbottom=True)
    for axis in grid.flat[count:]:
        axis.remove()
    return canvas, panels
