"""Try on any checkout what an adversary did by hand on commit a4d60ae:  python -m tests.faults.adversary [CHECKOUT ...]

Each attempt consists of commands that a user types, as real processes, on runs of a second. A checkout needs nothing
but its files: it runs in the environment of this one, which is tried where none is named.
"""

import argparse
import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from highway.files import seal
from highway.testing.runs import numbers
from tests.faults.trials import ALLOWED, Ended, Verdict
from tests.support.commands import ROOT
from tests.support.overrides import TINY

GRID = "sorts"
RUN = (*TINY, "trainer.max_steps=200", "trainer.validate_every=50", "trainer.checkpoint_seconds=0.05")
TANH = "gate=sdu_tanh"
SECONDS = 900.0  # for the four undisturbed runs; a command that takes longer than those hangs


class Checkout:
    """A copy of a checkout, and runs of it: two gates with two seeds that nothing disturbed, and two stopped midway."""

    def __init__(self, source: Path, folder: Path) -> None:
        self.folder, self.root = folder, folder / "checkout"
        for part in ("conf", "highway", "hydra_plugins", "scripts"):
            shutil.copytree(source / part, self.root / part)
        self.finished, self.stopped = folder / "finished", folder / "stopped"
        sweep = ("-m", f"name={GRID}", *RUN, "gate=none,sdu_tanh", "seed=1,2", "hydra/launcher=inline")
        self.seconds, began = SECONDS, time.monotonic()
        assert (ended := self.run(self.finished, "train", *sweep)).code == 0, ended
        self.seconds = time.monotonic() - began
        for seed in (1, 2):
            with self._process(self.stopped, "train", *RUN, TANH, f"seed={seed}") as training:
                while not any(self.stopped.glob(f"cells/*/seed{seed}/checkpoints/best.safetensors")):
                    assert training.poll() is None, training.communicate()
                    time.sleep(0.01)
                training.send_signal(signal.SIGTERM)
                training.communicate(timeout=self.seconds)

    def run(self, outputs: Path, script: str, *arguments: str, **around: str) -> Ended:
        with self._process(outputs, script, *arguments, **around) as process:
            try:
                output, errors = process.communicate(timeout=self.seconds)
            except subprocess.TimeoutExpired:
                return Ended(None, "", f"no end after {self.seconds:.0f} seconds")
        return Ended(process.returncode, output, errors)

    @contextmanager
    def _process(self, outputs: Path, script: str, *words: str, **around: str) -> "Iterator[subprocess.Popen[str]]":
        """Start a command in an empty folder, and end it with all that it started."""
        folders = {"PYTHONPATH": self.root, "HIGHWAY_OUTPUTS": outputs, "HIGHWAY_DATA": self.folder / "data"}
        surroundings = {**os.environ, **{name: str(path) for name, path in folders.items()}, "COLUMNS": "200"}
        with (
            tempfile.TemporaryDirectory() as here,
            subprocess.Popen(
                [sys.executable, str(self.root / "scripts" / f"{script}.py"), *words],
                env={**surroundings, **around},
                cwd=here,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            ) as process,
        ):
            try:
                yield process
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)

    def trained(self, outputs: Path, *overrides: str, **around: str) -> Verdict:
        """Train seed 1 of the gated run; it ends as the undisturbed one did, or is refused."""
        said = False
        for _ in range(2):  # a file that was damaged after its run ended may need a second start
            ended = self.run(outputs, "train", *RUN, TANH, "seed=1", *overrides, **around)
            said = said or ended.said
            if ended.forbidden() or ended.refused:
                return judged(ended)
            if _result(outputs) is not None and _result(outputs) == _result(self.finished):
                return Verdict("mended" if said else "right")
        return Verdict("WRONG", f"exit {ended.code}, other metrics or none")

    def changed_table(self, name: str, changes: dict[str, str]) -> None:
        """Write conf/table/NAME.yaml: Table 1 of Highway Transformer with some of its text replaced."""
        text = (self.root / "conf" / "table" / "highway_t1.yaml").read_text().replace("id: highway_t1", f"id: {name}")
        for old, new in changes.items():
            assert old in text, old
            text = text.replace(old, new, 1)
        (self.root / "conf" / "table" / f"{name}.yaml").write_text(text)


def run_of(outputs: Path, seed: int = 1, residual: str = "sdu") -> Path:
    """Return the directory of a run."""
    (run,) = (
        path
        for path in outputs.glob(f"cells/*/seed{seed}")
        if f"  residual: {residual}\n" in (path / "config.yaml").read_text()
    )
    return run


def judged(ended: Ended, wrong: str = "") -> Verdict:
    """Return the verdict on a command; `wrong` says what is wrong if it was not refused."""
    if verdict := ended.forbidden():
        return verdict
    if ended.refused:
        return Verdict("refused", ended.errors)
    return Verdict("WRONG", wrong) if wrong else Verdict("mended" if ended.said else "right")


def _result(outputs: Path) -> dict[str, Any] | None:
    path = run_of(outputs) / "result.json"
    return numbers(json.loads(path.read_bytes())) if path.is_file() else None


# Files of another run

Attempt = Callable[[Checkout, Path], Verdict]  # it may do anything with its copy of a folder of outputs


def weights_of_another_seed(tool: Checkout, outputs: Path) -> Verdict:
    name = "checkpoints/best.safetensors"
    shutil.copy(run_of(outputs, 2) / name, run_of(outputs) / name)
    return judged(tool.run(outputs, "generate", str(run_of(outputs)), "--length", "9"), "a text of the other seed")


def checkpoint_of_another_seed(tool: Checkout, outputs: Path) -> Verdict:
    """Its curve comes with it, which would give it away."""
    ours, theirs = (run_of(outputs, seed) for seed in (1, 2))
    shutil.rmtree(ours / "checkpoints")
    shutil.copytree(theirs / "checkpoints", ours / "checkpoints")
    shutil.copy(theirs / "curves.csv", ours)
    return tool.trained(outputs)


def directory_of_another_seed(tool: Checkout, outputs: Path) -> Verdict:
    shutil.rmtree(ours := run_of(outputs))
    shutil.copytree(run_of(outputs, 2), ours)
    return tool.trained(outputs)


def directory_of_another_gate(tool: Checkout, outputs: Path) -> Verdict:
    ours, theirs = run_of(outputs), run_of(outputs, residual="none")
    shutil.rmtree(ours)
    shutil.copytree(theirs, ours)
    ended = tool.run(outputs, "train", *RUN, TANH, "seed=1")
    config = (ours / "config.yaml").read_text()
    return judged(ended, "" if "  residual: sdu\n" in config else "the run without a gate stands for the gated one")


def changed_curve(tool: Checkout, outputs: Path) -> Verdict:
    path = run_of(outputs) / "curves.csv"
    head, first, *others = path.read_text().splitlines(keepends=True)
    path.write_text(head + first.replace("2.", "1.").replace("3.", "1.") + "".join(others))
    verdict = tool.trained(outputs)
    whole = (run_of(tool.finished) / "curves.csv").read_text().splitlines()[1].split(",")[:4]
    if verdict.outcome != "refused" and path.read_text().splitlines()[1].split(",")[:4] != whole:
        return Verdict("WRONG", "the changed curve was sealed")
    return verdict


def unsealed_digit(tool: Checkout, outputs: Path) -> Verdict:
    path = run_of(outputs) / "curves.csv"
    path.write_text(path.read_text().replace("1", "7", 1))
    return tool.trained(outputs)


# Settings


def unread_swept_key(tool: Checkout, outputs: Path) -> Verdict:
    ended = tool.run(outputs, "train", "-m", *RUN, "gate=none", "gate.kernel=3,5", "plan=true")
    return judged(ended, "a swept key that nothing reads")


def unread_key(tool: Checkout, outputs: Path) -> Verdict:
    return judged(tool.run(outputs, "train", *RUN, "gate=none", "gate.kernel=5", "seed=1"), "a key that nothing reads")


def limit_of_divergence(tool: Checkout, outputs: Path) -> Verdict:
    words = (*RUN, TANH, "seed=1", "trainer.diverged_above=2.5")
    ended = tool.run(outputs, "train", *words)
    return Verdict("right") if ended.code == 3 else judged(ended, "another limit gave the same run")


def own_folder_of_a_sweep(tool: Checkout, outputs: Path) -> Verdict:
    (own := outputs.parent / "own" / "gate").mkdir(parents=True)
    shutil.copy(tool.root / "conf" / "gate" / "sdu_tanh.yaml", own / "mine.yaml")
    ended = tool.run(outputs, "train", "-m", *RUN, "gate=mine", "seed=1", "-cd", str(own.parent), "name=mine")
    return Verdict("right") if ended.code == 0 else Verdict("WRONG", f"exit {ended.code}: {ended.errors[-200:]}")


def left_over(name: str, value: str) -> Attempt:
    def attempt(tool: Checkout, outputs: Path) -> Verdict:
        return tool.trained(outputs, **{name: value})

    return attempt


# Records of others


def record(change: Callable[[dict[str, Any]], Any]) -> Attempt:
    """Change a record, seal it again, and report; the site is built after it."""

    def attempt(tool: Checkout, outputs: Path) -> Verdict:
        path = run_of(outputs) / "result.json"
        content = json.loads(path.read_bytes())
        content.pop("sha256")
        change(content)
        path.write_bytes(seal.sealed(content))
        return judged(tool.run(outputs, "report", GRID))

    return attempt


def without_a_metric(content: dict[str, Any]) -> None:
    del content["metrics"]["test_bpc"]


def without_cost(content: dict[str, Any]) -> None:
    content["cost"] = None


def without_commit(content: dict[str, Any]) -> None:
    del content["environment"]["git_commit"]


def endless_number(content: dict[str, Any]) -> None:
    content["steps"] = 10**400


def import_over_ours(tool: Checkout, outputs: Path) -> Verdict:
    archive = outputs.parent / "theirs.tar.gz"
    tool.run(outputs, "records", "export", str(archive), GRID)
    path = run_of(outputs) / "result.json"
    content = json.loads(path.read_bytes())
    content.pop("sha256")
    content["cost"]["seconds"] += 1
    path.write_bytes(ours := seal.sealed(content))
    ended = tool.run(outputs, "records", "import", str(archive))
    return judged(ended, "" if path.read_bytes() == ours else "the imported record replaced ours")


def formula_in_a_table(tool: Checkout, outputs: Path) -> Verdict:
    tool.changed_table("formula", {"label: T-L3": 'label: "=1+1"'})
    words = ("table=formula", "budget=smoke", "rows=baseline", "seeds=1", "trainer.max_steps=2")
    ended = tool.run(outputs, "train", "-m", *words, "hydra/launcher=inline")
    cells = [
        cell
        for path in outputs.glob("report/**/table.csv")
        for row in csv.reader(path.open())
        for cell in row
        if "1+1" in cell
    ]
    return judged(ended, "a formula in table.csv" if not cells or any(cell[0] == "=" for cell in cells) else "")


def nested_aliases(tool: Checkout, outputs: Path) -> Verdict:
    lines = (f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9 if n else ['1'])}]" for n in range(7))
    (own := outputs.parent / "own" / "gate").mkdir(parents=True)
    (own / "mine.yaml").write_text("\n".join(lines))
    return judged(tool.run(outputs, "train", *RUN, "gate=mine", "-cd", str(own.parent)), "half a million aliases")


# What lies in the way


def pipe_for_a_curve(tool: Checkout, outputs: Path) -> Verdict:
    (path := run_of(outputs) / "curves.csv").unlink()
    os.mkfifo(path)
    return tool.trained(outputs)


def directory_for_a_checkpoint(tool: Checkout, outputs: Path) -> Verdict:
    newest = max(
        run_of(outputs).glob("checkpoints/resume-*"), key=lambda path: int(path.name.split("-")[1].split(".")[0])
    )
    newest.unlink()
    newest.mkdir()
    return tool.trained(outputs)


def copied_checkpoint(tool: Checkout, outputs: Path) -> Verdict:
    first = next(run_of(outputs).glob("checkpoints/resume-*"))
    shutil.copy(first, first.with_name("resume-35 (copy).ckpt"))
    return tool.trained(outputs)


def old_directory(tool: Checkout, outputs: Path) -> Verdict:
    (run_of(outputs).parent / "seed_old").mkdir()
    (run_of(outputs).parent / "seed1 (copy)").mkdir()
    return tool.trained(outputs)


def lease(content: Callable[[dict[str, Any]], Any]) -> Attempt:
    def attempt(tool: Checkout, outputs: Path) -> Verdict:
        path = max(run_of(outputs).glob("leases/*.json"))
        path.with_name(f"{int(path.stem) + 1}.json").write_text(json.dumps(content(json.loads(path.read_text()))))
        return tool.trained(outputs)

    return attempt


def left_of_a_cache(tool: Checkout, outputs: Path) -> Verdict:
    (cache,) = outputs.glob("cache/*/train.npy")
    (stale := cache.with_name(".train.npy.12345")).write_bytes(b"stale")
    os.utime(stale, (0, 0))
    cache.unlink()
    verdict = tool.trained(outputs)
    return Verdict("WRONG", "the stale file stays") if stale.exists() else verdict


# Mistakes in a table file, on a command line, around it


def table(changes: dict[str, str]) -> Attempt:
    def attempt(tool: Checkout, outputs: Path) -> Verdict:
        tool.changed_table("nonsense", changes)
        return judged(tool.run(outputs, "table", "status", "nonsense"), "the table is accepted")

    return attempt


def command(script: str, *words: str, wrong: str = "", **around: str) -> Attempt:
    def attempt(tool: Checkout, outputs: Path) -> Verdict:
        (outputs.parent / "latin.txt").write_bytes("olá".encode("latin-1"))
        run, folder = str(run_of(outputs)), str(outputs.parent)
        named = [word.replace("{run}", run).replace("{folder}", folder) for word in words]
        return judged(tool.run(outputs, script, *named, **around), wrong)

    return attempt


FUTURE = 10 * 365 * 86400.0
ATTEMPTS: dict[str, tuple[str, Attempt]] = {  # by name: the folder of outputs to copy, and what is tried
    "best weights of another seed": ("finished", weights_of_another_seed),
    "checkpoints of another seed": ("stopped", checkpoint_of_another_seed),
    "seed 2's directory as seed 1": ("finished", directory_of_another_seed),
    "a directory of another gate": ("finished", directory_of_another_gate),
    "a curve changed while stopped": ("stopped", changed_curve),
    "a curve changed when finished": ("finished", unsealed_digit),
    "a swept key that nothing reads": ("stopped", unread_swept_key),
    "a typed key that nothing reads": ("stopped", unread_key),
    "another limit of divergence": ("finished", limit_of_divergence),
    "a sweep with -cd": ("stopped", own_folder_of_a_sweep),
    "RANK=1 left over": ("stopped", left_over("RANK", "1")),
    "LOCAL_RANK=1 left over": ("stopped", left_over("LOCAL_RANK", "1")),
    "RANK=abc left over": ("stopped", left_over("RANK", "abc")),
    "a record without a metric": ("finished", record(without_a_metric)),
    "a record without its cost": ("finished", record(without_cost)),
    "a record without its commit": ("finished", record(without_commit)),
    "a record of 10**400 steps": ("finished", record(endless_number)),
    "an import over our record": ("finished", import_over_ours),
    "a formula in a table": ("stopped", formula_in_a_table),
    "aliases of aliases": ("stopped", nested_aliases),
    "a pipe for curves.csv": ("stopped", pipe_for_a_curve),
    "a directory for a checkpoint": ("stopped", directory_for_a_checkpoint),
    "resume-35 (copy).ckpt": ("stopped", copied_checkpoint),
    "seed_old and seed1 (copy)": ("finished", old_directory),
    "a list for a lease": ("stopped", lease(lambda _: [])),
    "a lease from the future": (
        "stopped",
        lease(lambda known: {k: v + FUTURE if isinstance(v, float) else v for k, v in known.items()}),
    ),
    "a stale part of a cache": ("stopped", left_of_a_cache),
    "nan as a paper's number": ("stopped", table({"valid_loss: 1.068": "valid_loss: .nan"})),
    "digits: 99999": ("stopped", table({"digits: 4": "digits: 99999"})),
    "a row better than itself": ("stopped", table({"better: tanh, than: baseline": "better: tanh, than: tanh"})),
    "a key given twice": ("stopped", table({"rows:\n": "id: again\nrows:\n"})),
    "a row named ../../x": ("stopped", table({"id: baseline": "id: ../../x", "than: baseline": "than: ../../x"})),
    "--temperature 1e-300": ("finished", command("generate", "{run}", "--length", "3", "--temperature", "1e-300")),
    "a prompt in latin-1": ("finished", command("translate", "{run}", "{folder}/latin.txt", wrong="it is read")),
    "export ''": ("finished", command("records", "export", "", wrong="a file without a name")),
    "~trainer.max_steps": ("finished", command("train", "~trainer.max_steps", wrong="a setting is gone")),
    "hydra=null": ("finished", command("train", "hydra=null", wrong="no settings of Hydra")),
    "feed_forward=3": ("finished", command("train", "feed_forward=3", wrong="an unknown key")),
    "report --with model.width=-1": (
        "finished",
        command("report", "highway_t1", "--budget", "smoke", "--with", "model.width=-1", wrong="a negative width"),
    ),
    "logger.project=../../x": (
        "finished",
        command(
            "train",
            *TINY,
            "trainer.max_steps=2",
            "logger=wandb",
            "logger.project=../../x",
            wrong="accepted",
            WANDB_MODE="offline",
        ),
    ),
    "MPLBACKEND of a notebook": (
        "finished",
        command("report", GRID, MPLBACKEND="module://matplotlib_inline.backend_inline"),
    ),
    "PYTHONIOENCODING=ascii": ("finished", command("report", GRID, PYTHONIOENCODING="ascii")),
}


def attempted(tool: Checkout, name: str) -> Verdict:
    state, attempt = ATTEMPTS[name]
    with tempfile.TemporaryDirectory(dir=tool.folder) as folder:
        outputs = shutil.copytree(getattr(tool, state), Path(folder) / "outputs", symlinks=True)
        return attempt(tool, outputs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", nargs="*", type=Path, default=[ROOT], metavar="CHECKOUT")
    parser.add_argument("--only", default="", help="the attempts whose name has this word")
    arguments = parser.parse_args()
    names = [name for name in ATTEMPTS if arguments.only in name]
    table, wrong = Table("attempt", *map(str, arguments.checkouts), box=SIMPLE_HEAD), 0
    with tempfile.TemporaryDirectory() as folder:
        tools = [Checkout(source, Path(folder) / str(number)) for number, source in enumerate(arguments.checkouts)]
        for name in names:
            verdicts = [attempted(tool, name) for tool in tools]
            table.add_row(name, *(verdict.outcome for verdict in verdicts))
            print(name, *verdicts, sep="\n    ", file=sys.stderr, flush=True)
            wrong += verdicts[-1].outcome not in ALLOWED
    Console(width=120).print(table)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
