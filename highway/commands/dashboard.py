"""Show a table on Weights & Biases:  highway dashboard TABLE [--budget mini] [--dry-run | --send | --sync]

Without a flag, create or update a workspace and a report of the table. --send logs finished runs that were not logged
while they trained; --sync uploads runs that were logged offline.
"""

import argparse
import os
import sys
from pathlib import Path

from highway.commands.arguments import Arguments, one_sentence
from highway.config.extras import need
from highway.config.groups import options
from highway.config.home import outputs_folder
from highway.errors import Refused, counted


def main() -> None:
    parser = Arguments(__doc__)
    parser.add_argument("table", nargs="?", metavar="TABLE", help="a table, or a grid that was run here")
    parser.add_argument("--budget", default="paper", choices=options("budget"), help="default: paper")
    wandb = parser.add_argument_group("Weights & Biases")
    wandb.add_argument("--project", default="highway", help="default: highway")
    wandb.add_argument("--entity", default=os.environ.get("WANDB_ENTITY", ""), help="default: $WANDB_ENTITY")
    parser.add_argument("--dry-run", action="store_true", help="only print what would be created, sent or uploaded")
    wandb.add_argument("--send", action="store_true", help="log finished runs, and the rendered table")
    wandb.add_argument(
        "--online", action="store_true", help="with --send: upload at once instead of writing to outputs/wandb"
    )
    wandb.add_argument("--sync", action="store_true", help="upload every offline run in the outputs folder")
    arguments = parser.parse_args()
    outputs = outputs_folder()
    with one_sentence():
        if arguments.sync:
            from highway.dashboard.mirror import offline_runs, sync

            if arguments.dry_run:
                print(f"{counted(len(offline_runs(outputs)), 'offline run')} would be uploaded.")
                return
            sys.exit(0 if sync(outputs) else 1)
        if not arguments.table:
            raise Refused("dashboard needs a table: type highway dashboard highway_t5 --dry-run.")
        of_table(arguments, outputs)


def of_table(arguments: argparse.Namespace, outputs: Path) -> None:
    """Create, update, send or print the dashboard of a table."""
    need("wandb_workspaces", "dashboards", "highway dashboard")
    from highway.dashboard.mirror import send, unsent
    from highway.dashboard.workspace import describe, save, send_report, workspace
    from highway.report.collect import collect
    from highway.report.render import write_report
    from highway.sweep.grid import find

    table = find(arguments.table, outputs)
    if table.timed:
        raise Refused(f"{table.id} is timed and has no curves. Type highway report {table.id} to see it.")
    collected = collect(table, arguments.budget, outputs)
    name = f"{collected.table.id}-{collected.budget}"
    if arguments.send:
        if not collected.every:
            raise Refused(f"{collected.table.id} has no records at budget {collected.budget} yet: train it first.")
        if arguments.dry_run:
            print(
                f"{counted(len(unsent(collected, outputs / 'wandb')), 'finished run')} would be sent, and the report."
            )
            return
        mode = "online" if arguments.online else "offline"
        count = send(collected, mode, arguments.project, outputs / "wandb")
        _, paths = write_report(collected, outputs / "report" / collected.table.id / collected.budget)
        send_report(paths, collected.table.id, mode, arguments.project, outputs / "wandb")
        how = "Sent" if arguments.online else "Logged offline, to upload with --sync"
        print(f"{how}: {count} finished run{'' if count == 1 else 's'} not logged before, and the report.")
        return
    print("\n".join(describe(workspace(collected, arguments.entity, arguments.project))))
    if not arguments.dry_run:
        if not (os.environ.get("WANDB_API_KEY") and arguments.entity):
            raise Refused("W&B needs WANDB_API_KEY and --entity to create a workspace. Add --dry-run to only print it.")
        print("\n".join(save(collected, arguments.entity, arguments.project, outputs / "dashboards" / f"{name}.json")))
