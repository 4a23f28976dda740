"""The cards of all tasks, and the keys of the group `task`.

The data set determines the task, and the task the layers around a backbone. `task=NAME` chooses another task for the
same data, with another loss. Its card is `replace(TASKS["language"], code=..., options=..., ...)` (docs/RECIPES.md).
"""

from pydantic.dataclasses import dataclass

from highway.cards.card import Card, Cards
from highway.cards.datasets import ImageDataset, LanguageDataset, MusicDataset, TranslationDataset
from highway.cards.metrics import KINDS, METRICS, SEEN, measures_of
from highway.keys.schema import STRICT, Written, key


class TaskOptions(Written):
    """The keys of every task."""

    name: str = key("default", "default: the task of the data set", options=lambda: ("default", *TASKS))


@dataclass(frozen=True, config=STRICT, kw_only=True)
class TaskCard(Card):
    """A task: its loss, its keys below `dataset`, and the classes that train and evaluate a model."""

    dataset_keys: type[Written]  # the keys below `dataset`; tasks that share them can train on the same data sets
    data: str  # "module:class" of the Lightning data module
    ends: str  # "module:class" of the input and output layers around the backbone
    command: str  # the command or function that uses a trained model
    reads: str = "sequence"  # or "pair": the input that the backbone must read
    tested_splits: tuple[str, ...] = ("test",)  # on which a trained model is evaluated, beside the watched split
    also: tuple[str, ...] = ()  # further metrics of the trained model
    diverged_above: float = 50.0  # the neutral default of trainer.diverged_above, which conf/trainer/ sets


TASKS: Cards[TaskCard] = Cards(
    "task",
    {
        "language": TaskCard(
            code="highway.tasks.language:LanguageModelling",
            equation="-log p(x[t+1] | x[1..t])",
            description="Predict each next symbol of a text.",
            dataset_keys=LanguageDataset,
            data="highway.data.windows:LanguageData",
            ends="highway.models.ends:Symbols",
            command="highway generate",
            tested_splits=(SEEN, "test"),
        ),
        "translation": TaskCard(
            code="highway.tasks.translation:Translation",
            equation="-log p(y[t+1] | y[1..t], x)",
            description="Predict each next piece of a translation y of a sentence x.",
            dataset_keys=TranslationDataset,
            data="highway.data.pairs:TranslationData",
            ends="highway.models.ends:Pieces",
            command="highway translate",
            reads="pair",
            also=(
                *("bleu", "chrf", "decoding_seconds", "inference_seconds"),
                *(name for name in METRICS if name.startswith(("bleu_of", "sparsity"))),
            ),
        ),
        "classification": TaskCard(
            code="highway.tasks.examples:Classification",
            equation="-log p(class | x[1..T])",
            description="Predict the class of an image that is read pixel by pixel.",
            dataset_keys=ImageDataset,
            data="highway.data.images:ImageData",
            ends="highway.models.ends:Pixels",
            command="highway.load",
        ),
        "music": TaskCard(
            code="highway.tasks.examples:Music",
            equation="-sum over keys of log p(key of x[t+1] | x[1..t])",
            description="Predict which keys sound at each next step of a tune.",
            dataset_keys=MusicDataset,
            data="highway.data.tunes:TuneData",
            ends="highway.models.ends:Keys",
            command="highway generate",
            diverged_above=500.0,  # the sum over 88 keys starts at 61 nats
        ),
    },
)


def metrics_of(task: str, shown: str, watched: str) -> list[str]:
    """Return the names of all metrics of a record, for `shown` = dataset.metric and the data set's `watched` split."""
    kinds = [kind for kind in KINDS if kind in ("loss", shown, *measures_of(task))]
    splits = dict.fromkeys((watched, *TASKS[task].tested_splits))
    return [f"{split}_{kind}" for split in splits for kind in kinds] + [*TASKS[task].also, "train_seconds"]
