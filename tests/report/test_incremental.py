"""A report after a change is the report from nothing, byte for byte, and reads and draws only what has changed."""

import dataclasses
import io
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from highway.config.gates import GATES
from highway.files import kept
from highway.report import figures, reading
from highway.report.collect import Collected, collect
from highway.report.publish import publish
from highway.sweep import kept as keeping
from highway.sweep.table import Figure
from tests.support.changes import CHANGES, prepared
from tests.support.tables import TABLE, put


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let files that were just written count as settled; the kept values would else be of no use in a test."""
    monkeypatch.setattr(kept, "SETTLED", -10.0)
    monkeypatch.setattr("highway.config.home.REFERENCE", tmp_path / "none")


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The records that are read, by the name of their seed."""
    names: list[str] = []
    read_record = reading.read_record

    def counted(path: Path) -> Any:
        names.append(path.parent.name)
        return read_record(path)

    monkeypatch.setattr(reading, "read_record", counted)
    return names


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The figures that are drawn, here quickly: as the numbers that they show."""
    names: list[str] = []

    def draw(figure: Figure, collected: Collected, folder: Path) -> str:
        names.append(figure.id)
        folder.mkdir(parents=True, exist_ok=True)
        shown = [(sample.marks, sample.result["metrics"], sample.curves) for sample in collected.every]
        for ending in ("svg", "png"):
            (folder / f"{figure.id}.{ending}").write_text(repr((figure, collected.caveat, shown)))
        return figure.id

    monkeypatch.setattr(figures, "draw", draw)
    return names


def published(outputs: Path) -> dict[str, bytes]:
    """Report, and return what is printed and every file of the report."""
    console = Console(file=(printed := io.StringIO()), width=200)
    publish([(TABLE, "paper", ())], outputs, console)
    files = {path.name: path.read_bytes() for path in (outputs / "report").rglob("*") if path.is_file()}
    return files | {"printed": printed.getvalue().replace(str(outputs), "").encode()}


def from_nothing(outputs: Path, elsewhere: Path) -> dict[str, bytes]:
    """Report the same records in another folder, where nothing is kept."""
    shutil.rmtree(elsewhere, ignore_errors=True)
    shutil.copytree(outputs / "cells", elsewhere / "cells")
    return published(elsewhere)


@pytest.mark.parametrize("change", CHANGES)
def test_a_report_after_a_change_is_the_report_from_nothing(tmp_path: Path, drawn: list[str], change: str) -> None:
    prepared(tmp_path / "outputs")
    published(tmp_path / "outputs")
    CHANGES[change](tmp_path / "outputs")
    assert published(tmp_path / "outputs") == from_nothing(tmp_path / "outputs", tmp_path / "elsewhere")


@pytest.mark.slow
def test_the_figures_themselves(tmp_path: Path) -> None:
    prepared(tmp_path / "outputs")
    for change in CHANGES.values():
        change(tmp_path / "outputs")
        assert published(tmp_path / "outputs") == from_nothing(tmp_path / "outputs", tmp_path / "elsewhere")


def test_only_what_has_changed_is_read_and_drawn(tmp_path: Path, read: list[str], drawn: list[str]) -> None:
    prepared(tmp_path)
    published(tmp_path)
    assert len(read) == 6 and len(drawn) == len(TABLE.figures)
    read.clear(), drawn.clear()
    published(tmp_path)
    assert not read and not drawn
    put(tmp_path, "sigmoid", 3, 1.5)
    published(tmp_path)
    assert read == ["seed3"] and len(drawn) == len(TABLE.figures)


def test_other_code_finds_nothing_kept(
    tmp_path: Path, read: list[str], drawn: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared(tmp_path)
    published(tmp_path)
    read.clear(), drawn.clear()
    monkeypatch.setattr(keeping, "code_version", lambda: "another")
    published(tmp_path)
    assert len(read) == 6 and len(drawn) == len(TABLE.figures)


def test_another_revision_of_a_gate_is_another_address(
    tmp_path: Path, drawn: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared(tmp_path)
    published(tmp_path)
    cards = GATES["residual"]
    monkeypatch.setitem(cards, "sdu", dataclasses.replace(cards["sdu"], revision=3))
    assert "older revision" in published(tmp_path)["table.md"].decode()


def test_a_file_that_may_still_change_is_read_again(
    tmp_path: Path, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "SETTLED", 100.0)
    prepared(tmp_path)
    for _ in range(2):
        read.clear()
        collect(TABLE, "paper", tmp_path)
        assert len(read) == 6


@pytest.mark.parametrize("damage", ["flipped", "exchanged", "cut", "empty"])
def test_a_damaged_kept_value_counts_as_missing(tmp_path: Path, drawn: list[str], damage: str) -> None:
    prepared(tmp_path)
    whole = published(tmp_path)
    paths = sorted(path for path in (tmp_path / "cache").rglob("*.json"))
    contents = [path.read_bytes() for path in paths]
    for number, (path, content) in enumerate(zip(paths, contents, strict=True)):
        if damage == "flipped":
            path.write_bytes(content[:-20] + bytes([content[-20] ^ 1]) + content[-19:])
        elif damage == "exchanged":
            path.write_bytes(contents[number - 1])
        else:
            path.write_bytes(content[: len(content) // 2 if damage == "cut" else 0])
    drawn.clear()
    assert published(tmp_path) == whole and len(drawn) == len(TABLE.figures)


def test_outputs_that_cannot_be_written_are_read(tmp_path: Path) -> None:
    prepared(tmp_path)
    (tmp_path / "cache").write_text("a file in the place of the folder")
    assert len(collect(TABLE, "paper", tmp_path).every) == 6


def test_a_second_status_imports_no_hydra(tmp_path: Path) -> None:
    """Composing takes longer than all else that status does, so the first one keeps what it has composed."""
    outputs = tmp_path / "outputs"
    outputs.mkdir()
    program = (
        "import sys; from highway.__main__ import main;"
        "sys.argv = ['highway', 'table', 'status', 'highway_t1']; main();"
        "print([name for name in ('hydra', 'omegaconf', 'torch', 'numpy') if name in sys.modules])"
    )
    printed = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "HIGHWAY_OUTPUTS": str(outputs)},
            capture_output=True,
            text=True,
            check=True,
        )
        printed.append(done.stdout)
    first, second = (text.rpartition("[") for text in printed)
    assert "'hydra'" in first[2]
    assert second == (first[0], "[", "]\n")
