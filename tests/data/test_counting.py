"""The test loss of counting, against scikit-learn's classifier that knows only the frequencies of its labels."""

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.metrics import log_loss

from highway.config import home
from highway.config.experiment import Experiment
from highway.data.counting import counting_loss
from highway.keys.yaml_file import read_yaml
from highway.run import build
from tests.support.data import REAL_DATA, needs_real_data

Compose = Callable[..., Experiment]
KEPT = home.REFERENCE / "counting.yaml"


def prior(train: list[int], test: list[int]) -> float:
    """Return the loss under training frequencies, where a symbol that is missing counts as seen once."""
    symbols = range(max(train + test) + 1)
    seen = [*train, *(symbol for symbol in symbols if symbol not in train)]
    counted = DummyClassifier(strategy="prior").fit(np.zeros((len(seen), 1)), seen)
    return float(log_loss(test, counted.predict_proba(np.zeros((len(test), 1))), labels=list(symbols)))


def test_symbols_and_labels() -> None:
    train, test = [0, 0, 1, 3, 3, 3], [0, 3, 2, 4]
    text = {"train": np.array(train), "test": np.array(test)}
    assert counting_loss(text) == pytest.approx(prior(train, test))
    labelled = {
        split: SimpleNamespace(labels=np.array(symbols)) for split, symbols in (("train", train), ("test", test))
    }
    assert counting_loss(labelled) == pytest.approx(prior(train, test))


@needs_real_data
@pytest.mark.parametrize(
    "overrides",
    [
        ("dataset=ptb_word",),
        ("dataset=ptb_char",),
        ("dataset=enwik8_excerpt", "model=transformer_xl", "optimizer=adam_cosine", "trainer=xl_l6"),
        ("dataset=nottingham", "model=r_transformer_music"),
        ("dataset=mnist", "model=r_transformer_pixels"),
    ],
)
def test_a_run_on_real_data_has_the_loss_kept_for_earlier_records(
    experiment: Compose, overrides: tuple[str, ...]
) -> None:
    data = build.data(experiment(*overrides, "gate=none", "layers=none", f"data_dir={REAL_DATA}"))
    about = data.description()
    key = about["form"], about["sha256"]["test"], about.get("vocabulary_sha256", "")
    kept = {(each["form"], each["test"], each["vocabulary"]): each["test_loss"] for each in read_yaml(KEPT)}
    assert data.counting_loss() == pytest.approx(kept[key], abs=6e-5)


def test_keys_of_tunes() -> None:
    """A step is as many labels as there are keys. A key's frequency is that of all steps after a tune's first."""
    train = [np.array([[1, 1], [1, 0], [0, 0]]), np.array([[0, 1], [1, 1]])]
    test = [np.array([[0, 0], [1, 0]]), np.array([[1, 1], [0, 0], [0, 1]])]
    steps, heard = (np.concatenate([tune[1:] for tune in tunes]) for tunes in (train, test))
    expected = sum(prior(steps[:, key].tolist(), heard[:, key].tolist()) for key in range(2))
    assert counting_loss({"train": train, "test": test}) == pytest.approx(expected)


def test_a_key_that_training_lacks_is_not_impossible() -> None:
    splits = {"train": [np.array([[0, 1]] * 3)], "test": [np.array([[0, 1], [1, 0]])]}
    assert counting_loss(splits) == pytest.approx(2 * np.log(1e6))


def test_pieces_of_translations_without_their_start() -> None:
    from datasets import Dataset

    targets = {"train": [[9, 1, 2], [9, 1, 1, 2]], "test": [[9, 1, 3, 2]]}
    splits = {split: Dataset.from_dict({"source": rows, "target": rows}) for split, rows in targets.items()}
    assert counting_loss(splits) == pytest.approx(prior([1, 2, 1, 1, 2], [1, 3, 2]))
