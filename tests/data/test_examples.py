"""Pixel MNIST and Nottingham: files, samples, batches, and what is counted."""

import gzip
import re
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from highway.config.experiment import Experiment
from highway.data import images, sample_digits, sample_tunes
from highway.data.batches import EpochBatches
from highway.data.fetch import sha256_of
from highway.data.images import ImageBatch
from highway.data.tunes import TuneBatch
from highway.describe import named_parameters
from highway.errors import Refused
from highway.run import build
from highway.tasks.examples import Classification
from highway.testing.runs import assert_resumes_exactly, trained
from tests.support.data import REAL_DATA, needs_file
from tests.support.overrides import EXAMPLES, MUSIC

Compose = Callable[..., Experiment]


# Files


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def test_idx_files(tmp_path: Path) -> None:
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    path = tmp_path / "images.gz"
    path.write_bytes(gzip.compress(idx(pixels)))
    assert np.array_equal(images.idx(path), pixels)
    for wrong in (idx(pixels)[:-1], b"\0\1" + idx(pixels)[2:], idx(pixels).replace(b"\0\0\x08", b"\0\0\x0d")):
        path.write_bytes(gzip.compress(wrong))
        with pytest.raises(Refused, match=r"images\.gz is not an idx file of bytes"):
            images.idx(path)


@needs_file("mnist/train-images-idx3-ubyte.gz")
def test_the_real_files(experiment: Compose, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIGHWAY_DATA", str(REAL_DATA))
    described = experiment("model=r_transformer_pixels", "dataset=mnist")
    splits = build.streams(described.dataset, described.data_dir, described.outputs_dir).splits
    assert {split: tuple(split_images.pixels.shape) for split, split_images in splits.items()} == {
        "train": (60_000, 784),
        "test": (10_000, 784),
    }
    scaled = splits["train"].pixels.double() / 255
    assert (scaled.mean().item(), scaled.std().item()) == pytest.approx((images.MEAN, images.DEVIATION), abs=1e-4)
    assert splits["test"].labels[:5].tolist() == [7, 2, 1, 0, 4]
    described = experiment("model=r_transformer_music", "dataset=nottingham")
    tunes = build.streams(described.dataset, described.data_dir, described.outputs_dir).splits
    assert {split: (len(split_tunes), sum(map(len, split_tunes))) for split, split_tunes in tunes.items()} == {
        "train": (694, 176_561),
        "valid": (173, 45_513),
        "test": (170, 44_463),
    }
    data = build.data(described)
    predicted = {split: sum(int(batch.counts.sum()) for batch in data.evaluated(split)) for split in ("valid", "test")}
    assert predicted == {"valid": 45_340, "test": 44_293}, "of FACTS.md 4.2"
    keys = torch.cat([tune for split_tunes in tunes.values() for tune in split_tunes])
    assert set(keys.unique().tolist()) == {0, 1} and 3.9 < keys.double().sum(1).mean() < 4.0


# Samples


def test_samples_are_the_same_everywhere() -> None:
    digits, tunes = sample_digits.digits(), sample_tunes.tunes()
    assert [pixels.shape for pixels, _ in digits.values()] == [(2000, 28, 28), (400, 28, 28)]
    assert sha256_of([digits["test"][1]]).startswith("47167dd2bc01")
    assert sha256_of(tunes["test"]).startswith("af24d4d0fdb5")
    for split_tunes in tunes.values():
        assert all(tune.shape[1] == 88 and set(np.unique(tune)) == {0, 1} for tune in split_tunes)


def test_images_are_shrunk_by_means() -> None:
    image = np.zeros((1, 28, 28), dtype=np.uint8)
    image[0, :7, 7:14] = 100
    image[0, 0, 0] = 49
    shrunk = images._split(image, np.array([3]), 4)
    assert shrunk.pixels.tolist() == [[1, 100, *[0] * 14]]


# Batches


def test_every_example_once_an_epoch(experiment: Compose) -> None:
    data = build.data(experiment(*EXAMPLES["tunes"], "dataset.batch=50"))
    first, second = ([row for rows in data.training_groups(epoch) for row in rows] for epoch in range(2))
    assert sorted(first) == sorted(second) == list(range(120)) and first != second
    assert [len(rows) for rows in data.training_groups(1)] == [50, 50, 20]
    again = build.data(experiment(*EXAMPLES["tunes"], "dataset.batch=50"))
    assert [row for rows in again.training_groups(0) for row in rows] == first
    data.shuffled = False
    assert data.training_groups(1)[1].tolist() == list(range(50, 100)), "the order of the files"


def test_a_batch_follows_from_its_position() -> None:
    """The second epoch begins after the last batch of the first; `overfit` repeats the very first batch."""
    epochs = EpochBatches(lambda epoch: [np.array([epoch, 1]), np.array([epoch, 2])], np.ndarray.tolist)
    assert [epochs.at(position) for position in (0, 1, 2, 5)] == [[0, 1], [0, 2], [1, 1], [2, 2]]
    overfit = EpochBatches(lambda epoch: [np.array([epoch, 1]), np.array([epoch, 2])], np.ndarray.tolist, overfit=True)
    assert [overfit.at(position) for position in (0, 1, 2)] == [[0, 1]] * 3


def test_an_evaluation_takes_the_first_groups_and_shares_them(
    experiment: Compose, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under debug.windows only the first groups are evaluated; with overfit, the first training batch."""
    few = (*EXAMPLES["tunes"], "dataset.batch=4", "trainer.evaluation_batch=3")
    data = build.data(experiment(*few, "debug.windows=3"))
    assert [len(batch.inputs) for batch in data.evaluated("valid")] == [3, 3, 3]
    lengths = sorted(len(tune) for tune in data.streams.splits["valid"])
    assert [int(count) for batch in data.evaluated("valid") for count in batch.counts.sum(1)] == [
        length - 1 for length in lengths[:9]
    ]
    monkeypatch.setattr(data, "device_share", lambda: (1, 2))
    assert [len(batch.inputs) for batch in data.evaluated("valid")] == [3]
    overfit = build.data(experiment(*few, "debug=overfit"))
    (evaluated,) = overfit.evaluated("test")
    trained_on = overfit.train_dataloader().batches.at(7)
    assert torch.equal(evaluated.inputs, trained_on.inputs)


def test_devices_share_a_batch(experiment: Compose) -> None:
    data = build.data(experiment(*EXAMPLES["images"]))
    rows = np.arange(5)
    parts = [data.batch("train", rows, share, 2) for share in range(2)]
    whole = data.batch("train", rows, 0, 1)
    assert [len(part.labels) for part in parts] == [3, 2] and all(part.images == 5 for part in parts)
    assert torch.equal(torch.cat([parts[0].pixels, parts[1].pixels])[[0, 3, 1, 4, 2]], whole.pixels)
    described = experiment(*EXAMPLES["images"], "dataset.batch=1999", "trainer.devices=2")
    with pytest.raises(Refused, match="the last batch of an epoch of 2,000 images has 1"):
        build.data(described)


def test_padding_is_never_counted(experiment: Compose) -> None:
    """Batches of tunes of several lengths give the same total as the tunes one by one."""
    described = experiment(*EXAMPLES["tunes"], "trainer.evaluation_batch=7")
    task, data = build.task(described), build.data(described)
    task.model.eval()
    task.start_evaluation()
    total, steps = 0.0, 0
    with torch.no_grad():
        for batch in data.evaluated("valid"):
            task.score(batch)
        for tune in data.streams.splits["valid"]:
            x, y = tune[:-1].float(), tune[1:].double()
            p = torch.sigmoid(task.model.logits(task.model(x[None])[0])[0].double())
            total -= float((y * p.log() + (1 - y) * (1 - p).log()).sum())
            steps += len(x)
    assert int(task.counts["scored"]) == steps
    assert float(task.counts["nats"]) == pytest.approx(total, rel=1e-6)
    counts = {name: float(count) for name, count in task.counts.items()}
    assert task.results(counts)["nll"] == pytest.approx(total / steps)


def test_music_learns_from_a_sum_and_shows_a_mean(experiment: Compose) -> None:
    described = experiment(*EXAMPLES["tunes"], "dataset.batch=2", "model.dropout=0")
    task, batch = build.task(described), build.data(described).train_dataloader().batches.at(0)
    learnt = task.learn(batch)
    assert learnt.objective.dtype == torch.float64 and torch.equal(learnt.objective, learnt.nats)
    assert learnt.scored == batch.counts.sum() == batch.steps
    longer = [torch.nn.functional.pad(part, (*(0, 0) * (part.ndim - 2), 0, 9)) for part in batch[:3]]
    torch.testing.assert_close(task.learn(TuneBatch(*longer, batch.steps)).objective, learnt.objective)


def test_the_last_position_says_the_class(experiment: Compose) -> None:
    described = experiment(*EXAMPLES["images"])
    task = build.task(described).eval()
    assert isinstance(task, Classification)
    batch = next(iter(build.data(described).evaluated("test")))
    features, _ = task.model(batch.pixels)
    logits: Tensor = task.model.output(features[:, -1])
    task.start_evaluation()
    with torch.no_grad():
        task.score(batch)
    assert int(task.counts["right"]) == int((logits.argmax(1) == batch.labels).sum())
    expected = -logits.log_softmax(1)[torch.arange(len(batch.labels)), batch.labels].sum()
    assert float(task.counts["nats"]) == pytest.approx(expected.item(), rel=1e-6)
    assert task.learn(batch).objective.item() == pytest.approx(expected.item() / len(batch.labels), rel=1e-6)
    half = ImageBatch(batch.pixels[:1], batch.labels[:1], 2)  # one of two devices: Lightning takes the mean of both
    assert task.learn(half).objective.item() == pytest.approx(task.learn(half).nats.item() / 2)


@pytest.mark.parametrize("task", EXAMPLES)
def test_the_mean_over_devices_is_the_whole_batch(
    experiment: Compose, monkeypatch: pytest.MonkeyPatch, task: str
) -> None:
    """Five examples on two devices, averaged as in Lightning, give the whole objective; nats and counts add up."""
    described = experiment(*EXAMPLES[task], "trainer.precision=64")
    module, data = build.task(described).double().eval(), build.data(described)
    rows = np.arange(5)
    whole = module.learn(data.batch("train", rows, 0, 1))
    monkeypatch.setattr(type(module), "devices", 2)
    parts = [module.learn(data.batch("train", rows, share, 2)) for share in range(2)]
    torch.testing.assert_close(sum(part.objective for part in parts) / 2, whole.objective)
    torch.testing.assert_close(sum(part.nats for part in parts), whole.nats)
    assert sum(part.scored for part in parts) == whole.scored


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (("model.dropout_embedding=0.1",), "model.dropout_embedding=0.1: nottingham is read as values"),
        (("model.init_embedding=0.2",), "Leave model.init_embedding=0.1"),
        (("optimizer.label_smoothing=0.1",), "optimizer.label_smoothing needs classes"),
        (("dataset.batch=2", "trainer.devices=3"), "trainer.devices=3 is more than dataset.batch=2"),
        (("dataset=mnist", "dataset.side=5"), "dataset.side=5 does not divide 28"),
    ],
)
def test_what_is_refused(experiment: Compose, overrides: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(Refused, match=re.escape(sentence)):
        experiment(*EXAMPLES["tunes"], *overrides)


def test_maps_that_start_as_an_embedding_read_its_keys(experiment: Compose) -> None:
    small = ("model.init_maps=embedding", "model.init_embedding=0.02")
    model = build.model(experiment("model=transformer_music", *MUSIC, "optimizer=adam_music", *small))
    weight = named_parameters(model)["blocks.0.attention.function.output.weight"]
    assert 0.019 < weight.abs().max() <= 0.02


# Runs


@pytest.mark.parametrize("task", EXAMPLES)
def test_a_stopped_run_goes_on_exactly(experiment: Compose, tmp_path: Path, task: str) -> None:
    few = ("trainer.max_steps=9", "trainer.validate_every=4", "trainer.evaluation_batch=100")
    overrides = (*EXAMPLES[task], "model.dropout=0.1", *few)
    whole, result = trained(experiment(*overrides))
    assert_resumes_exactly(experiment(*overrides, f"outputs_dir={tmp_path / 'stopped'}"), (3, 8), whole, result)
    kinds = {"images": {"test_loss", "test_accuracy"}, "tunes": {"valid_loss", "valid_nll", "test_loss", "test_nll"}}
    assert set(result["metrics"]) == {*kinds[task], "train_seconds"}
    assert result["data"][task]["train"] == {"images": 2000, "tunes": 120}[task]
    assert 0 < result["data"]["counting_loss"] < {"images": 3, "tunes": 88}[task]
