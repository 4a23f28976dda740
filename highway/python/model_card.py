"""Write a finished run as a folder in the layout of the Hugging Face Hub:

    README.md            the model card, with the metadata that the Hub reads
    model.safetensors    the best weights, as `highway.load` reads them; missing if the run has none
    config.json          the configuration
    result.json          the record, with checksums of the data and versions of the packages

Nothing is uploaded.
"""

import json
import shutil
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCard, ModelCardData

from highway.cards.datasets import NO_RESULT, PUBLISHED
from highway.cards.gates import GATES
from highway.cards.metrics import SEEN
from highway.config.experiment import Experiment
from highway.errors import Refused
from highway.keys.yaml_file import read_yaml
from highway.ledger.directory import RunDirectory
from highway.ledger.files import made_folder, write_text, writing
from highway.python.load import check_owner, experiment_of
from highway.report.sample import caveat_of
from highway.run.checkpoint import read_weights

TEXT = """---
{{ card_data }}
---

# {{ title }}

{{ "{:,}".format(record.parameters.total) }} parameters. Budget {{ record.budget }}; {{ caveat }}.
{% if project -%}
Trained with the package highway in the project {{ project.package }} (version {{ project.version or "none" }}, commit
{{ project.git_commit or "none" }}), by this command:
{%- else -%}
Trained with the package highway, by this command:
{%- endif %}

```bash
{{ record.command }}
```

{% if weights -%}
To use the model{{ ", in the folder of " ~ project.package if project }} (the vocabulary is read from the data):

```python
import highway

trained = highway.load("model.safetensors")
trained.model  # a torch module
```
{% else %}This record has no weights: it was published without them.
{% endif %}
{% for card in cards -%}
`{{ card.equation }}`: {{ card.description }}

{% endfor -%}
## Results

`best`: the model with the best validation. `last`: the final model.
{%- if "seen_loss" in record.metrics %} `seen`: a stretch of the training text, without dropout.{% endif %}

| metric | best | last |
| --- | ---: | ---: |
{% for name, values in record.metrics.items() -%}
| {{ name }} | {{ "%.6g" | format(values.best) }} | {{ "%.6g" | format(values.last) }} |
{% endfor %}
## Training

Seed {{ record.seed }} on {{ record.cost.device }}, precision {{ environment.precision }}, torch
{{ environment.versions.torch }}, commit {{ environment.git_commit }}. `config.json` has all settings; `result.json` has
the number of steps, the checksums of the data and the versions of the packages.
"""


def write_card(run: Path, folder: Path) -> list[Path]:
    """Write the folder of a finished run, and return its files."""
    directory = RunDirectory(run.resolve())
    record = directory.result()
    if record is None or record["status"] != "finished":
        raise Refused(f"{run} holds no finished run. Name a directory as outputs/highway_t1/smoke/tanh/seed1.")
    experiment = experiment_of(directory.config.read_text(encoding="utf-8"), directory)
    weights = directory.best.exists()
    if weights:
        check_owner(directory.best, read_weights(directory.best)[1], directory, "best_step")
    with writing(made_folder(folder)):
        model_card(experiment, directory.id, record, weights).save(folder / "README.md")
        write_text(folder / "config.json", json.dumps(read_yaml(directory.config), indent=2) + "\n")
        shutil.copyfile(directory.path / "result.json", folder / "result.json")
        (folder / "model.safetensors").unlink(missing_ok=True)  # of an earlier card
        if weights:
            shutil.copyfile(directory.best, folder / "model.safetensors")
    names = ["README.md", "config.json", "result.json", *(["model.safetensors"] if weights else [])]
    return [folder / name for name in names]


def model_card(experiment: Experiment, run: str, record: dict[str, Any], weights: bool) -> ModelCard:
    """Return the model card of a run from its configuration and its record."""
    model, dataset = experiment.model.name, experiment.dataset.name
    caveat = caveat_of(record["data"])
    acting = [GATES[interface][name] for interface, name in experiment.gates.items()]
    gates = [f"{name} gate" for name in experiment.gates.values()]
    results = [
        EvalResult(experiment.dataset_card.task, dataset, dataset, metric, values["best"])
        for metric, values in record["metrics"].items()
        if not metric.startswith(f"{SEEN}_")
    ]
    data = ModelCardData(library_name="highway", tags=[model, dataset, *gates], model_name=run, eval_results=results)
    return ModelCard.from_template(
        data,
        template_str=TEXT,
        title=f"{model}{' with ' if gates else ''}{', '.join(gates)} on {dataset}",
        caveat=caveat if experiment.dataset_card.reader in PUBLISHED else caveat.removesuffix(NO_RESULT),
        cards=[*acting, *experiment.replaced.values()],
        project=record["environment"].get("project"),
        record=record,
        environment=record["environment"],
        weights=weights,
    )
