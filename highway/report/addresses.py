"""The addresses of rows: the directories that may hold their records. Composing a row takes long, so they are kept."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from highway.config.experiment import Experiment
from highway.files.kept import Kept, hashed_name
from highway.ledger.fingerprint import fingerprint, named_modules
from highway.ledger.identity import identity, named_revisions, run_name
from highway.sweep.table import Row, Table, last_on_each_key


@dataclass(frozen=True)
class Address:
    """The directory names of a row at today's revision and older ones, and the fingerprint of its code."""

    names: tuple[tuple[str, bool], ...]  # with whether it is an older one; today's is the first
    code: str

    @property
    def name(self) -> str:
        return self.names[0][0]


class Experiments(Mapping[str, Experiment]):
    """The experiments of rows, each composed when it is first asked for."""

    def __init__(self, overrides: Mapping[str, tuple[str, ...]]) -> None:
        self.overrides = overrides

    def __getitem__(self, row_id: str) -> Experiment:
        return composed(self.overrides[row_id])

    def __iter__(self) -> Iterator[str]:
        return iter(self.overrides)

    def __len__(self) -> int:
        return len(self.overrides)


@cache  # a report asks for hundreds, most of them more than once
def composed(overrides: tuple[str, ...]) -> Experiment:
    from highway.config.compose import experiment  # imports Hydra, which kept addresses do without

    return experiment(list(overrides))


def overrides_of(table: Table, row: Row, budget: str, seed: int = 1) -> tuple[str, ...]:
    """Return the overrides of a row at a budget, with the settings that were chosen for a seed, but with seed 0."""
    return tuple(last_on_each_key([*table.overrides(row, budget, seed), "seed=0"]))


def address_of(overrides: tuple[str, ...], kept: Kept) -> Address:
    """Return the address of a row; it is composed only if its address is not kept."""
    key = list(overrides)
    name = hashed_name("rows", key)
    if found := kept.read(name, key):
        return Address(tuple((folder, older) for folder, older in found["names"]), found["code"])
    row = composed(overrides)
    address = Address(tuple(run_names(row)), fingerprint(row))
    elsewhere = any(override.startswith("hydra.") for override in overrides)  # configuration files of others
    if not elsewhere and all(module.startswith("highway.") for module in named_modules(row)):
        kept.write(name, key, {"names": address.names, "code": address.code})
    return address


def run_names(row: Experiment) -> list[tuple[str, bool]]:
    """Return the directory names of a row, at today's revision and older ones, and whether each is an older one."""
    row_identity = identity(row)
    today = row_identity["revision"]
    ranges = [range(number, 0, -1) for number in today.values()]
    names = []
    for numbers in itertools.product(*ranges):
        revision = named_revisions(dict(zip(today, numbers, strict=True)))
        names.append((run_name(row.model.name, {**row_identity, "revision": revision}), revision != today))
    return names
