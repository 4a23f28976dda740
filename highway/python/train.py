"""Train a run from Python, in a process of its own, so that it gives the numbers that the command line gives."""

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import IO, Any

from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from highway.clock import clock
from highway.config import project
from highway.config.compose import experiment
from highway.config.sentences import sentence
from highway.errors import Refused
from highway.ledger.directory import RunDirectory
from highway.ledger.lease import SWEEP
from highway.tables.typed import quoted

PLAIN = re.compile(r"[\w./+-]+")  # texts that Hydra reads as they are
LOOK_EVERY = 0.5  # seconds
BAR = 24  # characters
Settings = Mapping[str, Any] | Sequence[str]


def train(settings: Settings, progress: bool | None = None) -> Any:
    """Train a run and load it. A finished run is loaded at once; a run that was stopped is resumed.

    Refused settings and runs that fail raise `Refused`, with the sentence that the command line prints.

    settings: overrides as a mapping, which may be nested, or as a list of texts as on the command line.
    progress: show a progress bar; by default on a terminal and in a notebook.
    """
    project.load()
    overrides = as_overrides(settings)
    try:
        directory = RunDirectory.of(experiment(overrides))
    except (HydraException, OmegaConfBaseException) as wrong:
        raise Refused(sentence(wrong)) from wrong
    if progress is None:
        progress = sys.stderr.isatty() or "ipykernel" in sys.modules  # on a terminal and in a notebook
    if not directory.done:
        _train(overrides, directory, progress)
    if directory.status != "finished":
        error = (directory.result() or {}).get("error")
        raise Refused(f"{directory.path} is {directory.status}{f': {error}' if error else ''}. See {directory.log}.")
    from highway.python.load import load  # imports torch, which a refusal does without

    return load(directory.path)


def as_overrides(settings: Settings) -> list[str]:
    """Return overrides as typed on a command line; a mapping may be nested: {"optimizer": {"lr": 0.1}}."""
    if not isinstance(settings, Mapping):
        if isinstance(settings, str):
            raise Refused('several overrides are a list, as in ["gate=sdu_tanh", "seed=1"].')
        return list(settings)
    overrides = []
    for key, value in settings.items():
        if isinstance(value, Mapping):
            overrides += [f"{key}.{override}" for override in as_overrides(value)]
        else:
            overrides.append(f"{key}={_spelled(value)}")
    return overrides


def _spelled(value: Any) -> str:
    """Spell a value in Hydra's grammar."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_spelled, value))}]"
    text = str(value)
    return text if PLAIN.fullmatch(text) else quoted(text)


def _train(overrides: list[str], directory: RunDirectory, progress: bool) -> None:
    command = [sys.executable, "-m", "highway", "train", *overrides]
    environment = {**os.environ, SWEEP: str(os.getpid())}  # the run saves and stops if this process dies
    before = directory.result()  # of a run that failed
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, start_new_session=True
        )
        try:
            _wait(process, directory, progress)
        except KeyboardInterrupt:
            process.send_signal(signal.SIGTERM)  # it writes a checkpoint
            process.wait()
            raise
        if process.returncode and directory.result() in (None, before):
            raise Refused(_last_line(output))


def _wait(process: "subprocess.Popen[bytes]", directory: RunDirectory, progress: bool) -> None:
    while process.poll() is None:
        try:
            process.wait(LOOK_EVERY)
        except subprocess.TimeoutExpired:
            if progress:
                print(f"\r{bar(directory.progress)}", end="", file=sys.stderr, flush=True)
    if progress:
        print(f"\r{directory.id}: {directory.status}".ljust(100), file=sys.stderr)


def bar(numbers: Mapping[str, Any]) -> str:
    """Return the progress of a run as a line, from the numbers of its lease."""
    if not numbers:
        return "starting"
    share = numbers["step"] / numbers["steps"]
    losses = [
        f"{name.replace('_', ' ')} {numbers[name]:.4f}" for name in ("train_loss", "valid_loss") if name in numbers
    ]
    line = f"{'█' * round(share * BAR):░<{BAR}} {share:4.0%}  step {numbers['step']:,}/{numbers['steps']:,}"
    left = [f"{clock(numbers['seconds_left'])} left"] if "seconds_left" in numbers else []
    return "  ".join([line, *losses, *left]).ljust(100)


def _last_line(output: IO[bytes]) -> str:
    output.seek(0)
    lines = output.read().decode(errors="replace").strip().splitlines()
    return lines[-1].removeprefix("error: ") if lines else "the run ended without a message."
