"""Create, update, send or print what Weights & Biases shows of a table, for `highway dashboard TABLE`."""

import os

from highway.config.extras import need
from highway.config.home import outputs_folder
from highway.errors import Refused, counted
from highway.report.collect import Collected, collect
from highway.report.render import write_report
from highway.sweep.grid import find


def show(name: str, budget: str, project: str, entity: str, send: bool, online: bool, dry_run: bool) -> None:
    """Create or update the workspace and the report of a table, or send its runs; dry_run: only print it."""
    need("wandb_workspaces", "dashboards", "highway dashboard")
    from highway.dashboard.workspace import describe, save, workspace

    outputs = outputs_folder()
    table = find(name, outputs)
    if table.timed:
        raise Refused(f"{table.id} is timed and has no curves. Type highway report {table.id} to see it.")
    collected = collect(table, budget, outputs)
    if send:
        return _send(collected, project, online, dry_run)
    print("\n".join(describe(workspace(collected, entity, project))))
    if not dry_run:
        if not (os.environ.get("WANDB_API_KEY") and entity):
            raise Refused("W&B needs WANDB_API_KEY and --entity to create a workspace. Add --dry-run to only print it.")
        kept = outputs / "dashboards" / f"{collected.table.id}-{collected.budget}.json"
        print("\n".join(save(collected, entity, project, kept)))


def _send(collected: Collected, project: str, online: bool, dry_run: bool) -> None:
    """Log finished runs that were not logged while they trained, and the rendered table."""
    from highway.dashboard.send import send, send_report, unsent

    outputs = outputs_folder()
    if not collected.every:
        raise Refused(f"{collected.table.id} has no records at budget {collected.budget} yet: train it first.")
    if dry_run:
        return print(
            f"{counted(len(unsent(collected, outputs / 'wandb')), 'finished run')} would be sent, and the report."
        )
    mode = "online" if online else "offline"
    count = send(collected, mode, project, outputs / "wandb")
    _, paths = write_report(collected, outputs / "report" / collected.table.id / collected.budget)
    send_report(paths, collected.table.id, mode, project, outputs / "wandb")
    how = "Sent" if online else "Logged offline, to upload with --sync"
    print(f"{how}: {counted(count, 'finished run')} not logged before, and the report.")
