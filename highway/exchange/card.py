"""A finished run as a folder in the layout of the Hugging Face Hub: a model card, the weights and the configuration.

    README.md            the card, with the metadata that the Hub reads
    model.safetensors    the weights, as `highway.load` reads them; missing for a record without weights
    config.json          the configuration
    result.json          the record, with checksums and environment

Nothing is uploaded.
"""

import json
from pathlib import Path
from typing import Any

import yaml

from highway.config.metrics import METRICS
from highway.config.yaml_file import read_yaml
from highway.errors import Refused
from highway.files.writing import write_text, written_atomically
from highway.ledger.directory import RunDirectory
from highway.report.sample import caveat_of
from highway.sweep.table import Column

WEIGHTS = "model.safetensors"
TEXT = """---
{metadata}---

# {title}

{what} Trained with the package highway, by this command:

```bash
{command}
```

{use}

## Results

{origin}

| metric | best | last |
| --- | ---: | ---: |
{metrics}

## Training

{training}

The settings are in `config.json`; `result.json` has the checksums of the data and the versions of the packages.
"""


def write_card(run: Path, folder: Path) -> list[Path]:
    """Write the folder of a finished run, and return its files."""
    directory = RunDirectory(run)
    result = directory.result()
    if result is None or result["status"] != "finished":
        raise Refused(f"{run} holds no finished run. Name a directory as outputs/highway_t1/smoke/tanh/seed1.")
    config = read_yaml(directory.config)
    if not isinstance(config, dict):
        raise Refused(f"{directory.config} is no configuration.")
    if "model" not in config:
        raise Refused(f"{run} holds a timing, which has no model of its own. Name a run that was trained.")
    weights = directory.best.exists()
    write_text(folder / "config.json", json.dumps(config, indent=2) + "\n")
    write_text(folder / "result.json", (directory.path / "result.json").read_text(encoding="utf-8"))
    write_text(folder / "README.md", card(directory.id, result, config, weights))
    names = ["README.md", "config.json", "result.json"]
    if weights:
        with written_atomically(folder / WEIGHTS) as file:
            file.write(directory.best.read_bytes())
        names.append(WEIGHTS)
    return [folder / name for name in names]


def card(name: str, result: dict[str, Any], config: dict[str, Any], weights: bool) -> str:
    """Return the model card of a record and its configuration."""
    metrics = {key: values for key, values in result["metrics"].items() if isinstance(values, dict)}
    lines = (f"| {key} | {values['best']:.6g} | {values['last']:.6g} |" for key, values in metrics.items())
    model, dataset = config["model"]["name"], config["dataset"]["name"]
    shown = [
        {"type": key, "name": Column.of(key).title if key in METRICS else key, "value": values["best"]}
        for key, values in metrics.items()
    ]
    task = {"task": {"type": "other", "name": str(config["dataset"].get("task", "sequence modelling"))}}
    metadata = {
        "library_name": "highway",
        "tags": [model, dataset, *gates(config)],
        "metrics": [*metrics],
        "model-index": [
            {"name": name, "results": [{**task, "dataset": {"name": dataset, "type": dataset}, "metrics": shown}]}
        ],
    }
    cost, environment = result["cost"], result["environment"]
    total = (result.get("parameters") or {}).get("total")
    gated = f" with {', '.join(gates(config))}" if gates(config) else ""
    training = [
        f"- {cost['device']}, {cost.get('seconds', 0) / 3600:.2f} hours, precision {environment['precision']}",
        f"- commit {environment['git_commit'] or 'unknown'}, torch {environment['versions'].get('torch')}",
        f"- seed {result['seed']}, {result['steps']:,} steps" if "steps" in result else f"- seed {result['seed']}",
    ]
    return TEXT.format(
        metadata=yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True),
        title=f"{model}{gated} on {dataset}",
        what=f"{f'{total:,} parameters. ' if total else ''}{caveat(result)}.",
        command=result.get("command", "unknown"),
        use=USE if weights else "This record has no weights: it was imported or published without them.",
        origin="`best`: the model with the best validation, whose weights these are. `last`: the final model.",
        metrics="\n".join(lines),
        training="\n".join(training),
    )


USE = f"""To use it, with the package and the data of its training text:

```python
import highway

trained = highway.load("{WEIGHTS}")
trained.model  # a torch module
```"""


def caveat(result: dict[str, Any]) -> str:
    """Return a sentence on the budget and the data, which a reader needs before the numbers."""
    return f"Budget {result['budget']}; {caveat_of(result['data'])}"


def gates(config: dict[str, Any]) -> list[str]:
    """Return the gates of a configuration; a residual gate on no layer is none."""
    chosen, layers = config.get("gate") or {}, config.get("layers") or {}
    on_none = bool(layers) and {value for key, value in layers.items() if key != "as_released"} == {"none"}
    parts = (chosen.get(interface) or {} for interface in ("residual", "score", "state")[on_none:])
    names = (part if isinstance(part, str) else part.get("name") for part in parts)
    return [f"{name} gate" for name in names if name not in (None, "none")]
