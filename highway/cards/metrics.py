"""The cards of all metrics. A metric of a record is a kind on a split (`valid_loss`), or a name of its own (`bleu`).

A card states the metric's title, its unit, its direction (lower or higher is better) and its number of digits.
`measured` adds a metric of predictions that has a class of its own, a `Measure` (highway/tasks/task.py).
"""

import math
from dataclasses import dataclass

from highway.errors import Refused

SPLITS = ("train", "valid", "test")
SEEN = "seen"  # the start of the training text, as long as validation, read by a trained model without dropout
MEASURED_ON = (*SPLITS, SEEN)
SPARSE = (0.0, 1e-4, 1e-3, 2e-3, 5e-3)  # a weight up to this size counts as zero; the papers state no limit


@dataclass(frozen=True)
class Metric:
    """A metric of a record, and how tables show it."""

    name: str
    kind: str  # the name in curves.csv, whose column `split` names the split
    split: str | None
    title: str
    unit: str
    better: str  # lower | higher
    digits: int

    @property
    def full_title(self) -> str:
        """The title with the split: `test perplexity`, `perplexity of seen text`."""
        if self.split == SEEN:
            return f"{self.title} of seen text"
        return f"{self.split} {self.title}" if self.split else self.title

    @property
    def is_disturbed(self) -> bool:
        """True if it does not count beside other work."""
        return self.unit in ("seconds", "hours", "tokens a second") or self.name in ("spread", "relative_time")

    @property
    def measures_quality(self) -> bool:
        """True if it says how good a model is, so that a model that has not learned has no value of it."""
        return self.split is not None or self.name.startswith(("bleu", "chrf"))

    @property
    def range(self) -> tuple[float, float]:
        """The lowest and the highest possible value."""
        return RANGES.get(self.kind, (0.0, math.inf))


KINDS = {  # for every split: title, unit, better, digits
    "loss": ("loss (nats)", "nats", "lower", 4),
    "bpc": ("bits per character", "bits", "lower", 3),
    "ppl": ("perplexity", "", "lower", 2),
    "nll": ("negative log-likelihood", "nats", "lower", 3),
    "accuracy": ("accuracy", "", "higher", 4),
}
LIKELIHOOD = ("bpc", "ppl", "nll", "loss")  # one measurement in several units; the first one that a paper prints counts
SINGLE = {
    "bleu": ("BLEU", "", "higher", 2),
    "chrf": ("chrF", "", "higher", 2),
    **{f"bleu_of_sentence_{number}": (f"BLEU of sentence {number}", "", "higher", 2) for number in range(1, 5)},
    "sparsity": ("sparsity (%)", "percent", "higher", 3),
    **{f"sparsity_{limit:g}": (f"sparsity at {limit:g} (%)", "percent", "higher", 3) for limit in SPARSE},
    "train_seconds": ("train (s)", "seconds", "lower", 0),
    "decoding_seconds": ("decoding (s)", "seconds", "lower", 1),
    "inference_seconds": ("inference (s)", "seconds", "lower", 1),
    "step_seconds": ("s/step", "seconds", "lower", 4),
    "spread": ("spread", "", "lower", 3),
    "relative_time": ("relative", "", "lower", 3),
    "train_time_h": ("hours", "hours", "lower", 4),
    "peak_memory_mib": ("MiB", "MiB", "lower", 0),
    "parameters": ("parameters", "", "lower", 0),
    "gate_parameters": ("of gates", "", "lower", 0),
    "tokens_per_second": ("tokens/s", "tokens a second", "higher", 0),
}
RANGES = {"ppl": (1.0, math.inf), "accuracy": (0.0, 1.0)} | {  # by kind; the others range from 0 to infinity
    name: (0.0, 100.0) for name in SINGLE if name.startswith(("bleu", "chrf", "sparsity"))
}
METRICS = {name: Metric(name, name, None, *about) for name, about in SINGLE.items()} | {
    f"{split}_{kind}": Metric(f"{split}_{kind}", kind, split, *about)
    for split in MEASURED_ON
    for kind, about in KINDS.items()
}
OF_A_MODEL = ("parameters", "gate_parameters")  # the same for every seed
OF_A_RECORD = (*OF_A_MODEL, "tokens_per_second")  # values of every record, beside its metrics
OF_A_TIMING = ("step_seconds", "spread", "relative_time", "train_time_h", "peak_memory_mib")
MEASURED: dict[str, tuple[str, str]] = {}  # kind -> the task that it measures, and "module:class" of its code


def measured(kind: str, task: str, code: str, title: str, unit: str, better: str, digits: int) -> None:
    """Add a metric that is computed on every evaluated split of a task."""
    if kind in KINDS and MEASURED.get(kind) != (task, code):
        raise Refused(f"there is a metric {kind} already. Give yours another name.")
    KINDS[kind], MEASURED[kind] = (title, unit, better, digits), (task, code)
    RANGES[kind] = (-math.inf, math.inf)
    METRICS.update({f"{split}_{kind}": Metric(f"{split}_{kind}", kind, split, *KINDS[kind]) for split in MEASURED_ON})


def measures_of(task: str) -> dict[str, str]:
    """Return the code of each added metric of a task, by kind."""
    return {kind: code for kind, (measured_task, code) in MEASURED.items() if measured_task == task}
