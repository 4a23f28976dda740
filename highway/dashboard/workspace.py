"""A table as a W&B workspace and a W&B report: panels by metric, colours by row, the paper's numbers as lines."""

import os
from collections.abc import Sequence
from pathlib import Path

import wandb_workspaces.reports.v2 as reports
import wandb_workspaces.workspaces as workspaces

from highway.cards.metrics import KINDS, METRICS
from highway.config.home import outputs_folder
from highway.dashboard.upload import send, unsent
from highway.errors import Refused, counted
from highway.ledger.files import read_json, write_json
from highway.report.collect import Collected, collect
from highway.report.content import build_report
from highway.report.render import to_markdown
from highway.report.style import SPLITS, looks
from highway.report.write import write_report
from highway.tables.reading import find
from highway.tables.table import Figure

TRAINING_METRICS = ("learning_rate", "gradient_norm", "gate_norm", "tokens_per_second", "peak_memory_mib")


def panels(collected: Collected) -> list[reports.LinePlot]:
    """Return a panel for each metric and split that a figure of the table shows."""
    figures = [figure for figure in collected.table.figures if figure.kind == "curves"] or [_usual(collected)]
    by_metric = {
        (split, kind): figure for figure in reversed(figures) for kind in figure.metrics for split in figure.splits
    }
    return [_panel(collected, figure, split, kind) for (split, kind), figure in by_metric.items()]


def _usual(collected: Collected) -> Figure:
    """Return the figure of a table that declares none: its main metric, in training and validation."""
    kind = METRICS[collected.table.headline].kind
    shown = kind if kind in KINDS else "loss"
    return Figure(id="convergence", caption="Convergence", metrics=[shown], splits=["train", "valid"], over="step")


def _panel(collected: Collected, figure: Figure, split: str, kind: str) -> reports.LinePlot:
    metric = f"{split}/{kind}"
    lines = [row.paper[f"{split}_{kind}"] for row in collected.table.rows if f"{split}_{kind}" in row.paper]
    papers = lines if collected.budget == "paper" else []
    return reports.LinePlot(
        title=f"{SPLITS[split]} {KINDS[kind][0]}",
        x={"epoch": "epoch", "step": "Step", "seconds": "seconds", "tokens": "tokens"}[figure.over],
        y=[metric],
        groupby=reports.Config("row"),
        groupby_aggfunc="mean",
        groupby_rangefunc="minmax",
        custom_expressions=[f"0 * ${{{metric}}} + {value:g}" for value in dict.fromkeys(papers)],
        title_y=KINDS[kind][0],
    )


def training_panels(collected: Collected) -> list[reports.LinePlot]:
    """Return a panel for each quantity that training logs beside its loss; the norm of gates only if a row has one."""
    rows = collected.table.at(collected.budget)
    gated = any(collected.experiment(row.id).gates for row in rows)
    names = [name for name in TRAINING_METRICS if name != "gate_norm" or gated]
    return [reports.LinePlot(title=name.replace("_", " "), y=[f"train/{name}"]) for name in names]


def workspace(collected: Collected, entity: str, project: str) -> workspaces.Workspace:
    """Return the workspace of a table, which `save` creates on the server."""
    table = collected.table
    colours: dict[object, object] = {(row,): look.colour for row, look in looks(collected).items()}
    return workspaces.Workspace(
        entity=entity,
        project=project,
        name=f"{table.id} at {collected.budget}",
        sections=[
            workspaces.Section("Convergence", panels=list(panels(collected)), is_open=True),
            workspaces.Section("Training", panels=list(training_panels(collected))),
        ],
        runset_settings=workspaces.RunsetSettings(
            filters=f"Config('table') = '{table.id}' and Config('budget') = '{collected.budget}'",
            groupby=[workspaces.Config("row")],
            group_colors=colours,
        ),
    )


def report(collected: Collected, entity: str, project: str) -> reports.Report:
    """Return a W&B report with the table as text and the same panels as the workspace."""
    table = collected.table
    runs = reports.Runset(
        entity=entity,
        project=project,
        filters=f"Config('table') = '{table.id}' and Config('budget') = '{collected.budget}'",
        groupby=["config.row"],
    )
    built = build_report(collected)
    return reports.Report(
        project=project,
        entity=entity,
        title=table.heading,
        description=built.conclusion,
        blocks=[
            reports.MarkdownBlock(to_markdown(built)),
            reports.H2("Convergence"),
            reports.PanelGrid(runsets=[runs], panels=list(panels(collected))),
            reports.H2("Training"),
            reports.PanelGrid(runsets=[runs], panels=list(training_panels(collected))),
        ],
    )


def describe(board: workspaces.Workspace) -> Sequence[str]:
    """Return lines that say what a workspace contains."""
    lines = [f"workspace {board.name} in {board.project}, runs where {board.runset_settings.filters}"]
    for section in board.sections:
        lines.append(f"  {section.name}")
        for panel in section.panels:
            assert isinstance(panel, reports.LinePlot) and isinstance(panel.y, list)
            papers = [text.rpartition("+ ")[2] for text in panel.custom_expressions or ()]
            line = f"    {panel.title}: {', '.join(map(str, panel.y))} over {panel.x}"
            lines.append(line + (f"; the paper's {', '.join(papers)}" if papers else ""))
    return lines


def save(collected: Collected, entity: str, project: str, addresses: Path) -> list[str]:
    """Create workspace and report, or update those whose URLs the file `addresses` has; return their URLs."""
    known = read_json(addresses) if addresses.exists() else {}
    board, text = workspace(collected, entity, project), report(collected, entity, project)
    if "workspace" in known:
        old = workspaces.Workspace.from_url(known["workspace"])
        old.sections, old.runset_settings, board = board.sections, board.runset_settings, old
    if "report" in known:
        earlier = reports.Report.from_url(known["report"])
        earlier.blocks, earlier.description, text = text.blocks, text.description, earlier
    board.save()
    text.save()
    write_json(addresses, {"workspace": board.url, "report": text.url})
    return [board.url, text.url]


def send_report(paths: list[Path], table: str, mode: str, project: str, folder: Path) -> None:
    """Send the rendered table and its figures as an artefact of a separate W&B run."""
    import wandb

    folder.mkdir(parents=True, exist_ok=True)
    run = wandb.init(
        project=project,
        mode=mode,  # type: ignore[arg-type]
        group=table,
        name=f"{table} report",
        job_type="report",
        dir=str(folder),
        settings=wandb.Settings(silent=True, console="off"),
    )
    artefact = wandb.Artifact(f"{table}-report", type="report")
    for path in paths:
        artefact.add_file(str(path))
    run.log_artifact(artefact)
    run.finish()


def show(name: str, budget: str | None, project: str, entity: str, send: bool, online: bool, dry_run: bool) -> None:
    """Create or update the workspace and the report of a table, or send its runs; dry_run: only print it."""
    outputs = outputs_folder()
    table = find(name, outputs)
    if table.timed:
        raise Refused(f"{table.id} is timed and has no curves. Type highway report {table.id} to see it.")
    collected = collect(table, budget or table.usual_budget, outputs)
    if send:
        return _send(collected, project, online, dry_run)
    print("\n".join(describe(workspace(collected, entity, project))))
    if not dry_run:
        if not (os.environ.get("WANDB_API_KEY") and entity):
            raise Refused("W&B needs WANDB_API_KEY and --entity to create a workspace. Add --dry-run to only print it.")
        path = outputs / "dashboards" / f"{collected.table.id}-{collected.budget}.json"
        print("\n".join(save(collected, entity, project, path)))


def _send(collected: Collected, project: str, online: bool, dry_run: bool) -> None:
    """Log finished runs that were not logged while they trained, and the rendered table."""
    outputs = outputs_folder()
    if not collected.every:
        raise Refused(f"{collected.table.id} has no records at budget {collected.budget} yet: train it first.")
    if dry_run:
        waiting = unsent(collected, outputs / "wandb")
        return print(f"{counted(len(waiting), 'finished run')} would be sent, and the report.")
    mode = "online" if online else "offline"
    count = send(collected, mode, project, outputs / "wandb")
    _, paths = write_report(collected, outputs / "report" / collected.table.id / collected.budget)
    send_report(paths, collected.table.id, mode, project, outputs / "wandb")
    how = "Sent" if online else "Logged offline, to upload with --sync"
    print(f"{how}: {counted(count, 'finished run')} not logged before, and the report.")
