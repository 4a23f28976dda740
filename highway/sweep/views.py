"""Links outputs/<table>/<budget>/<row>/seed<k> to run directories, since a run may serve several tables.

Where overrides of the command line change a row's configuration, they are part of the link's name.
"""

import os

from highway.config.check import flat
from highway.config.experiment import Experiment
from highway.config.yaml_file import read_yaml
from highway.ledger.directory import RunDirectory
from highway.ledger.identity import PARTS, configuration, names_run


def link_view(directory: RunDirectory, table: str, budget: str, row: str) -> RunDirectory | None:
    """Link a row to its run; return the run to which the row was linked before, or None if it is the same or new."""
    outputs = directory.path.parents[2]
    link = outputs / table / budget / row.replace("/", "_") / directory.path.name
    target = os.path.relpath(directory.path, link.parent)
    before = os.readlink(link) if link.is_symlink() else None
    if before == target:
        return None
    directory.path.mkdir(parents=True, exist_ok=True)
    link.parent.mkdir(parents=True, exist_ok=True)
    new = link.with_name(f".{link.name}.{os.getpid()}")
    new.unlink(missing_ok=True)
    new.symlink_to(target)
    new.replace(link)
    return RunDirectory((link.parent / before).resolve()) if before else None


def differences(earlier: RunDirectory, experiment: Experiment) -> list[str]:
    """List what has changed in a recipe since an earlier run, as in `model.width 128 -> 64`."""
    if not earlier.config.exists():
        return ["that run was never started"]
    old, new = read_yaml(earlier.config), configuration(experiment)
    before, after = (flat({name: values[name] for name in PARTS}) for values in (old, new))
    keys = [key for key, value in before.items() if value != after.get(key) and names_run(key)]
    return [f"{key} {before[key]} -> {after.get(key, 'absent')}" for key in keys]
