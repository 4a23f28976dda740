"""Text from a trained language model:  python scripts/generate.py CELL [--prompt TEXT] [--length 500] [--top-p 0.9]

CELL is a cell's directory, outputs/cells/<model>-<hash>/seed<k>, a view, as outputs/highway_t5/mini/tanh/seed1, or a
file of weights (.safetensors).
"""

import argparse
import sys
from pathlib import Path

from highway.cli import one_sentence
from highway.use.generate import Sampling, Writer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cell", type=Path, metavar="CELL")
    parser.add_argument("--prompt", default="", help="text to go on from")
    parser.add_argument("--length", type=int, default=500, help="symbols to write")
    parser.add_argument(
        "--temperature", type=float, default=1.0, help="below 1: likelier symbols; 0: always the likeliest"
    )
    parser.add_argument("--top-k", type=int, help="only the k likeliest symbols")
    parser.add_argument("--top-p", type=float, help="only the likeliest symbols that together have this probability")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--last", action="store_true", help="the last model instead of that of the best validation")
    arguments = parser.parse_args()
    with one_sentence():
        sampling = Sampling(arguments.temperature, arguments.top_k, arguments.top_p, arguments.seed)
        writer = Writer.of_cell(arguments.cell, last=arguments.last)
        for text in writer.write(arguments.prompt, arguments.length, sampling):
            sys.stdout.write(text)
            sys.stdout.flush()
        sys.stdout.write("\n")


if __name__ == "__main__":
    main()
