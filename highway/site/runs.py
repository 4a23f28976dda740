"""The page of a run, its curves, and the files that a reader can take away."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from highway.config import home
from highway.config.check import flat
from highway.config.experiment import Experiment
from highway.config.fields import neutral
from highway.config.yaml_file import read_yaml
from highway.errors import Refused
from highway.ledger.identity import PARTS, identity
from highway.report.collect import Collected
from highway.report.sample import Sample
from highway.report.style import PLAIN
from highway.site.pages import Pages, as_set
from highway.site.series import as_script, run_curves
from highway.sweep.table import Row

FILES = (("record", "result.json", ".json"), ("configuration", "config.yaml", ".yaml"))  # title, name, ending


@dataclass(frozen=True)
class Shown:
    """A run as a seed of one row; a run can be a seed of several rows."""

    collected: Collected
    sample: Sample
    row: Row

    @property
    def baseline(self) -> Row:
        return self.collected.table.beside(self.row.id)


def write_run(pages: Pages, path: Path, directory: Path, rows: list[Shown]) -> None:
    """Write the page of a run, its curves, its record and its configuration."""
    pages.render(path, "run.html", **_run(path, directory, rows))
    pages.write(path.with_suffix(".js"), as_script(path.stem, _script(directory, rows[0])))
    for _, name, ending in FILES:
        if (directory / name).exists():
            pages.write(path.with_suffix(ending), (directory / name).read_text(encoding="utf-8", errors="replace"))


def _script(directory: Path, shown: Shown) -> dict[str, Any]:
    """Return the curves of a run; and its metrics and settings, which the page that compares runs shows."""
    settings, known = _settings(directory), _defaults(shown.collected.experiment(shown.row.id))
    paper = shown.row.paper if shown.collected.budget == "paper" else {}
    metrics = {name: values for name, values in shown.sample.result["metrics"].items() if isinstance(values, dict)}
    about = {
        "select": shown.collected.table.select,
        "metrics_of_record": metrics,
        "settings": {key: as_set(value) for key, value in settings.items() if key in known},
    }
    return run_curves(shown.sample.curves, PLAIN, paper) | about


def _run(path: Path, directory: Path, rows: list[Shown]) -> dict[str, Any]:
    """Return what the page of a run shows."""
    shown = rows[0]
    collected, sample, baseline = shown.collected, shown.sample, shown.baseline
    experiment = collected.experiment(shown.row.id)
    has_baseline = baseline.id in collected.overrides  # a budget may lack it
    baseline_experiment = collected.experiment(baseline.id) if has_baseline else experiment
    keys, baseline_keys = (flat(identity(each)["keys"]) for each in (experiment, baseline_experiment))
    defaults = _defaults(experiment)
    differing = {
        key: (keys.get(key, defaults.get(key)), baseline_keys.get(key, defaults.get(key)))
        for key in sorted(keys | baseline_keys)
        if keys.get(key) != baseline_keys.get(key)
    }
    result = sample.result
    cost, parameters = result["cost"], result.get("parameters") or {}
    return {
        "paper": shown.row.paper,
        "budget": collected.budget,
        "siblings": _siblings(shown),
        "cost": {
            "hours": f"{cost.get('seconds', 0) / 3600:.2f}",
            "tokens per second": "" if cost.get("tokens_per_second") is None else f"{cost['tokens_per_second']:,.0f}",
            "alone on its machine": "yes" if cost.get("exclusive", True) else "no: its times compare with no other",
            **{f"{name} parameters": f"{count:,}" for name, count in parameters.items()},
        },
        "data": flat(result["data"]),
        "defaults": defaults,
        "sample": sample,
        "result": result,
        "name": path.stem,
        "rows": rows,
        "machine": {**flat(result["environment"]), "device": result["cost"]["device"]},
        "label": shown.row.label,
        "baseline": baseline.label,
        "differing": differing,
        "settings": _settings(directory),
        "files": [(title, f"{path.stem}{ending}") for title, name, ending in FILES if (directory / name).exists()],
        "published": directory.is_relative_to(home.REFERENCE),
    }


def _siblings(shown: Shown) -> dict[int, str]:
    """Return the pages of the other seeds of a row, by seed."""
    others = (sample for sample in shown.collected.samples[shown.row.id] if sample.directory != shown.sample.directory)
    return {sample.seed: f"{sample.name}.html" for sample in others}


def _defaults(experiment: Experiment) -> dict[str, Any]:
    """Return the neutral default of every key that the identity of a run knows."""
    return flat({part: neutral(type(getattr(experiment, part))) for part in PARTS})


def _settings(directory: Path) -> dict[str, Any]:
    """Return the configuration of a run, by key; empty without a file."""
    path = directory / "config.yaml"
    if not path.exists():
        return {}
    try:
        content = read_yaml(path)
    except (OSError, Refused):
        return {"config.yaml": "cannot be read"}
    return flat(content) if isinstance(content, dict) else {}
