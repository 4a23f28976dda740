"""Run every check that needs a GPU, in under ten minutes, and write one report to send: `make gpu-check`.

    python -m highway.bench.gpu_check [CHECK...]

Without a GPU nothing runs. --device cpu tries the checks themselves, the CPU against itself.
"""

import argparse
import platform
import sys
import tempfile
import time
from pathlib import Path

import torch

from highway.bench.checklist import Setting, run_all
from highway.bench.device_checks import CHECKS
from highway.config.home import outputs_folder
from highway.config.sentences import one_sentence
from highway.errors import Refused, closest, listing
from highway.ledger.machine import commit, device_name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checks", nargs="*", metavar="CHECK", help=f"default: all of {', '.join(CHECKS)}")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="default: cuda")
    parser.add_argument("--tables", nargs="*", default=[], metavar="TABLE", help="compare only rows of these tables")
    parser.add_argument("--rows", nargs="*", default=[], metavar="ROW", help="compare only these rows")
    parser.add_argument("--budget", default="paper", choices=["paper", "mini", "smoke"], help="of the measured shapes")
    arguments = parser.parse_args()
    with one_sentence():
        for name in arguments.checks:
            if name not in CHECKS:
                known = list(CHECKS)
                raise Refused(f"check '{name}' is unknown.{closest(name, known)} Available: {listing(known)}.")
        if arguments.device == "cuda" and not torch.cuda.is_available():
            print("There is no CUDA device here, so nothing was tried: 0 checks run.")
            return
        checks = {name: CHECKS[name] for name in arguments.checks or CHECKS}
        report = outputs_folder() / "gpu-check" / f"{time.strftime('%Y-%m-%d-%H%M%S')}.md"
        with tempfile.TemporaryDirectory() as folder:
            rows = (tuple(arguments.tables), tuple(arguments.rows), arguments.budget)
            setting = Setting(arguments.device, Path(folder), *rows)
            heading = header(arguments.device)
            results = run_all(checks, setting, report, heading, tell=lambda line: print(line, flush=True))
        failed = sum(not result.passed for result in results)
        print(f"{len(results)} checks run, {failed} failed. The report to send: {report}")
    sys.exit(bool(failed))


def header(device: str) -> list[str]:
    """Describe the machine for a reader of the report; no names of hosts, people or folders."""
    lines = [f"# gpu-check, {time.strftime('%Y-%m-%d')}", "", f"- device: {device_name(device)}"]
    if device == "cuda":
        about = torch.cuda.get_device_properties(0)
        lines.append(f"- {about.total_memory / 2**30:.0f} GiB, compute capability {about.major}.{about.minor}")
        lines.append(f"- CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}")
    return [*lines, f"- torch {torch.__version__}, Python {platform.python_version()}", f"- commit {commit()}", ""]


if __name__ == "__main__":
    main()
