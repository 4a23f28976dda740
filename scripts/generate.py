"""What a trained model writes:  python scripts/generate.py CELL [--prompt TEXT] [--length 500] [--top-p 0.9]

CELL is a cell's directory, outputs/cells/<model>-<hash>/seed<k>, a view, as outputs/highway_t5/mini/tanh/seed1, or a
file of weights (.safetensors). A language model goes on with a text, and a model of music with the beginning of a tune
of the test set: that becomes a MIDI file.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

from highway.cli import Arguments, between, one_sentence, whole
from highway.config.check import LARGEST_SEED
from highway.errors import Refused
from highway.use.generate import Sampling, Writer
from highway.use.load import Trained, load
from highway.use.tunes import beginning, continued, write_midi

TUNE: dict[str, Any] = {"tune": 1, "begin": 32, "step_seconds": 0.25, "midi": Path("tune.mid")}
TEXT = ("prompt", "top_k", "top_p")


def main() -> None:
    parser = Arguments(__doc__)
    parser.add_argument("cell", type=Path, metavar="CELL")
    parser.add_argument("--length", type=whole(1), default=500, help="symbols, or steps of a tune, to write")
    words = "below 1: what is likelier; 0: only that"
    parser.add_argument("--temperature", type=between(0, 1e6), default=1.0, help=words)
    parser.add_argument("--seed", type=whole(0, LARGEST_SEED), default=1)
    parser.add_argument("--last", action="store_true", help="the last model instead of that of the best validation")
    text = parser.add_argument_group("text")
    text.add_argument("--prompt", help="text to go on from")
    text.add_argument("--top-k", type=whole(1), help="only the k likeliest symbols")
    words = "only the likeliest symbols that together have this probability"
    text.add_argument("--top-p", type=between(1e-6, 1), help=words)
    tune = parser.add_argument_group("tunes")
    tune.add_argument("--tune", type=whole(1), help="of the test set, to go on from; the first by default")
    tune.add_argument("--begin", type=whole(1), help="with so many of its steps; 32 by default")
    tune.add_argument("--step-seconds", type=between(0.001, 60), help="how long a step sounds; 0.25 by default")
    tune.add_argument("--midi", type=Path, help="the file; tune.mid by default")
    arguments = parser.parse_args()
    with one_sentence():
        sampling = Sampling(arguments.temperature, arguments.top_k, arguments.top_p, arguments.seed)
        trained = load(arguments.cell, arguments.last, "language", "music")
        musical = trained.experiment.task == "music"
        refuse(arguments, TEXT if musical else tuple(TUNE))
        (play if musical else write)(trained, arguments, sampling)


def refuse(arguments: argparse.Namespace, unfitting: tuple[str, ...]) -> None:
    for name in unfitting:
        if getattr(arguments, name) is not None:
            kind = "text" if name in TEXT else "tunes"
            raise Refused(f"--{name.replace('_', '-')} is for models of {kind}, which {arguments.cell} is not.")


def write(trained: Trained, arguments: argparse.Namespace, sampling: Sampling) -> None:
    for text in Writer(trained).write(arguments.prompt or "", arguments.length, sampling):
        sys.stdout.write(text)
        sys.stdout.flush()
    sys.stdout.write("\n")


def play(trained: Trained, arguments: argparse.Namespace, sampling: Sampling) -> None:
    number, begin, seconds, path = (
        usual if (given := getattr(arguments, name)) is None else given for name, usual in TUNE.items()
    )
    keys = beginning(trained, number, begin)
    keys = continued(trained, keys, arguments.length, sampling.temperature, sampling.seed)
    write_midi(keys, path, seconds)
    print(f"{path}: {len(keys)} steps, of which the first {begin} are those of test tune {number}")


if __name__ == "__main__":
    main()
