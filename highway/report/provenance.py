"""Marks on the numbers of a record: what is unknown about the code that computed them, and what has changed since."""

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

OLDER, STALE = "older revision", "stale: other code"
NO_FINGERPRINT, TWO_CODES = "no fingerprint", "two codes"
NO_COMMIT, UNCOMMITTED = "no commit", "uncommitted changes"
CHECKED, TRAINING_CHECKED, OTHERWISE = "checked", "training checked", "trains otherwise"
EXPLAINED = {  # by the beginning of a mark
    NO_FINGERPRINT: "the record does not say which code computed it",
    TWO_CODES: "the code was changed while the run trained",
    NO_COMMIT: "the run was made outside a git repository",
    UNCOMMITTED: "the working tree was not the commit that the record names",
    OLDER: "a fix since then changes its numbers",
    CHECKED: "later code trains the first steps, and evaluates, as the record did",
    TRAINING_CHECKED: "later code trains the first steps as the record did; the evaluation is not checked",
    OTHERWISE: "trained again, its first steps differ from the record's by more than rounding",
    STALE: "the code has changed since; nobody has checked what that does to its numbers",
}


def unknown(result: dict[str, Any]) -> list[str]:
    """Return the marks that say what is unknown about the code of a record; a key of EXPLAINED begins each mark."""
    code, commit = result.get("fingerprint"), result["environment"]["git_commit"]
    applies = {
        NO_FINGERPRINT: not code,
        TWO_CODES: "+" in (code or ""),
        NO_COMMIT: not commit,
        UNCOMMITTED: (commit or "").endswith("+"),
    }
    return [mark for mark, holds in applies.items() if holds]


def of_seeds(marks: dict[int, Sequence[str]]) -> list[str]:
    """Return the marks of a row from those of its seeds; a mark that some seeds lack names the seeds that have it."""
    seeds_of: dict[str, list[int]] = {}
    for seed, names in marks.items():
        for mark in names:
            seeds_of.setdefault(mark, []).append(seed)
    return [mark if len(seeds) == len(marks) else f"{mark} ({seeds_text(seeds)})" for mark, seeds in seeds_of.items()]


def seeds_text(seeds: Sequence[int]) -> str:
    """Name seeds in ascending order; a range stands for four or more consecutive ones: `seeds 1, 2, 5-9`."""
    parts: list[str] = []
    for _, group in itertools.groupby(enumerate(seeds), lambda pair: pair[1] - pair[0]):
        consecutive = [seed for _, seed in group]
        parts += [f"{consecutive[0]}-{consecutive[-1]}"] if len(consecutive) > 3 else map(str, consecutive)
    return f"{'seed' if len(seeds) == 1 else 'seeds'} {', '.join(parts)}"


def of_runs(marks: Iterable[Sequence[str]]) -> str:
    """Return the marks of what rests on several records, such as a verdict: `no commit (2 of 6 runs), two codes`."""
    every = list(marks)
    counts = Counter(mark for of_run in every for mark in of_run)
    return ", ".join(
        mark if counts[mark] == len(every) else f"{mark} ({counts[mark]} of {len(every)} runs)"
        for mark in EXPLAINED
        if counts[mark]
    )


def explained(marks: set[str]) -> list[str]:
    """Return a sentence on each mark, in the order of EXPLAINED."""
    return [
        f"{mark[0].upper()}{mark[1:]}: {text}."
        for mark, text in EXPLAINED.items()
        if any(given.startswith(mark) for given in marks)
    ]
