"""Runs from start to end: what is recorded, the results of both models, and how a run may end."""

import itertools
import math
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
import torch.nn.functional as F
import yaml
from safetensors import safe_open
from torch import nn

from highway.cards.datasets import DATASETS
from highway.cli import main
from highway.config.experiment import Experiment
from highway.describe import gates_of
from highway.errors import Refused
from highway.ledger.directory import RunDirectory
from highway.ledger.identity import identity
from highway.ledger.record import worse_than_counting
from highway.run import build
from highway.run.checkpoint import load_weights
from highway.run.outcome import Outcome
from highway.run.start import LogFile
from highway.testing.runs import curve, trained
from highway.training import run
from tests.support.overrides import CARRY, TINY
from tests.support.stand_ins import Stateful
from tests.support.wandb_files import Offline

Compose = Callable[..., Experiment]
DROPOUTS = ("dropout", "dropout_attention", "dropout_feed_forward", "dropout_embedding")
FEW = ("trainer.max_steps=6", "trainer.validate_every=3", "trainer.log_every=2")
UNDROPPED = (*FEW, "gate=sdu_tanh", *(f"model.{name}=0" for name in DROPOUTS))
BF16 = 1e-3  # relative difference of a loss after six updates in bf16


@torch.no_grad()
def naive_loss(model: nn.Module, described: Experiment, split: str) -> float:
    """Compute the evaluation protocol with one window at a time and plain sums."""
    cut, splits = described.dataset.evaluation, build.data(described).streams.splits
    stream = (splits["train"][: len(splits["valid"])] if split == "seen" else splits[split]).long()
    length = len(stream) // cut.lanes
    total, count = 0.0, 0
    for lane in range(cut.lanes):
        row = stream[lane * length : (lane + 1) * length]
        for start in range(0, length - 1, cut.stride):
            end = min(start + cut.window, length - 1)
            context = cut.window - cut.scored
            if start + context >= end:
                continue
            features, _ = model(row[None, start:end])
            logits = model.logits(features[0, context:]).double()
            total += F.cross_entropy(logits, row[start + 1 + context : end + 1], reduction="sum").item()
            count += end - start - context
    return total / count


@pytest.mark.parametrize("gate", ["none", "sdu_sigmoid", "sdu_conv_tanh", "highway", "gated_mhdpa"])
def test_a_run_of_every_gate(tiny: Compose, gate: str) -> None:
    directory, result = trained(tiny(f"gate={gate}", *FEW))
    assert result["status"] == "finished"
    assert result["parameters"]["gate"] == 0 or gate != "none"
    splits = ("valid", "test", "seen")
    kinds = {f"{split}_{kind}" for split in splits for kind in ("loss", "bpc")}
    assert set(result["metrics"]) == {*kinds, "train_seconds"}
    for loss, bpc in ((f"{split}_loss", f"{split}_bpc") for split in splits):
        for model in ("best", "last"):
            value = result["metrics"][loss][model]
            assert result["metrics"][bpc][model] == pytest.approx(value / math.log(2))
            assert 1 < value < math.log(27) + 1
    assert result["cost"]["tokens_per_second"] > 0
    assert result["environment"]["threads"] == 1
    biases = directory.path / "probes" / "gate_biases.npz"
    assert biases.exists() == (gate != "none")
    if gate != "none":
        assert len(np.load(biases).files) == 6


class Wreck(pl.Callback):
    """Spoils the model late in training, so that the best and the last one differ."""

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: Any, *_: Any) -> None:
        if trainer.global_step == 45:
            with torch.no_grad():
                pl_module.model.embedding.weight.mul_(3)


def test_best_and_last_are_the_protocol_on_their_weights(tiny: Compose) -> None:
    described = tiny("gate=sdu_tanh", "trainer.max_steps=50", "trainer.validate_every=10", "optimizer=adam")
    directory, result = trained(described, Wreck())
    model = build.model(described).eval()
    for name, path in (("best", directory.best), ("last", directory.last)):
        load_weights(model, path)
        for split in ("valid", "test", "seen"):
            expected = naive_loss(model, described, split)
            assert result["metrics"][f"{split}_loss"][name] == pytest.approx(expected, rel=1e-5)
    assert "seen" not in {row[3] for row in curve(directory)}
    validations = [float(row[-1]) for row in curve(directory) if row[3] == "valid" and row[4] == "loss"]
    assert result["metrics"]["valid_loss"]["best"] == min(validations)
    assert result["metrics"]["valid_loss"]["last"] == validations[-1]
    assert min(validations) < validations[-1]


def test_windows_evaluated_together_give_the_same_number(tiny: Compose) -> None:
    expected = trained(tiny(*FEW, "trainer.evaluation_batch=1"))[1]["metrics"]["test_loss"]["last"]
    described = tiny(*FEW, "trainer.evaluation_batch=7")
    described.outputs_dir /= "other"
    assert trained(described)[1]["metrics"]["test_loss"]["last"] == pytest.approx(expected, rel=1e-6)


def test_the_loss_falls_and_the_model_learns_the_sample(tiny: Compose, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "highway")
    directory, result = trained(
        tiny(
            "model.width=32", "dataset.train.lanes=16", "trainer.max_steps=150", "optimizer=adam", "optimizer.lr=0.005"
        )
    )
    assert result["metrics"]["test_bpc"]["best"] < 3.0  # a model of single characters reaches 4.1
    assert caplog.records[-1].getMessage() == last_line(directory, result)


def test_a_run_that_has_not_learned_says_so_in_its_last_line(tiny: Compose, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "highway")
    directory, result = trained(tiny(*FEW, "optimizer.lr=1e-9"))
    counts, ours = result["data"]["counting_loss"] / math.log(2), result["metrics"]["test_bpc"]["best"]
    why = f"best model worse than character frequencies ({counts:.4g}; this run {ours:.4g})"
    assert caplog.records[-1].getMessage() == f"{last_line(directory, result)} ({why})"


def last_line(directory: RunDirectory, result: dict[str, Any]) -> str:
    loss, bpc = (result["metrics"][f"test_{kind}"]["best"] for kind in ("loss", "bpc"))
    return f"{directory.path}: finished; best model: test loss (nats) {loss:.4f}, test bits per character {bpc:.3f}"


@pytest.mark.parametrize(
    ("name", "form", "metric", "text"),
    [
        ("penn_treebank", "word", "test_ppl", "worse than word frequencies (639.3; this run 783)"),
        ("enwik8", "bytes", "test_bpc", "worse than byte frequencies (9.32; this run 9.613)"),
        ("mnist", "pixels", "test_accuracy", "worse than label frequencies (6.46; this run 6.663)"),
        ("nottingham", "keys", "test_nll", "worse than key frequencies (6.46; this run 6.663)"),
        ("one_of_a_user", "lines", "test_loss", "worse than frequencies (6.46; this run 6.663)"),
    ],
)
def test_what_has_not_been_learned_is_said_in_the_metric_of_the_task(
    name: str, form: str, metric: str, text: str
) -> None:
    losses = {"best": 6.6631, "last": 6.46}
    content = {"data": {"name": name, "form": form}, "metrics": {"test_loss": losses, metric: losses}}
    assert worse_than_counting(content, 6.4604, "best") == text
    assert worse_than_counting(content, 6.4604, "last") == "" == worse_than_counting(content, None, "best")


def test_final_validation_when_steps_fall_between(tiny: Compose) -> None:
    directory, result = trained(tiny("trainer.max_steps=7", "trainer.validate_every=3"))
    assert [row[0] for row in curve(directory) if row[3] == "valid" and row[4] == "loss"] == ["3", "6", "7"]
    assert result["steps"] == 7


def test_finished_cell_is_not_run_again(tiny: Compose) -> None:
    directory, _ = trained(tiny(*FEW))
    before = (directory.path / "result.json").stat().st_mtime_ns
    assert run(tiny(*FEW), directory, "again") == "finished"
    assert (directory.path / "result.json").stat().st_mtime_ns == before


def test_divergence_keeps_its_curve(tiny: Compose) -> None:
    directory, result = trained(
        tiny("trainer.max_steps=40", "trainer.log_every=1", "optimizer.lr=1e6", "optimizer.clip=null")
    )
    assert result["status"] == "diverged"
    assert "training loss" in result["error"]
    assert len(curve(directory)) >= 3
    assert directory.done


class NotANumber(pl.Callback):
    """Spoils the weights after the third update, so that the fourth has no loss."""

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: Any, *_: Any) -> None:
        if trainer.global_step == 3:
            with torch.no_grad():
                pl_module.model.output_bias.fill_(math.nan)


def test_a_loss_that_is_no_number_ends_the_run_at_once(tiny: Compose) -> None:
    directory, result = trained(tiny("trainer.max_steps=40", "trainer.log_every=1"), NotANumber())
    assert (result["status"], result["steps"]) == ("diverged", 4)
    assert result["error"] == "training loss nan at step 4"
    assert [row[0] for row in curve(directory) if row[3:5] == ["train", "loss"]] == ["1", "2", "3", "4"]


STILL = tuple(f"model.{name}=0" for name in DROPOUTS)


def test_what_is_shown_of_training_is_the_mean_over_scored_symbols(tiny: Compose) -> None:
    """The first logged loss, at a learning rate of zero, is the mean over every scored symbol of three windows."""
    described = tiny(*STILL, "optimizer.lr=0", "trainer.max_steps=3", "trainer.log_every=3")
    directory, _ = trained(described)
    model, data = build.model(described), build.data(described)
    nats = []
    for batch in itertools.islice(data.train_dataloader(), 3):
        with torch.no_grad():
            chances = model.eval().logits(model(batch.inputs)[0][:, batch.unscored :]).log_softmax(-1)
        nats += [
            -chances[lane, position, symbol]
            for lane, row in enumerate(batch.targets)
            for position, symbol in enumerate(row)
        ]
    shown = next(float(row[-1]) for row in curve(directory) if row[3:5] == ["train", "loss"])
    assert shown == pytest.approx(float(torch.stack(nats).mean()), rel=1e-5)


def test_weight_decay_reaches_the_update(tiny: Compose) -> None:
    """One step of plain gradient descent from the initial values clips the decay with the rest of the gradient."""
    overrides = (*STILL, "optimizer.lr=0.5", "optimizer.weight_decay=0.1", "optimizer.clip=0.2", "trainer.max_steps=1")
    directory, _ = trained(tiny(*overrides))
    described = tiny(*overrides)
    model, batch = build.model(described).train(), next(iter(build.data(described).train_dataloader()))
    logits = model.logits(model(batch.inputs)[0][:, batch.unscored :])
    loss = F.cross_entropy(logits.flatten(0, 1), batch.targets.flatten())
    (loss + 0.05 * sum(parameter.square().sum() for parameter in model.parameters())).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.2)
    trained_model = build.model(described)
    load_weights(trained_model, directory.last)
    for mine, theirs in zip(model.parameters(), trained_model.parameters(), strict=True):
        torch.testing.assert_close(mine - 0.5 * mine.grad, theirs)


def test_a_mirror_that_fails_costs_no_record(tiny: Compose, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Outcome) -> None:
        raise ConnectionError("no network")

    monkeypatch.setattr(Outcome, "close", fail)
    described = tiny(*FEW)
    with pytest.raises(ConnectionError):
        trained(described)
    result = RunDirectory.of(described).result()
    assert result is not None and result["status"] == "finished"


def test_a_final_protocol_of_its_own(tiny: Compose) -> None:
    """One protocol evaluates during training, and another evaluates the trained model."""
    final = "dataset.final={lanes:2,window:12,stride:12,scored:12}"
    described = tiny(*FEW, final)
    directory, result = trained(described)
    model = build.model(described).eval()
    load_weights(model, directory.last)
    watched = [float(row[-1]) for row in curve(directory) if row[3:5] == ["valid", "loss"]]
    described.dataset.evaluation = described.dataset.final
    for split in ("valid", "test"):
        expected = naive_loss(model, described, split)
        assert result["metrics"][f"{split}_loss"]["last"] == pytest.approx(expected, rel=1e-5)
    assert len(watched) == 2 and watched[-1] != pytest.approx(result["metrics"]["valid_loss"]["last"], rel=1e-4)
    assert RunDirectory.of(tiny(*FEW)).name != directory.name


class Break(pl.Callback):
    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        if trainer.global_step == 2:
            raise OSError(28, "No space left on device")


def test_failure_is_recorded_and_runs_again(tiny: Compose) -> None:
    directory, result = trained(tiny(*FEW), Break())
    assert result["status"] == "failed"
    assert "No space left" in result["error"]
    assert "Traceback" in (directory.path / "log.txt").read_text()
    assert not directory.done
    assert trained(tiny(*FEW))[1]["status"] == "finished"


def test_a_full_disk_is_one_sentence_and_exit_code_four(
    experiment: Compose, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same command goes on when there is room again."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    overrides = (*TINY, *FEW, f"outputs_dir={tmp_path}")
    build.data(experiment(*overrides))  # the disk is full later
    monkeypatch.setattr(sys, "argv", ["train.py", *overrides])
    with monkeypatch.context() as without_room, pytest.raises(SystemExit) as end:
        without_room.setattr("highway.ledger.files.os.fsync", full)
        main("train")
    assert end.value.code == 4
    assert "could not be written: No space left on device" in capsys.readouterr().err
    with pytest.raises(SystemExit) as end:
        main("train")
    assert end.value.code == 0


def test_a_run_that_diverges_has_exit_code_three(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    overrides = (*TINY, *FEW, "optimizer.lr=1e9", "optimizer.clip=null", f"outputs_dir={tmp_path}")
    monkeypatch.setattr(sys, "argv", ["train.py", *overrides])
    with pytest.raises(SystemExit) as end:
        main("train")
    assert end.value.code == 3


def test_a_log_on_a_full_disk_is_one_sentence(
    tiny: Compose, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """The run ends as any other, in a process of its own or as the second of a sweep's."""
    caplog.set_level("INFO", "highway")
    monkeypatch.setattr(LogFile, "_open", lambda _: open("/dev/full", "a"))  # noqa: SIM115 (its handler closes it)
    for seed in (1, 2):
        directory, result = trained(tiny("trainer.max_steps=2", "trainer.validate_every=2", f"seed={seed}"))
        assert result["status"] == "finished"
        full = f"{directory.log} could not be written: No space left on device. The run goes on."
        assert [record.getMessage() for record in caplog.records].count(full) == 1
    assert "Logging error" not in capfd.readouterr().err


def test_checkpoint_of_another_model_is_refused(tiny: Compose) -> None:
    directory, _ = trained(tiny(*FEW))
    with pytest.raises(Refused, match="holds another model"):
        load_weights(build.model(tiny("model.width=32")), directory.best)
    with pytest.raises(Refused, match="holds another model"):
        load_weights(build.model(tiny("gate=sdu_tanh")), directory.best)


def test_two_processes_do_not_share_a_cell(tiny: Compose) -> None:
    directory = RunDirectory.of(tiny(*FEW))
    with directory.leased(), pytest.raises(Refused, match="being run by process"):
        run(tiny(*FEW), directory, "second")


def test_safetensors_carry_the_configuration(tiny: Compose) -> None:
    directory, _ = trained(tiny("gate=sdu_tanh", *FEW))
    with safe_open(directory.last, "pt") as file:
        config = yaml.safe_load(file.metadata()["config"])
    assert config["gate"]["activation"] == "tanh"
    assert "data_dir" not in config


@pytest.mark.slow
def test_compiled_runs_leave_clean_names(tiny: Compose) -> None:
    directory, result = trained(tiny(*UNDROPPED, "trainer.compile=default"))
    plain = tiny(*UNDROPPED)
    plain.outputs_dir /= "plain"
    assert result["environment"]["compile"] == "default"
    load_weights(build.model(plain), directory.last)
    expected = trained(plain)[1]["metrics"]["test_loss"]["last"]
    assert result["metrics"]["test_loss"]["last"] == pytest.approx(expected, rel=1e-4)


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("precision", ["32", "bf16"])
def test_cuda_agrees_with_the_cpu(tiny: Compose, precision: str) -> None:
    overrides = (*UNDROPPED, f"trainer.precision={precision}")
    there = tiny(*overrides, "trainer.accelerator=gpu")
    there.outputs_dir /= "cuda"
    expected = trained(tiny(*overrides))[1]["metrics"]["test_loss"]["last"]
    assert trained(there)[1]["metrics"]["test_loss"]["last"] == pytest.approx(expected, rel=BF16)


def test_bf16_is_close_to_fp32(tiny: Compose) -> None:
    """The difference is 0.01 %, and that of an update more or less is 0.4 % or more: the bound lies between them."""
    ways = ((), ("trainer.precision=bf16",), ("trainer.max_steps=5",), ("trainer.max_steps=7",))
    losses = [trained(tiny(*UNDROPPED, *way))[1]["metrics"]["test_loss"]["last"] for way in ways]
    exact, rough, *others = losses
    assert rough != exact and rough == pytest.approx(exact, rel=BF16)
    assert not any(other == pytest.approx(exact, rel=BF16) for other in others)


def test_evaluation_carries_the_state(tiny: Compose, monkeypatch: pytest.MonkeyPatch) -> None:
    """Evaluating segment by segment with state equals one pass over the whole lane."""
    monkeypatch.setattr(build, "model", Stateful)
    described = tiny(*CARRY, *FEW)
    _, result = trained(described)
    lanes = build.data(described).streams.splits["test"].long()
    lanes = lanes[: len(lanes) // 2 * 2].view(2, -1)
    model = Stateful(described)
    load_weights(model, RunDirectory.of(described).last)
    logits = model.logits(model(lanes[:, :-1], None)[0]).flatten(0, 1)
    expected = F.cross_entropy(logits, lanes[:, 1:].flatten()).item()
    assert result["metrics"]["test_loss"]["last"] == pytest.approx(expected, rel=1e-4)


def test_the_state_is_zeroed_at_the_start_of_an_epoch(tiny: Compose, monkeypatch: pytest.MonkeyPatch) -> None:
    begun_anew: list[bool] = []

    class Watched(Stateful):
        def forward(self, tokens: torch.Tensor, state: Any, *_: Any) -> tuple[torch.Tensor, Any]:
            if self.training:
                begun_anew.append(state is None)
            return super().forward(tokens, state)

    monkeypatch.setattr(build, "model", Watched)
    long = "dataset.train={lanes:4,window:2000,stride:2000,scored:2000}"
    _, result = trained(tiny(*CARRY, long, "trainer.max_epochs=3"))
    steps = result["steps"] // 3
    assert steps > 1
    assert [step for step, anew in enumerate(begun_anew) if anew] == [0, steps, 2 * steps]


def test_spellings_of_one_experiment_share_a_cell(tiny: Compose) -> None:
    base = RunDirectory.of(tiny("gate=sdu_tanh", "layers=all"))
    assert RunDirectory.of(tiny("gate=sdu_tanh", "layers=l1-3")) == base
    assert RunDirectory.of(tiny("gate=sdu_tanh", "layers.attention=[3,1,2]")) == base
    assert (
        RunDirectory.of(
            tiny("gate=sdu_tanh", "trainer.threads=7", "trainer.compile=default", "trainer.log_every=9", "logger=wandb")
        )
        == base
    )
    assert RunDirectory.of(tiny("gate=sdu_tanh", "layers=none")) == RunDirectory.of(tiny("gate=none", "layers=l1"))
    assert RunDirectory.of(tiny("gate=sdu_tanh", "seed=2")).path.parent == base.path.parent
    for overrides in (
        ["gate=sdu_sigmoid"],
        ["gate=sdu_tanh", "layers=l1"],
        ["gate=sdu_tanh", "model.dropout=0.2"],
        ["gate=sdu_tanh", "trainer.precision=bf16"],
    ):
        assert RunDirectory.of(tiny(*overrides)).name != base.name


@pytest.mark.parametrize(
    ("overrides", "idle"),
    [
        (("gate=highway",), "gate.kernel=5"),
        (("gate=highway",), "gate.activation=tanh"),
        (("gate=none",), "gate.reads=normalised"),
        (("gate=none",), "gate.inside_dropout=true"),
        (("model.norm=post",), "model.final_norm=true"),
        (("model.init_maps=glorot",), "model.init_embedding=0.3"),
        (("model=r_transformer",), "model.init_local=copies"),
        (("optimizer=adam_cosine",), "optimizer.plateau.window=9"),
        (("optimizer=sgd_plateau",), "optimizer.warmup_steps=7"),
        (("gate=sdu_tanh", "layers=l1"), "gate.score.length=9"),
    ],
)
def test_what_nothing_reads_is_no_other_cell(tiny: Compose, overrides: tuple[str, ...], idle: str) -> None:
    assert RunDirectory.of(tiny(*overrides)).name == RunDirectory.of(tiny(*overrides, idle)).name


def test_what_something_reads_is_another_cell(tiny: Compose) -> None:
    for overrides, read in (
        (("gate=sdu_conv_tanh",), "gate.kernel=5"),
        (("gate=sdu_tanh",), "gate.inside_dropout=true"),
        (("optimizer=sgd_plateau",), "optimizer.plateau.window=9"),
        (("optimizer=adam",), "optimizer.betas=[0.5,0.5]"),
        ((), "optimizer.weight_decay=0.1"),
    ):
        assert RunDirectory.of(tiny(*overrides)).name != RunDirectory.of(tiny(*overrides, read)).name


def test_what_a_score_gate_does_not_read_is_no_other_cell(experiment: Compose) -> None:
    def name(*overrides: str) -> str:
        return RunDirectory.of(
            experiment("model=encoder_decoder", "dataset=iwslt_pt_en", "layers=none", *overrides)
        ).name

    plain = name("gate=realformer")
    assert name("gate=realformer", "gate.score.each=true", "gate.score.activation=sigmoid") == plain
    assert name("gate=m2", "gate.score.accumulated=true") == name("gate=realformer", "gate.score.accumulated=true")
    assert name("gate=realformer", "gate.score.attention=[cross,encoder,decoder]") == plain
    others = [("gate=m2",), ("gate=realformer", "gate.score.attention=[cross]"), ("gate=g1",)]
    others += [("gate=g1", f"gate.score.{key}") for key in ("each=true", "activation=sigmoid", "length=65")]
    assert len({plain, *(name(*overrides) for overrides in others)}) == 1 + len(others)


def test_declared_checksums_of_own_data_are_part_of_the_identity(
    experiment: Compose, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = "dataset.source=sample"
    plain, generated = (identity(experiment(*overrides)) for overrides in ((), (sample,)))
    declared = {"ptb.train.txt": "0" * 64}
    card = replace(DATASETS["penn_treebank"], checksums=declared)
    monkeypatch.setattr("highway.config.experiment.DATASETS", {**DATASETS, "penn_treebank": card})
    assert identity(experiment()) == {**plain, "checksums": declared}
    assert identity(experiment(sample)) == generated


def test_mirror_is_readable(tiny: Compose) -> None:
    """W&B has the same config, curves and summary as the record."""
    wandb = pytest.importorskip("wandb")
    experiment = tiny("gate=sdu_tanh", "logger=wandb", "logger.group=highway_t1", "logger.run='tanh seed 1'", *FEW)
    directory, result = trained(experiment)
    (path,) = directory.path.glob("wandb/offline-run-*/run-*.wandb")
    read = Offline(path)
    assert (read.run.run_group, read.run.display_name) == ("highway_t1", "tanh seed 1")
    assert read.run.run_id == f"{directory.name}-seed1"
    assert set(read.run.tags) >= {"highway_t1", "tanh", "transformer", "sdu", "penn_treebank", "sample"}
    assert (read.config["table"], read.config["row"]) == ("highway_t1", "tanh")
    configuration = yaml.safe_load(directory.config.read_text())
    assert {key: value for key, value in read.config.items() if key in configuration} == configuration
    shown = {name for row in read.rows for name in row if "/" in name}
    assert {"train/gradient_norm", "train/gate_norm", "train/tokens_per_second", "train/peak_memory_mib"} <= shown
    for split, metric in {(row[3], row[4]) for row in curve(directory)}:
        ours = [float(row[-1]) for row in curve(directory) if row[3:5] == [split, metric]]
        mirrored = [row[f"{split}/{metric}"] for row in read.rows if f"{split}/{metric}" in row]
        assert mirrored == pytest.approx(ours), (split, metric)
    for name, values in result["metrics"].items():
        assert read.summary[name] == pytest.approx(values["best"])
        assert read.summary[f"{name}_last"] == pytest.approx(values["last"])
    assert read.summary["parameters/total"] == result["parameters"]["total"] and read.summary["status"] == "finished"
    assert wandb.run is None  # it is finished


def test_the_norm_of_the_gradient_is_that_before_clipping(tiny: Compose) -> None:
    """The norm over a single step equals that of a backward pass by hand."""
    once = ("trainer.max_steps=1", "trainer.log_every=1", "optimizer.clip=0.001")
    experiment = tiny("gate=sdu_tanh", *once, *(f"model.{name}=0" for name in DROPOUTS))
    directory, _ = trained(experiment)
    rows = {row[4]: float(row[-1]) for row in curve(directory) if row[3] == "train"}
    data = build.data(experiment)
    task = build.task(experiment)
    task.learn(next(iter(data.train_dataloader()))).objective.backward()
    gradients = [parameter.grad.norm() for parameter in task.parameters() if parameter.grad is not None]
    assert rows["gradient_norm"] == pytest.approx(float(torch.stack(gradients).norm()), rel=1e-5)
    gates = [parameter.detach().norm() for gate in gates_of(task.model).values() for parameter in gate.parameters()]
    assert rows["gate_norm"] == pytest.approx(float(torch.stack(gates).norm()), rel=1e-3)
