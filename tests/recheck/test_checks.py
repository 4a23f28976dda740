"""Records trained again: equal code, other rounding, a missed update, and what cannot be checked."""

import hashlib
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl

from highway.config.experiment import Experiment
from highway.config.yaml_file import read_yaml
from highway.files.device import device_name
from highway.files.writing import read_json
from highway.ledger.directory import RunDirectory
from highway.ledger.record import write_record
from highway.recheck import training
from highway.recheck.checks import Checked, check_records, published, seconds
from highway.recheck.training import first_row
from highway.report.checks import file_of
from highway.report.sample import Sample
from highway.tasks.language import LanguageModelling
from highway.tasks.task import Learnt, Task
from highway.testing.runs import trained
from tests.support.data import REAL_DATA, needs_real_data
from tests.support.overrides import CARRY, PAIRS, SHORT

FIRST = "trainer.log_every=4"  # step of the first row
Once = Callable[..., tuple[RunDirectory, dict[str, Any]]]


@pytest.fixture
def record(once: Once, tmp_path: Path) -> Path:
    """Return the directory of a finished run whose first row is at step 4."""
    return once((*SHORT, FIRST), tmp_path / "outputs")[0].path


def check(record: Path, tmp_path: Path) -> Checked:
    return next(check_records([record], tmp_path / "outputs"))


def changed(record: Path, **changes: Any) -> Sample:
    """Write the record with these changes, and return it as a sample of other code."""
    write_record(record, {**read_json(record / "result.json"), **changes})
    return Sample(record, 1, read_json(record / "result.json"), older_revision=False, other_code=True)


def test_today_s_code_trains_to_the_digit(record: Path, tmp_path: Path) -> None:
    checked = check(record, tmp_path)
    assert checked.agrees and "training equal to the digit (loss " in checked.sentence
    assert "at step 4" in checked.sentence and checked.sentence.endswith("evaluation by unchanged code")
    assert file_of(record) == tmp_path / "outputs" / "checks.yaml"


@pytest.mark.parametrize("missed", [1, 2, 3])
@pytest.mark.parametrize("overrides", [(), CARRY], ids=["windows", "carried"])
def test_one_missed_update_is_more_than_rounding(
    tiny: Callable[..., Experiment], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missed: int, overrides: Any
) -> None:
    settings = (*SHORT, *overrides, FIRST, "trainer.max_steps=4", "trainer.validate_every=4", "trainer.accumulate=2")
    directory, _ = trained(tiny(*settings))
    prepare = Task.prepare_gradients

    def miss(task: Task) -> None:
        prepare(task)
        if task.global_step == missed - 1:
            task.zero_grad()

    monkeypatch.setattr(Task, "prepare_gradients", miss)
    checked = check(directory.path, tmp_path)
    assert checked.agrees is False and "training different from step 4" in checked.sentence


def test_other_rounding_is_within_the_bound(record: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learn = LanguageModelling.learn

    def rounded(task: LanguageModelling, batch: Any) -> Learnt:
        learnt = learn(task, batch)
        return learnt._replace(objective=learnt.objective * (1 + 1e-6))

    monkeypatch.setattr(LanguageModelling, "learn", rounded)
    checked = check(record, tmp_path)
    assert checked.agrees and "training equal within rounding" in checked.sentence


def test_stored_weights_check_the_evaluation(record: Path, tmp_path: Path) -> None:
    metrics = read_json(record / "result.json")["metrics"]
    changed(record, fingerprint="0" * 12)
    assert check(record, tmp_path).sentence.endswith("evaluation of its weights as recorded")
    other = {**metrics["test_bpc"], "last": metrics["test_bpc"]["last"] * 1.001}
    sample = changed(record, fingerprint="0" * 12, metrics={**metrics, "test_bpc": other})
    assert check(record, tmp_path).sentence.endswith("evaluation not checked")
    assert sample.changes == ["training checked"]


def test_another_processor_checks_within_rounding(record: Path, tmp_path: Path) -> None:
    cost = read_json(record / "result.json")["cost"]
    changed(record, cost={**cost, "device": "Abacus 3"})
    checked = check(record, tmp_path)
    assert checked.agrees and f", on {device_name('cpu')}); evaluation" in checked.sentence
    assert f"device: {device_name('cpu')}" in file_of(record).read_text()
    curves = record / "curves.csv"
    loss = float((first_row(curves) or {})["loss"])
    curves.write_text(curves.read_text().replace(str(loss), str(loss * 1.1)))
    changed(record)
    checked = check(record, tmp_path)
    assert checked.agrees is False and "training different from step 4" in checked.sentence


def test_a_recipe_that_amplifies_rounding_is_not_checked_elsewhere(
    record: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cost = read_json(record / "result.json")["cost"]
    curves = record / "curves.csv"
    loss = float((first_row(curves) or {})["loss"])
    curves.write_text(curves.read_text().replace(str(loss), str(loss * 1.1)))
    monkeypatch.setattr("highway.recheck.training.LAST_DIGITS", 1.0)  # weights that differ by more than an update
    changed(record)
    assert check(record, tmp_path).agrees is False  # the same processor rounds in the same way
    changed(record, cost={**cost, "device": "Abacus 3"})
    checked = check(record, tmp_path)
    assert checked.agrees is None and "the last digits of its initial weights change that by" in checked.sentence


def test_one_trial_of_last_digits_that_ends_close_does_not_decide(
    record: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed(record, cost={**read_json(record / "result.json")["cost"], "device": "Abacus 3"})
    curves, trials = record / "curves.csv", []
    loss = float((first_row(curves) or {})["loss"])
    curves.write_text(curves.read_text().replace(str(loss), str(loss * 1.1)))
    changed(record)
    train = training._trained_row

    def close_at_first(record: Path, of: Experiment, watch: training.FirstRow, *rest: bool) -> Any:
        row, bound = train(record, of, watch, *rest)
        if watch.nudge:
            trials.append(watch.trial)
            row["loss"] = str(float(row["loss"]) + 2 * bound * (watch.trial == 2))
        return row, bound

    monkeypatch.setattr(training, "_trained_row", close_at_first)
    assert check(record, tmp_path).agrees is None and trials == [0, 1, 2]


class Means(pl.Callback):
    """Keeps the mean loss of every batch."""

    def __init__(self) -> None:
        self.means: list[float] = []

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, *_: Any) -> None:
        self.means.append(float(outputs["nats"] / outputs["units"]))


def test_rows_without_a_fingerprint_give_all_batches_the_same_weight(
    experiment: Callable[..., Experiment], tmp_path: Path
) -> None:
    """Batches of translations differ in size; before commit a102d22, a row showed the mean over batches."""
    kept = Means()
    directory, _ = trained(experiment(*PAIRS, "trainer.max_steps=4", "trainer.validate_every=4", FIRST), kept)
    loss, earlier = (first_row(directory.curves) or {})["loss"], sum(kept.means) / 4
    assert abs(earlier - float(loss)) > 1e-3
    directory.curves.write_text(directory.curves.read_text().replace(loss, str(earlier)))
    changed(directory.path)
    assert check(directory.path, tmp_path).agrees is False
    changed(directory.path, fingerprint=None)
    assert check(directory.path, tmp_path).agrees


def test_a_checked_record_is_not_stale(record: Path, tmp_path: Path) -> None:
    shutil.rmtree(record / "checkpoints")
    stale = changed(record, fingerprint="0" * 12)
    assert "stale: other code" in stale.changes
    assert check(record, tmp_path).sentence.endswith("evaluation not checked")
    assert stale.changes == ["training checked"]
    curves = record / "curves.csv"
    curves.write_text(curves.read_text() + "\n")  # another record in its place is not the checked one
    assert changed(record).changes == ["stale: other code"]


def test_checks_name_the_commit_at_which_they_began(
    tiny: Callable[..., Experiment], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first check writes checks.yaml, which git tracks: asked again, git would speak of uncommitted changes."""
    file = tmp_path / "outputs" / "checks.yaml"
    monkeypatch.setattr("highway.recheck.checks.commit", lambda: "0123456789ab" + ("+" if file.exists() else ""))
    records = [trained(tiny(*SHORT, FIRST, f"seed={seed}"))[0].path for seed in (1, 2)]
    assert all(checked.agrees for checked in check_records(records, tmp_path / "outputs"))
    assert [entry["commit"] for entry in read_yaml(file)] == ["0123456789ab"] * 2
    assert all(checked.agrees for checked in check_records(records, tmp_path / "outputs"))
    found = changed(records[0], fingerprint="0" * 12).check
    assert found and found.when.endswith(" with the code of commit 0123456 with uncommitted changes")


def test_a_run_that_diverged_at_its_first_row_diverges_again(
    tiny: Callable[..., Experiment], record: Path, tmp_path: Path
) -> None:
    directory, result = trained(tiny(*SHORT, FIRST, "trainer.diverged_above=0.001"))
    assert (result["status"], result["steps"]) == ("diverged", 4)
    checked = check(directory.path, tmp_path)
    assert checked.agrees and "training equal to the digit" in checked.sentence
    config = record / "config.yaml"  # a record that did not diverge, under a limit at which it does
    config.write_text(re.sub("diverged_above: .*", "diverged_above: 0.001", config.read_text()))
    files = read_json(record / "result.json")["files"]
    changed(record, files={**files, "config.yaml": hashlib.sha256(config.read_bytes()).hexdigest()})
    checked = check(record, tmp_path)
    assert checked.agrees is None and "ended before step 4: diverged" in checked.sentence


def test_a_record_of_a_missing_device_is_compared_by_its_code(
    record: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its fingerprint says which code computed it, also where the working tree was not the commit that it names."""
    cost = read_json(record / "result.json")["cost"]
    environment = read_json(record / "result.json")["environment"]
    environment |= {"tf32": True, "versions": {"torch": "2.13.0"}, "git_commit": "abcdefabcdef+"}
    changed(record, cost={**cost, "device": "Abacus 3"}, environment=environment)
    monkeypatch.setattr("highway.recheck.checks.commit", lambda: "0123456789ab+")
    assert "check it on such a device" in check(record, tmp_path).sentence
    assert "uncommitted changes" in changed(record).unknown
    monkeypatch.setattr("highway.recheck.checks.commit", lambda: "0123456789ab")
    checked = check(record, tmp_path)
    assert checked.agrees is None and checked.sentence.endswith("computed by the code of commit 0123456789ab.")
    assert changed(record).marks == ["stale: other code"], "nobody has trained it again with the code of today"
    changed(record, cost=cost)  # on the device of the record
    assert check(record, tmp_path).agrees
    repeated = read_yaml(file_of(record))
    assert changed(record).marks == ["checked"]
    changed(record, cost={**cost, "device": "Abacus 3"})
    assert check(record, tmp_path).agrees is None
    assert read_yaml(file_of(record)) == repeated, "a check that has repeated the training stays"
    file_of(record).unlink()
    changed(record, fingerprint="0" * 12)
    assert check(record, tmp_path).sentence.startswith("not checked: ") and not file_of(record).exists()


def test_what_cannot_be_checked_is_said(record: Path, tmp_path: Path) -> None:
    cost = read_json(record / "result.json")["cost"]
    environment = {**read_json(record / "result.json")["environment"], "tf32": True, "versions": {"torch": "2.13.0"}}
    changed(record, cost={**cost, "device": "Abacus 3"}, environment=environment)
    checked = check(record, tmp_path)
    assert checked.agrees is None and "was made on Abacus 3: check it on such a device" in checked.sentence
    assert "is not the directory of a finished run" in check(tmp_path / "nothing", tmp_path).sentence
    timing = next(path for path in published() if path.parent.name.startswith("timing-"))
    assert "is a timing" in check(timing, tmp_path).sentence


@pytest.mark.slow
@needs_real_data
def test_today_s_code_trains_the_fastest_record_of_each_family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fastest that this kind of machine can check; a family without any is left out."""
    monkeypatch.setenv("HIGHWAY_DATA", str(REAL_DATA))
    monkeypatch.setattr("highway.recheck.checks.keep", lambda *_: None)
    checked: dict[str, Checked] = {}
    for record in sorted(published(), key=seconds):
        family = record.parent.name.rsplit("-", 1)[0]
        if family not in checked and (outcome := check(record, tmp_path)).agrees is not None:
            checked[family] = outcome
    differing = [outcome.sentence for outcome in checked.values() if not outcome.agrees]
    assert not differing


def test_a_later_check_keeps_that_the_code_was_found(
    record: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once a commit without changes has the fingerprint of a record, its uncommitted changes matter no more."""
    environment = read_json(record / "result.json")["environment"]
    changed(record, environment={**environment, "git_commit": "abcdefabcdef+"})
    monkeypatch.setattr("highway.recheck.checks.commit", lambda: "0123456789ab")
    assert check(record, tmp_path).agrees and changed(record).unknown == []
    monkeypatch.setattr("highway.recheck.checks.fingerprint", lambda experiment: "f" * 12)
    assert check(record, tmp_path).agrees and changed(record).unknown == []
