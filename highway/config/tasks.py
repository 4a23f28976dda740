"""The cards of all tasks. The data set determines the task; the task determines the layers around a backbone."""

from pydantic.dataclasses import dataclass

from highway.config.datasets import ImageDataset, LanguageDataset, MusicDataset, TranslationDataset
from highway.config.keys import STRICT, Written
from highway.config.metrics import KINDS, METRICS, measures_of


@dataclass(frozen=True, config=STRICT)
class TaskCard:
    """A task: its keys below `dataset`, and the classes that train and evaluate a model."""

    options: type[Written]  # the keys below `dataset`
    data: str  # "module:class" of the Lightning data module
    module: str  # "module:class" of the Lightning module
    ends: str  # "module:class" of the input and output layers around the backbone
    command: str  # the command or function that uses a trained model
    reads: str = "sequence"  # or "pair": the input that the backbone must read
    also: tuple[str, ...] = ()  # further metrics of the trained model
    diverged_above: float = 50.0  # the neutral default of trainer.diverged_above
    revision: int = 1


TASKS = {
    "language": TaskCard(
        LanguageDataset,
        data="highway.data.windows:LanguageData",
        module="highway.tasks.language:LanguageModelling",
        ends="highway.models.symbols:Symbols",
        command="highway generate",
    ),
    "translation": TaskCard(
        TranslationDataset,
        data="highway.data.pairs:TranslationData",
        module="highway.tasks.translation:Translation",
        ends="highway.models.pieces:Pieces",
        command="highway translate",
        reads="pair",
        also=(
            *("bleu", "chrf", "decoding_seconds", "inference_seconds"),
            *(name for name in METRICS if name.startswith(("bleu_of", "sparsity"))),
        ),
    ),
    "classification": TaskCard(
        ImageDataset,
        data="highway.data.images:ImageData",
        module="highway.tasks.classification:Classification",
        ends="highway.models.values:Pixels",
        command="highway.load",
    ),
    "music": TaskCard(
        MusicDataset,
        data="highway.data.tunes:TuneData",
        module="highway.tasks.music:Music",
        ends="highway.models.values:Keys",
        command="highway generate",
        diverged_above=500.0,  # the sum over 88 keys starts at 61 nats
    ),
}


def metrics_of(task: str, shown: str, watched: str) -> list[str]:
    """Return the names of all metrics of a record, for `shown` = dataset.metric and the data set's `watched` split."""
    kinds = [kind for kind in KINDS if kind in ("loss", shown, *measures_of(task))]
    splits = dict.fromkeys((watched, "test"))
    return [f"{split}_{kind}" for split in splits for kind in kinds] + [*TASKS[task].also, "train_seconds"]
