"""Generate text or music with a trained model:  highway generate RUN [--prompt TEXT] [--length 500]

RUN is a run directory (outputs/cells/<model>-<hash>/seed<k>), a link to one (outputs/highway_t5/mini/tanh/seed1), or a
file of weights (.safetensors). A language model continues the prompt. A music model continues a tune of the test set,
and writes a MIDI file.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

from highway.commands.arguments import Arguments, between, one_sentence, whole
from highway.config.experiment import LARGEST_SEED
from highway.errors import Refused
from highway.use.generate import Sampling, Writer
from highway.use.load import Trained, load
from highway.use.tunes import beginning, continued, write_midi

TUNE: dict[str, Any] = {"tune": 1, "begin": 32, "step_seconds": 0.25, "midi": Path("tune.mid")}
TEXT = ("prompt", "top_k", "top_p")


def main() -> None:
    parser = Arguments(__doc__)
    parser.add_argument("run", type=Path, metavar="RUN", help="a run directory, or a file of weights")
    parser.add_argument("--length", type=whole(1), default=500, help="number of symbols, or of steps of a tune")
    description = "below 1: prefer likely symbols; 0: always take the likeliest; default: 1"
    parser.add_argument("--temperature", type=between(0, 1e6), default=1.0, help=description)
    parser.add_argument("--seed", type=whole(0, LARGEST_SEED), default=1, help="random seed; default: 1")
    parser.add_argument("--last", action="store_true", help="use the last checkpoint instead of the best")
    text = parser.add_argument_group("text")
    text.add_argument("--prompt", help="text to continue; default: none")
    text.add_argument("--top-k", type=whole(1), help="draw only from the k likeliest symbols")
    description = "draw only from the likeliest symbols that together have this probability"
    text.add_argument("--top-p", type=between(1e-6, 1), help=description)
    tune = parser.add_argument_group("tunes")
    tune.add_argument("--tune", type=whole(1), help="number of the tune of the test set to continue; default: 1")
    tune.add_argument("--begin", type=whole(1), help="number of its steps to start from; default: 32")
    tune.add_argument("--step-seconds", type=between(0.001, 60), help="duration of a step; default: 0.25")
    tune.add_argument("--midi", type=Path, help="file to write; default: tune.mid")
    arguments = parser.parse_args()
    with one_sentence():
        sampling = Sampling(arguments.temperature, arguments.top_k, arguments.top_p, arguments.seed)
        trained = load(arguments.run, arguments.last, "language", "music")
        musical = trained.experiment.dataset_card.task == "music"
        refuse(arguments, TEXT if musical else tuple(TUNE))
        (play if musical else write)(trained, arguments, sampling)


def refuse(arguments: argparse.Namespace, unfitting: tuple[str, ...]) -> None:
    """Refuse options that do not fit the kind of model."""
    for name in unfitting:
        if getattr(arguments, name) is not None:
            kind = "text" if name in TEXT else "tunes"
            option = f"--{name.replace('_', '-')}"
            raise Refused(f"{option} is for models of {kind}, which {arguments.run} is not. Leave it out.")


def write(trained: Trained, arguments: argparse.Namespace, sampling: Sampling) -> None:
    """Print the prompt and the generated text, piece by piece."""
    for text in Writer(trained).write(arguments.prompt or "", arguments.length, sampling):
        sys.stdout.write(text)
        sys.stdout.flush()
    sys.stdout.write("\n")


def play(trained: Trained, arguments: argparse.Namespace, sampling: Sampling) -> None:
    """Continue a tune and write it as a MIDI file."""
    number, begin, seconds, path = (
        default if (value := getattr(arguments, name)) is None else value for name, default in TUNE.items()
    )
    keys = beginning(trained, number, begin)
    keys = continued(trained, keys, arguments.length, sampling.temperature, sampling.seed)
    write_midi(keys, path, seconds)
    print(f"{path}: {len(keys)} steps, of which the first {begin} are from tune {number} of the test set")
