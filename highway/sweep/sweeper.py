"""Hydra's sweeper for tables and for ordinary grids: decides what is missing, and hands it to the launcher.

    -m table=highway_t1 budget=mini seeds=1,2,3        the table's rows x seeds
    -m gate=none,sdu_tanh layers=l1-3,all seed=1,2     every combination; name=mine says what it is called
    fail_fast=true stops the sweep at the first failure; retry_failed=true runs cells again that have failed before;
    rerun=true those that other code than today's has finished, and keeps their records in earlier/
    plan=true says what would run and what it takes; nothing does

Every cell is composed and checked before the first one starts, so a mistake in the last row costs nothing.
"""

import hashlib
import itertools
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, ValueType
from hydra.core.plugins import Plugins
from hydra.errors import HydraException
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from highway.config.check import SWEEP_ONLY
from highway.config.experiment import Experiment
from highway.config.guard import check_words
from highway.errors import Refused, SweepFailed, listing
from highway.ledger.cell import DONE, Cell
from highway.ledger.fingerprint import fingerprint, of_together
from highway.ledger.identity import changes_nothing, identified
from highway.sweep import grid
from highway.sweep.launch import Planned, command_line, composed, last_words, quoted
from highway.sweep.reading import load_table, parse_table
from highway.sweep.table import Row, Table, Told, last_on_each_key
from highway.sweep.timed import timing
from highway.sweep.views import differences, link_view

log = logging.getLogger("highway")
LONGEST_NAME = 120
MOST_CELLS = 50_000


class HighwaySweeper(Sweeper):
    tell: Callable[[list[Told], Path], None]  # how it ended, with the folder of outputs
    foresee: Callable[[list[Planned], list[Planned], int | None], None]  # all runs, those missing, threads -> the cost
    have_data: Callable[[list[Experiment]], None]  # what these will read; refuses what cannot be had
    planning = False

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.context = hydra_context
        self.config: DictConfig = config
        self.timings: dict[tuple[str, ...], Planned] = {}
        self.then: list[Callable[[], None]] = []  # what is written once nothing can be refused any more
        self.launcher: Any = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> None:
        given = OverridesParser.create(self.context.config_loader).parse_overrides(arguments)
        words = {word.key_or_group: word for word in given}
        for key in {*SWEEP_ONLY} & {word.key_or_group for word in given if word is not words[word.key_or_group]}:
            raise Refused(f"{key}=... stands there twice: several are written with commas between them.")
        flags = ("fail_fast", "retry_failed", "rerun", "plan")
        fail_fast, retry_failed, rerun, self.planning = (_truth(words.pop(key, None)) for key in flags)
        plan, told = self._plan({key: word for key, word in words.items() if not word.is_hydra_override()})
        unique = list({planned.cell: planned for planned in plan}.values())
        again = [planned for planned in unique if rerun and _of_other_code(planned)]
        missing = [planned for planned in unique if planned in again or planned.before not in DONE]
        missing = [planned for planned in missing if retry_failed or planned.before != "failed"]
        if self.planning:
            several = [planned for planned in missing if not planned.alone]
            threads = self.launcher.threads_of_a_run(several, len(unique)) if several else None
            self.foresee(unique, missing, threads)
            return
        if reading := [planned.experiment for planned in missing if planned.experiment]:
            self.have_data(reading)  # before anything is written: without data there is one sentence, and no folder
        _set_aside(again)
        for write in self.then:
            write()
        log.info("%d cells: %d done already, %d to run.", len(unique), len(unique) - len(missing), len(missing))
        together = [planned for planned in missing if not planned.alone]
        if together:
            self.launcher.launch_cells(together, sum(not planned.alone for planned in unique), fail_fast)
        for planned in missing:
            if planned.alone and not (fail_fast and any(one.cell.status == "failed" for one in unique)):
                self.launcher.launch_cells([planned], 1, fail_fast)
        if told:
            self.tell(told, unique[0].cell.directory.parents[2])
        _summarise(unique)

    def _plan(self, words: dict[str, Override]) -> tuple[list[Planned], list[Told]]:
        """All cells that the command line describes, composed and checked; the tables that compare them."""
        tables, seeds, arms, rows, name = (words.pop(key, None) for key in ("table", "seeds", "arms", "rows", "name"))
        if tables is None or tables.value() is None:
            for key, word in (("seeds", seeds), ("arms", arms), ("rows", rows)):
                if word is not None:
                    hint = "write seed=1,2 for a grid" if key == "seeds" else "it chooses among a table's rows"
                    raise Refused(f"{key}=... needs table=...; {hint}.")
            return self._of_grid(words, _values(name))
        if _values(name) not in ([], ["null"]):
            raise Refused("name=... is of a grid; a table has one.")
        if "seed" in words:
            raise Refused("seed=... is of one run, or of a grid; those of a table are chosen by seeds=1,2,3.")
        budgets = _values(words.pop("budget", None)) or ["paper"]
        wanted = [
            (table, row, budget, seed)
            for table, budget in itertools.product(map(load_table, _values(tables)), budgets)
            for row, seed in itertools.product(_rows(table, budget, rows, arms), _seeds(seeds))
        ]
        plan, told = [], {}
        for table, row, budget, seed in wanted:
            for _, choice in _grid(words.values()):
                added = self._added(table, row, budget, seed, choice)
                beside = tuple(word for word in choice if not changes_nothing(word.split("=", 1)[0])) if added else ()
                told[table.id, budget, beside] = (table, budget, beside)
                planned = self._row(table, row, budget, seed, added, choice)
                self.then.append(partial(self._link, planned, table, budget, row, added))
                plan.append(planned)
        longer = {key[:2] for key in told if key[2]}  # these tell of the table's own rows, too
        return plan, [one for key, one in told.items() if key[2] or key[:2] not in longer]

    def _of_grid(self, words: dict[str, Override], name: list[str]) -> tuple[list[Planned], list[Told]]:
        combinations = [(label or "run", choice) for label, choice in _grid(words.values())]
        run = [composed(self, choice) for _, choice in combinations]
        plan = [
            self._described(experiment, label, choice)
            for experiment, (label, choice) in zip(run, combinations, strict=True)
        ]
        if self.planning or not all(_is_result(planned) for planned in plan):
            return plan, []
        choices = {word.get_key_element().removeprefix("++"): _values(word) for word in words.values()}
        command = command_line([f"{key}={','.join(values)}" for key, values in choices.items()])
        if len(name) > 1:
            raise Refused(f"name={','.join(name)}: a grid has one name.")
        own = name[0] if name and name[0] != "null" else None
        described = grid.as_table(own, command.replace("train.py", "train.py -m"), choices, run)
        self.then.append(partial(grid.keep, described, run[0].outputs_dir))
        table = parse_table(described)
        rows = {row.overrides: row for row in table.rows}
        varying = {word.split("=", 1)[0] for word in table.rows[0].overrides}
        plan = [
            _of_row(planned, table, rows[tuple(word for word in choice if word.split("=", 1)[0] in varying)], choice)
            for planned, (_, choice) in zip(plan, combinations, strict=True)
        ]
        return plan, [(table, budget, ()) for budget in table.budgets]

    def _added(self, table: Table, row: Row, budget: str, seed: int, choice: list[str]) -> str:
        """What of the command line makes another cell of a row; nothing where the cell stays the same."""
        changing = [word for word in choice if not changes_nothing(word.split("=", 1)[0])]
        if not changing:
            return ""
        own = table.overrides(row, budget, seed)
        same = identified(composed(self, own)) == identified(composed(self, last_on_each_key([*own, *changing])))
        return "" if same else " ".join(changing)

    def _row(self, table: Table, row: Row, budget: str, seed: int, added: str, choice: list[str]) -> Planned:
        """A row of a table, with what the command line adds; that wins over the table."""
        if table.kind == "timing":
            return self._timing(table, budget, seed, added, choice)
        words = last_on_each_key([*table.overrides(row, budget, seed), *choice])
        name = f"{row.id} seed {seed} {added}".strip()
        return self._described(composed(self, words), f"{table.id} {name}", words, table.id, name)

    def _timing(self, table: Table, budget: str, seed: int, added: str, choice: list[str]) -> Planned:
        """The one cell that all rows of a timing are."""
        words = (f"table={table.id}", f"budget={budget}", f"seed={seed}", *choice)
        if words not in self.timings:  # it is asked for once a row
            described = timing(words, partial(composed, self))
            cell, trainer = described.cell, described.first.trainer
            name = f"{table.id} seed {seed} {added}".strip()
            needs = (trainer.accelerator, trainer.devices)
            settled = tuple(last_on_each_key([*words, f"trainer.threads={described.threads}"]))
            code = of_together(described.rows.values())
            self.timings[words] = Planned(name, settled, cell, *needs, cell.status, alone=True, fingerprint=code)
        return self.timings[words]

    def _described(
        self, experiment: Experiment, label: str, words: Sequence[str], group: str = "grid", run: str | None = None
    ) -> Planned:
        mirror = [f"logger.group={quoted(group)}", f"logger.run={quoted(run or f'{label} seed {experiment.seed}')}"]
        cell, trainer = Cell.of(experiment), experiment.trainer
        words = (*words, *mirror)
        code, needs = fingerprint(experiment), (trainer.accelerator, trainer.devices)
        about: dict[str, Any] = {"fingerprint": code, "nodes": trainer.nodes, "experiment": experiment}
        return Planned(label, words, cell, *needs, cell.status, **about)

    def _link(self, planned: Planned, table: Table, budget: str, row: Row, added: str) -> None:
        if not _is_result(planned):
            return
        replaced = link_view(planned.cell, table.id, budget, _view_of(row, added))
        if replaced is not None and not planned.alone:
            changed = "; ".join(differences(replaced, composed(self, planned.overrides))) or "another revision"
            log.info("%s: the recipe is not that of %s any more: %s.", planned.label, replaced.directory, changed)


def _is_result(planned: Planned) -> bool:
    """Not where debug=... put it."""
    return planned.cell.directory.parent.parent.name == "cells"


def _of_row(planned: Planned, table: Table, row: Row, choice: Sequence[str]) -> Planned:
    """A cell of a grid, called as the grid's table calls its row."""
    seed = next((word for word in choice if word.startswith("seed=")), "seed=1").replace("=", " ")
    mirror = (f"logger.group={quoted(table.id)}", f"logger.run={quoted(f'{row.id} {seed}')}")
    return replace(planned, overrides=(*planned.overrides[: -len(mirror)], *mirror))


def _view_of(row: Row, added: str) -> str:
    """What a view is called; file systems bear no long names."""
    name = ",".join([row.id, *added.split()])
    return name if len(name) <= LONGEST_NAME else f"{row.id},{hashlib.sha256(added.encode()).hexdigest()[:8]}"


def _of_other_code(planned: Planned) -> bool:
    """Whether it is done, by other code than today's."""
    result = planned.cell.result() or {}
    return planned.cell.done and result.get("fingerprint") not in (None, planned.fingerprint)


def _set_aside(done: list[Planned]) -> None:
    for planned in done:
        with planned.cell.leased():
            planned.cell.set_aside()
        log.info("%s: finished by other code; its record is in %s/earlier.", planned.label, planned.cell.directory)


def _summarise(cells: list[Planned]) -> None:
    """Say of each cell that did not finish why, and raise: Hydra ignores what a sweeper returns."""
    bad = {planned: planned.cell.status for planned in cells if planned.cell.status != "finished"}
    for planned, status in bad.items():
        error = (planned.cell.result() or {}).get("error") or last_words(planned.cell.log)
        log.error("%s: %s (%s)", planned.label, status, error)
    if bad:
        again = ", and retry_failed=true runs the failed ones again" if "failed" in bad.values() else ""
        raise SweepFailed(
            f"{len(bad)} of {len(cells)} cells did not finish; the same command resumes the interrupted ones{again}."
        )


def _grid(words: Any) -> list[tuple[str, list[str]]]:
    """Every combination of the values of the swept words, with a label of what varies."""
    choices = [[f"{word.get_key_element().removeprefix('++')}={value}" for value in _values(word)] for word in words]
    if math.prod(map(len, choices)) > MOST_CELLS:
        raise Refused(
            f"these are more than {MOST_CELLS:,} runs, and each would be checked before the first one starts."
        )
    varying = [len(options) > 1 for options in choices]
    plan = []
    for combination in itertools.product(*choices):
        check_words(combination)
        label = " ".join(word for word, varies in zip(combination, varying, strict=True) if varies)
        plan.append((label, list(combination)))
    return plan


def _values(word: Override | None) -> list[str]:
    if word is None:
        return []
    if not word.is_sweep_override():
        return [word.get_value_element_as_str()]
    try:
        values = [str(value) for value in itertools.islice(word.sweep_string_iterator(), MOST_CELLS + 1)]
    except (HydraException, ValueError, TypeError) as error:
        raise Refused(f"{word.input_line} has no values to go through: {' '.join(str(error).split())}.") from error
    if word.value_type is ValueType.GLOB_CHOICE_SWEEP:
        values = [value for value in values if not value.startswith("_")]
    if not values:
        raise Refused(f"{word.input_line} names no value at all.")
    return values


def _seeds(word: Override | None) -> list[int]:
    values = _values(word) or ["1"]
    if not all(value.isdecimal() for value in values):
        raise Refused(f"seeds={','.join(values)} is not a list of whole numbers, as in seeds=1,2,3.")
    return [int(value) for value in values]


def _rows(table: Table, budget: str, rows: Override | None, arms: Override | None) -> list[Row]:
    if _values(rows) not in ([], ["null"]):
        if table.kind == "timing":
            raise Refused(f"{table.id} times its rows side by side: rows=... cannot choose among them.")
        return [table.row(row_id) for row_id in _values(rows)]
    return [row for row in table.at(budget) if _truth(arms) or not row.arm]


def _truth(word: Override | None) -> bool:
    value = (_values(word) or ["false"])[0].lower()
    if value not in ("true", "false"):
        assert word is not None
        raise Refused(f"{word.key_or_group}={value} is unknown; it takes {listing(['true', 'false'])}.")
    return value == "true"
