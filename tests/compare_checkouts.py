"""Check that two checkouts compute the same:  python tests/compare_checkouts.py BEFORE AFTER [--tables highway_t1 ...]

For every row and extra row of every table, compare the run's name at every budget. At smoke, also compare the names
and initial values of all parameters, and the weights after twenty steps, bit for bit. Each checkout is asked in its
own process, with its own code and this file. A change that leaves the computation alone prints only the count.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

TWENTY = ("trainer.max_steps=20", "trainer.validate_every=20", "trainer.threads=1", "trainer.accelerator=cpu")
FEW_TESTS = "debug.windows=2"  # what follows the steps is not compared


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", nargs="+", type=Path, metavar="CHECKOUT")
    parser.add_argument("--tables", nargs="*", default=[])
    parser.add_argument("--tell", type=Path, help="of one checkout: write what it computes to this file")
    arguments = parser.parse_args()
    if arguments.tell:
        arguments.tell.write_text(json.dumps(facts_of(arguments.tables), indent=1))
        return
    before, after = (_asked(checkout.resolve(), arguments.tables) for checkout in arguments.checkouts)
    differing = [
        f"{row} {fact}"
        for row, facts in before.items()
        for fact in facts
        if after.get(row, {}).get(fact) != facts[fact]
    ]
    print("\n".join(differing))
    print(f"{len(before)} rows: {len(differing)} facts differ; {len(set(after) - set(before))} rows are new.")
    sys.exit(bool(differing))


def _asked(checkout: Path, tables: list[str]) -> dict[str, Any]:
    """Return what a checkout computes. Instead of a checkout, accept a file that --tell wrote."""
    if checkout.is_file():
        return json.loads(checkout.read_text())
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        command = [sys.executable, __file__, str(checkout), "--tell", str(answer), "--tables", *tables]
        folders = {"PYTHONPATH": str(checkout), "HIGHWAY_OUTPUTS": folder, "HIGHWAY_DATA": f"{folder}/data"}
        subprocess.run(command, check=True, env={**os.environ, **folders}, cwd=checkout)
        return json.loads(answer.read_text())


def facts_of(tables: list[str]) -> dict[str, Any]:
    from highway.config.compose import experiment
    from highway.ledger.directory import RunDirectory
    from highway.run.build import model
    from highway.tables.reading import load_table, table_ids
    from highway.training import run

    facts: dict[str, Any] = {}
    for table in map(load_table, tables or table_ids()):
        for row in table.rows:
            here = facts.setdefault(f"{table.id} {row.id}", {})
            for budget in row.budgets or table.budgets:
                here[f"cell at {budget}"] = RunDirectory.of(experiment(table.overrides(row, budget, 1))).name
            if "smoke" not in table.budgets or not row.at("smoke"):
                continue
            overrides = [*table.overrides(row, "smoke", 1), *TWENTY, FEW_TESTS]
            described = experiment([override for override in overrides if not _is_earlier(override, overrides)])
            here["initial values"] = _digests(model(described).state_dict())
            directory = RunDirectory.of(described)
            assert run(described, directory, "compared") == "finished", (table.id, row.id)
            here["weights after twenty steps"] = _digests(_read(directory.last))
            print(f"{table.id} {row.id}", file=sys.stderr, flush=True)
    return facts


def _is_earlier(override: str, overrides: list[str]) -> bool:
    return any(other.split("=")[0] == override.split("=")[0] for other in overrides[overrides.index(override) + 1 :])


def _read(path: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    return load_file(path)


def _digests(tensors: dict[str, Any]) -> dict[str, str]:
    return {
        name: f"{list(tensor.shape)} {hashlib.sha256((tensor + 0).numpy().tobytes()).hexdigest()[:16]}"
        for name, tensor in tensors.items()  # adding 0 removes the sign of zeros
    }


if __name__ == "__main__":
    main()
