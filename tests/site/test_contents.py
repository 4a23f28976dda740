"""Pages tell more than the report: findings, the log, sweeps with further overrides, and files to take away."""

import html
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from highway.config.compose import experiment
from highway.files.writing import write_text
from highway.site.build import build_site, every_table
from highway.site.notes import findings, log_entries
from highway.sweep import grid
from highway.sweep.reading import load_table, parse_table
from tests.support.tables import TABLE, content, put

pytestmark = pytest.mark.usefixtures("no_published_records")


def test_a_table_has_its_findings_and_what_the_log_says(tmp_path: Path) -> None:
    found = findings("highway_t5")
    assert any("L3-6" in finding.stated and "gates no layer" in finding.computed for finding in found)
    assert not findings("highway") and not log_entries("highway_t"), "a part of a name names no table"
    index = build_site(tmp_path, [load_table("highway_t5")])
    text = html.unescape((index.parent / "highway_t5" / "index.html").read_text())
    assert 'id="findings"' in text and all(entry.title in text for entry in log_entries("highway_t5")[:1])


def test_a_sweep_with_further_overrides_has_a_page(tmp_path: Path) -> None:
    grid.keep_overrides("highway_t1", "smoke", ["trainer.max_steps=20"], tmp_path)
    (table,) = (table for table in every_table(tmp_path) if table.id == "highway_t1,trainer.max_steps=20")
    put(tmp_path, "tanh,trainer.max_steps=20", 1, 1.4, "smoke", table=table)
    write_text(tmp_path / "report" / "assets" / "plotly.min.js", "of an older version")
    index = build_site(tmp_path, [TABLE, table])
    assert ", with trainer.max_steps=20" in index.read_text()
    assert not (tmp_path / "report" / "assets" / "plotly.min.js").exists()
    page = (index.parent / table.id / "index.html").read_text()
    assert 'aria-label="seed 1 of + tanh SDU"' in page and "+ tanh SDU, trainer.max_steps" not in page


def test_a_grid_has_a_title_in_words_and_the_columns_that_were_asked_for(tmp_path: Path) -> None:
    choices = {"model": ["transformer"], "dataset": ["ptb_char"], "gate": ["none", "sdu_tanh"], "seed": ["1", "2"]}
    runs = [experiment(["model=transformer", "dataset=ptb_char", "gate=none", "layers=all"])]
    table = parse_table(grid.as_table(None, "highway train -m gate=none,sdu_tanh", choices, runs))
    assert table.caption == "gate (none, sdu_tanh): transformer, ptb_char"
    assert len({column.title for column in table.columns}) == len(table.columns) > 1, "heads of valid and test differ"
    assert grid.command(table, "paper") == "highway train -m gate=none,sdu_tanh"
    heads: dict[str, Any] = {"title": "Do gates help?", "columns": ["test_bpc", "parameters"]}
    table = parse_table(grid.as_table("mine", "highway train -m", choices, runs, **heads))
    assert table.caption == "Do gates help?" and "columns=test_bpc,parameters" in table.command
    assert [column.metric for column in table.columns] == heads["columns"]
    assert "parameters" not in [column.metric for column in table.also]


def test_what_a_reader_can_take_away(tmp_path: Path) -> None:
    run = put(tmp_path, "tanh", 1, 1.4)
    folder = build_site(tmp_path, [TABLE]).parent
    assert "tanh,'+ tanh SDU" in (folder / "highway_t1" / "paper" / "table.csv").read_text()
    record = folder / "cells" / f"{run.parent.name}-seed1.json"
    assert json.loads(record.read_text()) == json.loads((run / "result.json").read_text())


GATES = re.compile("Gates beside no gate.*?</table>", re.DOTALL)


def test_the_index_counts_no_run_twice(tmp_path: Path) -> None:
    """A table with further overrides lists the table's own rows again, unchanged."""
    for seed in (1, 2, 3):
        put(tmp_path, "baseline", seed, 1.5 + seed / 1000)
        put(tmp_path, "tanh", seed, 1.4 + seed / 1000)
    (before,) = GATES.findall(build_site(tmp_path, [TABLE]).read_text())
    grid.keep_overrides("highway_t1", "paper", ["model.dropout=0.3"], tmp_path)
    tables = [table for table in every_table(tmp_path) if table.id.startswith("highway_t1")]
    (after,) = GATES.findall(build_site(tmp_path, tables).read_text())
    assert len(tables) == 2
    assert "sdu tanh" in before and after == before


def test_a_sweep_with_many_overrides_has_a_page(tmp_path: Path) -> None:
    """File systems allow names of 255 bytes, so the folder of many overrides has a shorter one."""
    overrides = [f"trainer.{key}=1000000" for key in ("max_steps", "validate_every", "log_every", "max_epochs")]
    overrides += ["model.dropout=0.333333", "model.width=1024", "model.feed_forward=4096"]
    overrides += ["optimizer.lr=0.123456789", "optimizer.clip=0.123456789"]
    grid.keep_overrides("highway_t1", "smoke", overrides, tmp_path)
    (table,) = (table for table in every_table(tmp_path) if table.id.startswith("highway_t1,"))
    folder = build_site(tmp_path, [table]).parent / table.id
    assert (folder / "index.html").exists() and len(folder.name) < 140
    other = grid.folder_name(",".join(["highway_t1", *overrides, "seed=2"]))
    assert other != table.id and other[:100] == table.id[:100]


def test_a_trial_that_changes_changes_the_page(tmp_path: Path) -> None:
    choose = {"optimizer.lr": [0.1, 0.2, 0.3], "by": "valid_bpc"}
    row: dict[str, Any] = {"id": "a", "label": "A", "overrides": ["gate=none"], "choose": choose}
    table = parse_table(content(recipe=["model=transformer", "dataset=ptb_char"], rows=[row]))

    def trial(rate: float, value: float) -> None:
        of_rate = replace(table.rows[0], choose=None, overrides=("gate=none", f"optimizer.lr={rate}"))
        put(tmp_path, "a", 1, value, table=replace(table, rows=(of_rate,)))

    for rate, value in ((0.1, 1.0), (0.2, 2.0), (0.3, 3.0)):
        trial(rate, value)
    for value in (3.0, 2.5):
        trial(0.3, value)
        folder = build_site(tmp_path, [table]).parent / "t"
        shown = ((folder / "index.html").read_text(), (folder / "paper" / "table.md").read_text())
        assert all(f"0.3 {value:.3f}" in text for text in shown), "the page and the table to download"
