"""The command `highway`. Modules that take long to import are imported inside the commands, so help is immediate."""

import io
import logging
import os
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from highway.config import project
from highway.config.extras import need
from highway.config.groups import check_words, options
from highway.config.home import outputs_folder
from highway.errors import Refused, closest, counted, listing, readable

if TYPE_CHECKING:
    from highway.tables.table import Table

As = Callable[[Callable[..., None]], Callable[..., None]]  # a decorator
CODES = {0: "done", 2: "the command is wrong", 4: "a file cannot be written"}
CODES_OF_TRAINING = {0: "finished", 1: "a run failed", 3: "a run diverged", 130: "interrupted; type it again to resume"}
COMPLETE = "_HIGHWAY_COMPLETE"  # set by the shell (config/completion.py): typer prints completions and runs nothing
OTHER_PROGRAMS = {"--dry-run": "plan=true", "--dryrun": "plan=true"}  # a flag of theirs -> our setting


class Command(TyperCommand):
    """A command whose help names arguments as the usage line does, without the types of Python."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        for kind in ("argument", "option"):
            records = [each.get_help_record(ctx) for each in self.get_params(ctx) if each.param_type_name == kind]
            shown = [(re.sub(r" <(str|path|list\[.*)>$", "", name), text) for name, text in filter(None, records)]
            if shown:
                with formatter.section(f"{kind.capitalize()}s"):
                    formatter.write_dl(shown)


def ending(*examples: str, codes: dict[int, str] | None = None) -> str:
    """Return the last part of a command's help: examples and exit codes. `\\b` keeps its lines apart."""
    meanings = (f"  {code:<3}  {meaning}" for code, meaning in sorted((CODES | (codes or {})).items()))
    return "\n".join(["\b\nExamples:", *(f"  {line}" for line in examples), "\n\b\nExit codes:", *meanings])


def command(*examples: str, of: typer.Typer | None = None, codes: dict[int, str] | None = None, **settings: Any) -> As:
    """Return the decorator of a command, or of a command of `table` or `data`."""
    return (of or app).command(cls=Command, epilog=ending(*examples, codes=codes), **settings)


def group(**settings: Any) -> typer.Typer:
    """Return an app of commands, with plain text as help."""
    plain: Any = {"rich_markup_mode": None, "add_completion": False, "pretty_exceptions_enable": False}
    return typer.Typer(**plain, context_settings={"help_option_names": ["-h", "--help"]}, **settings)


def text(metavar: str, help: str, *names: str, **settings: Any) -> Any:
    """Return an option with a value."""
    return typer.Option(*names, metavar=metavar, help=help, **settings)


def number(help: str, low: float, high: float = 2**31 - 1, kind: type[int] | type[float] = int) -> Any:
    """Return an option with a number from low to high, both included."""
    right = f"a {'whole ' if kind is int else ''}number from {low} to {high}"

    def read(text: Any) -> int | float:
        with suppress(ValueError):
            if low <= kind(text) <= high:
                return kind(text)
        raise typer.BadParameter(f"'{text}' is not {right}")

    return typer.Option(metavar="N", help=help, parser=read)


def flag(name: str, help: str) -> Any:
    """Return an option without a value."""
    return typer.Option(name, help=help)


def argument(metavar: str, help: str, completed: Callable[..., list[str]] | None = None) -> Any:
    """Return a positional argument; `completed` completes it."""
    return typer.Argument(metavar=metavar, help=help, autocompletion=completed)


def _complete_table(incomplete: str) -> list[str]:
    from highway.tables.reading import grid_names, table_ids

    return [*table_ids(), *grid_names(outputs_folder())]


def _complete_override(context: typer.Context, incomplete: str) -> list[str]:
    from highway.config.completion import continued

    return continued(incomplete, context.params.get("overrides") or [])


def _checked_budget(name: str) -> str:
    if name not in options("budget"):
        raise typer.BadParameter(f"'{name}' is unknown. Available: {listing(options('budget'))}")
    return name


BUDGET: dict[str, Any] = {"parser": _checked_budget, "autocompletion": lambda incomplete: options("budget")}
Words = list[str] | None
TableName = Annotated[str, argument("TABLE", "A table, or a grid that was run here.", _complete_table)]
TableNames = Annotated[Words, argument("TABLE", "Tables or grids; default: all.", _complete_table)]
RowNames = Annotated[Words, argument("ROW", "Rows of the table; default: all.")]
Datasets = Annotated[Words, argument("DATASET", "Default: every data set.", lambda incomplete: options("dataset"))]
RunPath = Annotated[Path, argument("RUN", "A run directory, or a file of weights (.safetensors).")]
Last = Annotated[bool, flag("--last", "Use the last checkpoint instead of the best.")]
With = Annotated[Words, text("KEY=VALUE", "Also show the rows with this override; may be repeated.", "--with")]
BudgetOfTable = Annotated[str | None, text("BUDGET", "Default: paper; of a grid, its first.", **BUDGET)]
Budgets = Annotated[str | None, text("BUDGET", "Default: every budget that has records.", **BUDGET)]

app = group(
    epilog=ending(
        "highway train model=transformer gate=sdu_tanh dataset=ptb_char seed=1",
        "highway train -m table=highway_t1 budget=smoke seeds=1,2",
        "highway report highway_t1 --budget smoke",
        codes=CODES_OF_TRAINING | {0: "done"},
    )
    + "\n\n`highway COMMAND --help` describes a command."
)
table_app, data_app = group(), group()


def main(name: str | None = None) -> None:
    """Run a command: `name`, or the first argument. A mistake is answered with one sentence on stderr."""
    os.environ.pop("MPLBACKEND", None)  # figures become files; a notebook's backend may not be installed
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may lack a character, as with PYTHONIOENCODING=ascii
    if COMPLETE in os.environ:
        from typer.completion import completion_init

        completion_init()
    arguments = [name, *sys.argv[1:]] if name else sys.argv[1:] or ["--help"]
    try:
        code = app(arguments, prog_name="highway", standalone_mode=False)
    except typer.TyperException as error:
        print(f"error: {readable(_mistake(error, arguments[0]))}", file=sys.stderr)
        sys.exit(2)
    except Exception:
        from highway.config.sentences import one_sentence  # Hydra takes a fifth of a second to import

        with one_sentence():
            raise
    if code == 130:  # typer returns it for Ctrl-C
        print("interrupted. Type the same command again to resume.", file=sys.stderr)
    if code:
        sys.exit(code)


def _mistake(error: Any, first: str) -> str:
    """Return the sentence for a command line that typer cannot read."""
    context = getattr(error, "ctx", None)
    name = context.command_path if context else f"highway {first}"
    if context and hasattr(error, "possibilities"):  # an unknown option
        option = error.option_name
        hint = closest(option, [known for each in context.command.get_params(context) for known in each.opts])
        if name == "highway train":
            hint = f" Did you mean {OTHER_PROGRAMS[option]}?" if option in OTHER_PROGRAMS else hint
            hint += " Write settings without dashes, as in trainer.max_epochs=3."
        return f"{option} is no option of {name}.{hint}"
    message = error.format_message().replace("Value error, ", "").rstrip(".")
    return f"{message}{'' if message.endswith('?') else '.'} Type {name} --help."


def _show_version(shown: bool) -> None:
    if shown:
        from highway.machine import versions

        print(versions())
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Print versions and the processor.")
]


@app.callback()
def begin(version: Version = False) -> None:
    """Reproduce the tables of four papers on gating."""
    project.load()


@command("highway init my_gates", "highway init projects/layer_scale")
def init(folder: Annotated[Path, argument("NAME", "The new folder, and the package in it.")]) -> None:
    """Begin a project of your own.

    The folder NAME then holds a small project: a gate, a data set and a table, with tests and a README. `highway`, in
    this folder or below it, knows its gates, data sets and tables beside ours.
    """
    project.begin(folder)
    print(f"{folder}/README.md says how to go on. Begin with:")
    print(f"cd {folder} && highway train -m table=first budget=smoke seeds=1,2")


@command(
    "highway train model=transformer gate=sdu_tanh dataset=ptb_char seed=1",
    "highway train -m table=highway_t1 budget=smoke seeds=1,2",
    "highway train -m name=rates gate=none,sdu_tanh optimizer.lr=0.5,1.0",
    codes=CODES_OF_TRAINING,
    add_help_option=False,
)
def train(
    context: typer.Context,
    overrides: Annotated[Words, argument("OVERRIDE", "GROUP=OPTION or KEY=VALUE.", _complete_override)] = None,
    multirun: Annotated[bool, typer.Option("-m", "--multirun", help="Train all runs of a table or grid.")] = False,
    cfg: Annotated[Literal["job"] | None, typer.Option("-c", "--cfg", help="Print the configuration.")] = None,
    resolve: Annotated[bool, flag("--resolve", "With --cfg job: replace interpolations.")] = False,
    config_dir: Annotated[
        list[Path] | None, text("FOLDER", "A folder with options; may be repeated.", "-cd", "--config-dir")
    ] = None,
    help: Annotated[bool, typer.Option("-h", "--help", help="Show this, with what the overrides change.")] = False,
) -> None:
    """Train a model, or with -m the runs of a table or of a grid.

    A run that has finished is not repeated; one that was stopped is resumed. Launchers of a sweep:
    hydra/launcher=local|slurm|ray|inline. What a table contains: highway table explain TABLE.
    """
    from highway import train_command

    if multirun and cfg:
        raise Refused("--cfg job prints the configuration of one run: leave out -m or --cfg.")
    if resolve and not cfg:
        raise Refused("--resolve only changes what --cfg job prints: add --cfg job.")
    folders = config_dir or []
    settings = train_command.with_folders(overrides or [], folders)
    if help:
        print(f"{context.get_help()}\n\n{train_command.settings(settings, multirun)}")
    elif cfg:
        print(train_command.configuration(settings, resolve), end="")
    elif multirun:
        train_command.sweep(settings)
    else:
        typed = [*(overrides or []), *(word for folder in folders for word in ("-cd", str(folder)))]
        sys.exit(train_command.run(settings, typed))


app.add_typer(table_app, name="table", help="Show the progress of a table, explain its rows, or time them.")


def _find(name: str) -> "Table":
    """Return a table, or a grid that was run here."""
    if "=" in name:
        raise Refused(f"{name} is an override. Name a table first.")
    from highway.tables.reading import find

    return find(name, outputs_folder())


@command("highway table status highway_t3", "highway table status rates --with layers=l2-3", of=table_app)
def status(table: TableName, rows: RowNames = None, added: With = None) -> None:
    """Show which seeds have finished, failed or are running."""
    from rich.console import Console

    from highway.report.status import print_status
    from highway.tables.rows import with_overrides

    check_words(added or [])
    whole = _find(table)
    shown = whole.model_copy(update={"rows": [*map(whole.row, rows or [])] or whole.rows})
    print_status(with_overrides(shown, [*whole.budgets], added or []), outputs_folder(), Console())


@command("highway table explain highway_t1", "highway table explain highway_t1 tanh --budget smoke", of=table_app)
def explain(table: TableName, rows: RowNames = None, budget: BudgetOfTable = None, added: With = None) -> None:
    """Print what the rows of a table train.

    Without ROW, print the parameters and the length of each row, the claims with the paper's sentences, and the command
    to type. With ROW, print that row on one screen: its equation, and the file that sets each value.
    """
    from rich.console import Console

    from highway.tables.explain import explain_row, explain_table
    from highway.tables.rows import with_overrides

    check_words(added or [])
    whole = _find(table)
    at = budget or whole.usual_budget
    for name in rows or []:
        row = whole.row(name).named_after(added) if added else whole.row(name)
        explain_row(whole.model_copy(update={"rows": [*whole.rows, row]}), row, at, Console())
    if not rows:
        explain_table(with_overrides(whole, [at], added or []), at, Console())


@command("highway table time highway_t7 --budget mini", "highway table time highway_t7 tanh", of=table_app)
def time(
    table: TableName,
    words: Annotated[Words, argument("ROW|KEY=VALUE", "Rows, by default all, and overrides.")] = None,
    budget: BudgetOfTable = None,
    rounds: Annotated[int | None, number("Rounds, 2 or more; default: those of the table.", 2, 10_000)] = None,
) -> None:
    """Time the rows of a table in interleaved rounds.

    The file of the table has `rounds`. Each call adds a measurement to outputs/TABLE/BUDGET/times.csv. The first row is
    always timed: the others are relative to it. Overrides change how rows run: trainer.compile=reduce-overhead.
    """
    from highway.tables.reading import command as training

    timed = _find(table)
    at = budget or timed.usual_budget
    if not timed.timed:
        raise Refused(f"{timed.id} is trained, not timed: its file has no `rounds`. Type {training(timed, at)}.")
    known = [row.id for row in timed.rows]
    rows = [word for word in words or [] if word in known or "=" not in word]
    overrides = [word for word in words or [] if word not in rows]
    from highway.timing.rounds import time_table  # imports torch, so not before the table is checked

    try:
        path = time_table(timed, rows, at, rounds or timed.rounds, overrides, outputs_folder())
    except KeyboardInterrupt:
        raise Refused("the measurement was stopped, so nothing was written. The same command starts it anew.") from None
    print(f"{path}\nIts report: highway report {timed.id} --budget {at}")


@command("highway report highway_t3 --budget mini", "highway report --data runs.parquet")
def report(
    tables: TableNames = None,
    budget: Budgets = None,
    added: With = None,
    data: Annotated[Path | None, text("FILE", "Write the numbers of all runs to a .parquet or .csv file.")] = None,
    watch: Annotated[bool, flag("--watch", "Serve the site on localhost and keep it up to date.")] = False,
    every: Annotated[int, number("Seconds between two updates with --watch.", 1, 86_400)] = 20,
    port: Annotated[int, number("Port for --watch; 0: any free port.", 0, 65_535)] = 8000,
) -> None:
    """Write the reports of tables, and the web site, from records.

    Without TABLE, write that of every table that has records, and the web site outputs/report/index.html, and print
    what each has found.
    """
    check_words(added or [])
    for name in tables or []:
        if "=" in name:
            raise Refused(f"{name} is an override. Write --with before each: --with {name}.")
    outputs = outputs_folder()
    if watch and (tables or budget or added or data):
        raise Refused("--watch serves every table: leave out tables, --budget, --with and --data.")
    if data and (added or len(tables or []) > 1):
        raise Refused("--data writes the runs of one table, or of all. Name one or none, and leave out --with.")
    if data and data.suffix not in (".parquet", ".csv"):
        raise Refused(f"--data {data}: the name of the file ends in .parquet or .csv.")
    if watch:
        from highway.report.site import build_site
        from highway.report.watch import watch as serve

        serve(lambda: build_site(outputs, refresh=every), outputs / "report", port, every)
    elif data:
        from highway.python.frames import runs  # importing pandas takes a second
        from highway.report.details import write_frame

        frame = runs(tables[0] if tables else None, budget)
        write_frame(frame, data)
        print(f"{data}: {counted(len(frame), 'line')}")
    else:
        from highway.report.site import report_all
        from highway.report.write import report_tables

        if tables or budget or added:
            report_tables(tables or [], budget, added or [], outputs)
        else:
            report_all(outputs)


@command("highway publish highway_t3", "highway publish rates --to shared/rates")
def publish(
    table: TableName,
    budget: Budgets = None,
    to: Annotated[Path | None, text("FOLDER", "Default: outputs/reference/, in highway's own checkout.")] = None,
) -> None:
    """Copy the records of a table to where others find them.

    Copies the report, the finished and diverged runs, and every trial of a choice, without checkpoints. The curves keep
    every validation and at most 500 rows of training a metric. A published run is replaced only by one that ended
    better. FOLDER can be moved to any machine: HIGHWAY_OUTPUTS=FOLDER highway report TABLE. A table of your own
    needs its project there, too.
    """
    from highway.config import home
    from highway.config.project import project
    from highway.report.publish import publish as published

    if to is None and (home.SHIPPED.is_dir() or project()):
        raise Refused("only highway's own checkout has a folder of published runs. Name one: --to FOLDER.")
    target, found = to or home.REFERENCE, _find(table)
    publication = published(found, budget, outputs_folder(), target)
    what = "measurement" if found.timed else "run"
    copied, before = (counted(len(names), what) for names in (publication.copied, publication.published_before))
    print(f"{target}: {copied} published, {before} published before")
    for run in publication.differing:
        print(f"{run} was published before with other metrics, and that record stays.")
    for path in publication.reports:
        print(path)


app.add_typer(data_app, name="data", help="List, download or verify data sets.")


def _known(datasets: Words) -> Sequence[str]:
    """Return the data sets that are named, or all; show messages, as that from which mirror a file is downloaded."""
    logging.basicConfig(format="%(message)s")
    logging.getLogger("highway").setLevel(logging.INFO)
    known = options("dataset")
    for name in datasets or []:
        if name not in known:
            raise Refused(f"there is no data set '{name}'.{closest(name, known)} Available: {listing(known)}.")
    return datasets or known


@command("highway data list", "highway data list ptb_char ptb_word", of=data_app, name="list")
def list_data(datasets: Datasets = None) -> None:
    """Show the data sets, and which of their files are missing."""
    names = _known(datasets)
    from highway.data.prepare import list_named

    list_named(names)


@command("highway data prepare ptb_word", "highway data prepare ptb_word --source sample", of=data_app)
def prepare(
    datasets: Datasets = None,
    source: Annotated[
        Literal["files", "sample"], typer.Option(help="The real files, or a generated sample.")
    ] = "files",
) -> None:
    """Download what is missing, and check every sha256.

    Prints the number of symbols, the vocabulary and the checksums.
    """
    names = _known(datasets)
    from highway.data.prepare import prepare_named

    for name in names:
        prepare_named(name, source)


@command("highway data verify", "highway data verify enwik8", of=data_app)
def verify(datasets: Datasets = None) -> None:
    """Check the sha256 of every file.

    Downloads nothing. Without DATASET, data sets whose files are missing are named and left out.
    """
    names = _known(datasets)
    from highway.data.prepare import verify_named

    for name in names:
        verify_named(name, refuse_missing=bool(datasets))


@command(
    'highway generate outputs/highway_t5/smoke/tanh/seed1 --prompt "the" --top-p 0.9',
    "highway generate outputs/r_transformer_t2/smoke/r_transformer/seed1 --tune 3",
)
def generate(
    run: RunPath,
    length: Annotated[int, number("Number of symbols, or of steps of a tune.", 1)] = 500,
    temperature: Annotated[
        float, number("Below 1: prefer likely symbols; 0: take the likeliest.", 0, 1_000_000, float)
    ] = 1.0,
    seed: Annotated[int, number("Random seed.", 0, 2**63 - 1)] = 1,
    last: Last = False,
    prompt: Annotated[str | None, text("TEXT", "Text to continue; default: none.")] = None,
    top_k: Annotated[int | None, number("Draw only from the N likeliest symbols.", 1)] = None,
    top_p: Annotated[
        float | None, number("Draw only from the likeliest that together have probability N.", 0, 1, float)
    ] = None,
    tune: Annotated[int | None, number("Tune of the test set to continue; default: 1.", 1)] = None,
    begin: Annotated[int | None, number("Steps of the tune to start from; default: 32.", 1)] = None,
    step_seconds: Annotated[float | None, number("Duration of a step; default: 0.25.", 0.001, 60, float)] = None,
    midi: Annotated[Path | None, text("FILE", "MIDI file to write; default: tune.mid.")] = None,
) -> None:
    """Generate text or music with a trained model.

    A language model continues the prompt. A music model continues a tune of the test set, and writes a MIDI file.
    """
    from highway.python.generate import Sampling, Writer
    from highway.python.load import load_for

    sampling = Sampling(temperature, top_k, top_p, seed)
    trained = load_for(run, last, "language", "music")
    of_text = {"--prompt": prompt, "--top-k": top_k, "--top-p": top_p}
    of_tunes = {"--tune": tune, "--begin": begin, "--step-seconds": step_seconds, "--midi": midi}
    musical = trained.experiment.dataset_card.task == "music"
    for option, value in (of_text if musical else of_tunes).items():
        if value is not None:
            kind = "text" if musical else "tunes"
            raise Refused(f"{option} is for models of {kind}, which {run} is not. Leave it out.")
    if musical:
        from highway.python.tunes import beginning, continued, write_midi

        tune, begin, path = tune or 1, begin or 32, midi or Path("tune.mid")
        keys = continued(trained, beginning(trained, tune, begin), length, temperature, seed)
        write_midi(keys, path, step_seconds or 0.25)
        print(f"{path}: {len(keys)} steps, of which the first {begin} are from tune {tune} of the test set")
    else:
        for piece in Writer(trained).write(prompt or "", length, sampling):
            print(piece, end="", flush=True)
        print()


@command(
    'highway translate outputs/gated_resnet_t1/smoke/g1_e4h6/seed1 "este é um problema ."',
    "highway translate outputs/gated_resnet_t1/smoke/g1_e4h6/seed1 --file talk.pt --beam 4",
)
def translate(
    run: RunPath,
    sentence: Annotated[Words, argument("TEXT", "Default: --file, or standard input.")] = None,
    file: Annotated[Path | None, text("FILE", "UTF-8 file with a sentence in each line.")] = None,
    beam: Annotated[int, number("Width of the beam search; 1 is greedy.", 1, 100)] = 1,
    penalty: Annotated[float, number("Exponent of the length penalty ((5 + n) / 6) ** N.", 0, 10, float)] = 0.6,
    last: Last = False,
    attention: Annotated[int | None, number("Also print the cross-attention of this layer.", 1)] = None,
) -> None:
    """Translate with a trained model.

    Each line is a sentence; it is lower-cased and split into words as the training text was. Longer lines than the
    model accepts are truncated, and a message counts them.
    """
    if sentence and file:
        raise Refused("a text and --file cannot be combined. Give only one of them.")
    lines = _lines(sentence or [], file)
    from highway.python.translate import check_layer, show_attention, translator_of  # imports torch

    translator = translator_of(run, last)
    if attention is not None:
        check_layer(translator, attention)
    outputs = translator.translate(lines, beam, penalty)
    for line, output in zip(lines, outputs, strict=True):
        print(output)
        if attention is not None and line:
            from rich.console import Console

            wide = Console(width=1000)  # so that a map of attention is not wrapped; scroll it with less -S
            show_attention(translator, line, output, attention, wide)
    if cut := translator.too_long(lines):
        print(f"{cut} of {counted(len(lines), 'line')} truncated to {translator.longest} pieces.", file=sys.stderr)


def _lines(words: list[str], path: Path | None) -> list[str]:
    """Return the sentences to translate, split into words."""
    from highway.data.translation import like_ted

    try:
        content = " ".join(words) if words else (path.read_bytes() if path else sys.stdin.buffer.read()).decode()
    except UnicodeDecodeError as error:
        raise Refused(f"{path or 'standard input'} is not UTF-8 text. Convert it to UTF-8 first.") from error
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}.") from error
    lines = [like_ted(line) for line in content.removesuffix("\n").split("\n")]
    if not any(lines):
        raise Refused("there is nothing to translate: the text is empty.")
    return lines


@command("highway card outputs/highway_t1/smoke/tanh/seed1", "highway card RUN --into card")
def card(
    run: Annotated[Path, argument("RUN", "The directory of a finished run.")],
    into: Annotated[Path | None, text("FOLDER", "Default: card/ in the directory of the run.")] = None,
) -> None:
    """Write a model card with weights and configuration.

    The folder has the layout of the Hugging Face Hub. Nothing is uploaded.
    """
    from highway.python.model_card import write_card

    for path in write_card(run, into or run / "card"):
        print(path)


@command(
    "highway dashboard highway_t5 --dry-run",
    "highway dashboard highway_t5 --budget mini --send",
    codes={1: "an upload failed"},
)
def dashboard(
    table: Annotated[str | None, argument("TABLE", "A table or grid.", _complete_table)] = None,
    budget: BudgetOfTable = None,
    project: Annotated[str, text("NAME", "Project on Weights & Biases.")] = "highway",
    entity: Annotated[str, text("NAME", "User or team there.", envvar="WANDB_ENTITY", show_envvar=True)] = "",
    dry_run: Annotated[bool, flag("--dry-run", "Print what would be created, sent or uploaded.")] = False,
    send: Annotated[bool, flag("--send", "Log finished runs not logged before, and the report.")] = False,
    online: Annotated[bool, flag("--online", "With --send: upload at once, without --sync.")] = False,
    sync: Annotated[bool, flag("--sync", "Upload every offline run in the outputs folder.")] = False,
) -> None:
    """Show a table on Weights & Biases.

    Without --send or --sync, create or update a workspace and a report of the table.
    """
    if online and not send:
        raise Refused("--online changes how --send uploads. Add --send.")
    if sync and (table or send):
        raise Refused("--sync uploads the offline runs of every table. Leave out the table and --send.")
    if sync:
        from highway.dashboard import upload

        if not dry_run:
            sys.exit(0 if upload.sync(outputs_folder()) else 1)
        print(f"{counted(len(upload.offline_runs(outputs_folder())), 'offline run')} would be uploaded.")
    elif table:
        need("wandb_workspaces", "dashboards", "highway dashboard")
        from highway.dashboard.workspace import show

        show(table, budget, project, entity, send, online, dry_run)
    else:
        raise Refused("dashboard needs a table: type highway dashboard highway_t5 --dry-run.")


@command('eval "$(highway completion)"', "highway completion >> ~/.bashrc")
def completion() -> None:
    """Print what your shell needs to complete a command line.

    This is for bash; zsh needs a line `autoload -U bashcompinit && bashcompinit` before it.
    """
    from highway.config.completion import SCRIPT

    print(SCRIPT)
