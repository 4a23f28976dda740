"""Tables on W&B, without a network: the contents of a workspace, and of a record that is sent."""

import csv
import json
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from highway.cli import main
from highway.dashboard import upload
from highway.dashboard.upload import send
from highway.dashboard.workspace import describe, panels, report, send_report, workspace
from highway.report.collect import collect
from highway.report.style import looks
from highway.tables.reading import load_table
from tests.support.tables import put
from tests.support.wandb_files import Offline, whole_records_of

TABLE = load_table("highway_t5")
pytestmark = pytest.mark.usefixtures("no_published_records")


def test_a_workspace_has_what_the_table_file_asks_for(tmp_path: Path) -> None:
    collected = collect(TABLE, "paper", tmp_path)
    made = workspace(collected, "somebody", "highway")
    shown = [figure for figure in TABLE.figures if figure.kind == "curves"]
    expected = {f"{split}/{kind}" for figure in shown for kind in figure.metrics for split in figure.splits}
    convergence, training = made.sections
    assert {panel.y[0] for panel in convergence.panels} == expected == {"train/bpc", "valid/bpc"}
    lines = {panel.y[0]: panel.custom_expressions for panel in convergence.panels}
    values = {row.paper["valid_bpc"] for row in TABLE.rows if row.paper}
    assert lines["valid/bpc"] is not None and len(lines["valid/bpc"]) == len(values)
    assert f"0 * ${{valid/bpc}} + {TABLE.row('tanh').paper['valid_bpc']:g}" in lines["valid/bpc"]
    assert {panel.y[0] for panel in training.panels} >= {"train/gradient_norm", "train/gate_norm"}
    assert made.runset_settings.group_colors[("tanh",)] == looks(collected)["tanh"].colour
    model = json.loads(made._to_model().model_dump_json())  # what would be sent to the server
    assert "valid/bpc" in json.dumps(model) and "highway_t5" in json.dumps(model)
    assert any("validation bits per character" in line and "1.241" in line for line in describe(made))
    small = panels(collect(TABLE, "mini", tmp_path))
    assert not any(panel.custom_expressions for panel in small), "smaller models have no lines of the paper"


def test_no_panel_is_empty_and_the_report_has_those_of_the_workspace(tmp_path: Path) -> None:
    without_gates = collect(load_table("r_transformer_t2"), "paper", tmp_path)
    for collected in (without_gates, collect(TABLE, "paper", tmp_path)):
        made, text = workspace(collected, "somebody", "highway"), report(collected, "somebody", "highway")
        sections = {section.name: [panel.y[0] for panel in section.panels] for section in made.sections}
        headings, grids = text.blocks[1::2], text.blocks[2::2]
        assert sections == {
            heading.text: [panel.y[0] for panel in block.panels] for heading, block in zip(headings, grids, strict=True)
        }
        assert ("train/gate_norm" in sections["Training"]) == (collected is not without_gates)


def test_a_record_sent_after_the_fact_reads_as_it_ran(tmp_path: Path) -> None:
    folder = put(tmp_path, "tanh", 2, 1.2, table=TABLE, parameters={"total": 7, "gate": 3})
    put(tmp_path, "tanh", 3, 1.2, table=TABLE, status="diverged")
    assert send(collect(TABLE, "paper", tmp_path), "offline", "highway", tmp_path / "wandb") == 1
    assert send(collect(TABLE, "paper", tmp_path), "offline", "highway", tmp_path / "wandb") == 0  # not sent twice
    (path,) = (tmp_path / "wandb").rglob("run-*.wandb")
    read = Offline(path)
    assert (read.run.run_group, read.run.display_name) == ("highway_t5", "tanh seed 2")
    assert read.config["row"] == "tanh" and read.config["seed"] == 2 and read.config["gate"]["residual"] == "sdu"
    with open(folder / "curves.csv", newline="") as file:
        ours = [
            float(row["value"]) for row in csv.DictReader(file) if (row["split"], row["metric"]) == ("valid", "bpc")
        ]
    assert [row["valid/bpc"] for row in read.rows if "valid/bpc" in row] == ours
    assert read.summary["test_bpc"] == 1.2 and read.summary["test_bpc_last"] == 2.2
    assert read.summary["parameters/gate"] == 3


def test_a_table_is_sent_as_an_artefact(tmp_path: Path) -> None:
    page = tmp_path / "table.md"
    page.write_text("a table")
    send_report([page], "highway_t5", "offline", "highway", tmp_path / "wandb")
    (path,) = (tmp_path / "wandb").rglob("run-*.wandb")
    content = b"".join(whole_records_of(path))
    assert b"table.md" in content and b"highway_t5-report" in content


def test_offline_runs_are_uploaded_oldest_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "b/wandb/offline-run-20260102_000000-x",
        "a/wandb/offline-run-20260103_000000-x",
        "a/offline-run-20260101_000000-x",
    ):
        (tmp_path / name).mkdir(parents=True)
    done = tmp_path / "c" / "offline-run-20250101_000000-y"
    done.mkdir(parents=True)
    (done / "run-y.wandb.synced").touch()
    seen: list[list[str]] = []

    class Ended:
        returncode = 1

    def run(command: list[str]) -> Ended:
        seen.append(command)
        return Ended()

    monkeypatch.setattr(upload.subprocess, "run", run)
    assert not upload.sync(tmp_path)
    (command,) = seen
    assert command[1:4] == ["-m", "wandb", "sync"]  # without options, which another version of wandb might lack
    assert [Path(path).name[12:20] for path in command[4:]] == ["20260101", "20260102", "20260103"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("highway_t5", "--send"), "1 finished run would be sent, and the report."),
        (("--sync",), "1 offline run would be uploaded."),
    ],
)
def test_a_dry_run_sends_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    sentence: str,
) -> None:
    outputs = tmp_path / "outputs"
    put(outputs, "tanh", 1, 1.2, table=TABLE)
    (outputs / "wandb" / "offline-run-20260101_000000-x").mkdir(parents=True)
    before = sorted(outputs.rglob("*.wandb"))
    uploaded: list[object] = []
    monkeypatch.setattr("highway.dashboard.upload.sync", uploaded.append)
    monkeypatch.setattr(sys, "argv", ["highway dashboard", *arguments, "--dry-run"])
    with suppress(SystemExit):
        main("dashboard")
    assert sentence in capsys.readouterr().out
    assert uploaded == [] and sorted(outputs.rglob("*.wandb")) == before


def test_a_table_without_figures_has_a_panel_of_its_main_metric(tmp_path: Path) -> None:
    table = TABLE.model_copy(update={"figures": []})
    shown = panels(collect(table, "paper", tmp_path))
    assert [panel.y for panel in shown] == [["train/bpc"], ["valid/bpc"]]
    put(tmp_path, "tanh", 1, 1.2, table=table)
    made = report(collect(table, "paper", tmp_path), "somebody", "highway")
    assert "+ tanh SDU" in made.blocks[0].text, "it holds the table"
    assert [len(block.panels) for block in made.blocks if hasattr(block, "panels")] == [2, 5], "as the workspace"
