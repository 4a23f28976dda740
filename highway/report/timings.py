"""The timings of a table: each is one record of all rows."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from highway.errors import counted
from highway.ledger.directory import roots
from highway.report.rows import name_of_runs, overrides_of
from highway.report.sample import Sample, results
from highway.sweep.table import Table


def timings(
    table: Table, budget: str, outputs_dir: Path
) -> tuple[Table, dict[str, tuple[Sample, ...]], dict[str, tuple[str, ...]]]:
    """Return every timing of these rows, and the overrides that describe each row.

    With several devices, each device has its own rows and claims in the table returned.
    """
    overrides = {row.id: overrides_of(table, row, budget) for row in table.rows}
    names = {row_id: name_of_runs(words) for row_id, words in overrides.items()}
    found: dict[tuple[str, int], tuple[Path, dict[str, Any]]] = {}
    for directory in (path for root in roots(outputs_dir) for path in sorted(root.glob("timing-*"))):
        for folder, result in results(directory):
            if result["status"] == "finished" and set(result.get("rows", ())) == set(names.values()):
                found.setdefault((_setting(result), result["seed"]), (folder, result))
    settings = sorted({setting for setting, _ in found})
    by_row = {
        _on(row_id, setting, settings): tuple(
            Sample(folder, seed, {**result, **result["rows"][name], "row": name})
            for (timing_setting, seed), (folder, result) in sorted(found.items())
            if timing_setting == setting
        )
        for row_id, name in names.items()
        for setting in settings or [""]
    }
    overrides_by_row = {
        _on(row_id, setting, settings): words for row_id, words in overrides.items() for setting in settings or [""]
    }
    return _by_setting(table, settings), by_row, overrides_by_row


def _setting(result: dict[str, Any]) -> str:
    """Return device, threads and compilation, which two timings must share to be seeds of the same row."""
    environment = result["environment"]
    mode = environment["compile"]
    compiled = f", compiled{'' if mode == 'default' else f' ({mode})'}" if mode else ""
    return f"{result['cost']['device']}, {counted(environment['threads'], 'thread')}{compiled}"


def _on(row_id: str, setting: str, settings: list[str]) -> str:
    return f"{row_id} on {setting}" if len(settings) > 1 else row_id


def _by_setting(table: Table, settings: list[str]) -> Table:
    if len(settings) < 2:
        return table
    rows = [
        replace(row, id=_on(row.id, setting, settings), label=f"{row.label} ({setting})")
        for setting in settings
        for row in table.rows
    ]
    claims = [
        replace(
            claim,
            text=f"{claim.text} ({setting})",
            rows=tuple(_on(name, setting, settings) for name in claim.rows),
            than=tuple(_on(name, setting, settings) for name in claim.than),
        )
        for setting in settings
        for claim in table.claims
    ]
    against = {
        _on(table.rows[0].id, setting, settings): tuple(_on(row.id, setting, settings) for row in table.rows[1:])
        for setting in settings
    }
    return replace(table, rows=tuple(rows), claims=tuple(claims), against=against)
