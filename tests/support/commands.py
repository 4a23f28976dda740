"""Run our commands as a user types them, without spending seconds of each process on importing torch.

A server imports the modules that the commands need, once. It runs no command itself: each command is a fork of it,
a process with its own arguments, environment, folder, input and output. Tests of what happens before torch is
imported, of kills and of signals start real processes instead.
"""

import atexit
import json
import os
import signal
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import highway.cli

ROOT = Path(__file__).parents[2]
TRAIN = ROOT / "scripts" / "train.py"
SECONDS = 600  # a command that takes longer is killed


def typed(command: str, *arguments: str, text: bytes = b"", **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run `highway COMMAND ARGUMENTS` with `text` as input and `environment` added; return the finished process."""
    with tempfile.TemporaryDirectory() as folder:
        files = {name: str(Path(folder) / name) for name in ("input", "output", "errors")}
        Path(files["input"]).write_bytes(text)
        line = ["highway", command, *arguments]
        request = {"command": line, "environment": {**os.environ, **environment}, "folder": os.getcwd(), **files}
        server = _server()
        print(json.dumps(request), file=server.stdin)
        answer = server.stdout.readline()
        assert answer, "the server of tests/support/commands.py has died"
        output, errors = (Path(files[name]).read_bytes().decode() for name in ("output", "errors"))
        return subprocess.CompletedProcess(line, int(answer), output, errors)


@cache
def _server() -> Any:
    """Return this process's server. The server ends with this process, because its input ends then."""
    command = [sys.executable, "-m", "tests.support.commands"]
    server = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True, bufsize=1, start_new_session=True
    )
    atexit.register(server.communicate)
    return server


def _serve() -> None:
    import highway.python.generate
    import highway.python.translate
    import highway.report.render
    import highway.sweep.local
    import highway.train_command
    import highway.training  # noqa: F401

    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _become(request)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _become(request: dict[str, Any]) -> None:
    """Run a command in this process; the process ends with it."""
    signal.alarm(SECONDS)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    for number, (name, flags) in enumerate((("input", os.O_RDONLY), ("output", WRITE), ("errors", WRITE))):
        handle = os.open(request[name], flags, 0o600)
        os.dup2(handle, number)
        os.close(handle)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115  # Python's own stdin has already read ahead
    try:
        sys.argv = request["command"]
        highway.cli.main()
        code: Any = 0
    except SystemExit as end:
        code = end.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    if isinstance(code, str):
        print(code, file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


WRITE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC

if __name__ == "__main__":
    _serve()
