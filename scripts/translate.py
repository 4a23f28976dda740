"""Translate with a trained model:  python scripts/translate.py CELL "este é um problema ." | --file talk.pt | < talk.pt

CELL is a cell's directory, as outputs/gated_resnet_t1/smoke/t_e4h6/seed1, or a file of weights (.safetensors). One
sentence a line; it is lower-cased and split into words as the training text is. A line longer than the model's maximum
is cut there, and the number of such lines is told.
"""

import sys
from pathlib import Path

from rich.console import Console

from highway.cli import Arguments, between, one_sentence, whole
from highway.data.translation import like_ted
from highway.errors import Refused

WIDE = 1000  # columns: a map of attention is not folded; less -S scrolls it


def main() -> None:
    parser = Arguments(__doc__)
    parser.add_argument("cell", type=Path, metavar="CELL")
    parser.add_argument("text", nargs="*", help="standard input where there is neither this nor --file")
    parser.add_argument("--file", type=Path)
    parser.add_argument(
        "--beam", type=whole(1, 100), default=1, metavar="WIDTH", help="beam search; 1 (default) is greedy"
    )
    parser.add_argument("--penalty", type=between(-10, 10), default=0.6, help="of length: ((5 + n) / 6) ** penalty")
    parser.add_argument("--last", action="store_true", help="the last weights, not those of the best validation")
    parser.add_argument("--attention", type=whole(1), metavar="LAYER", help="also print where this layer looks")
    arguments = parser.parse_args()
    with one_sentence():
        if arguments.text and arguments.file:
            raise Refused("either a text or --file is translated, and not both.")
        lines = _lines(arguments.text, arguments.file)
        from highway.use.translate import (  # imports torch: only now that there is something to translate
            check_layer,
            show_attention,
            translator_of,
        )

        translator = translator_of(arguments.cell, arguments.last)
        if arguments.attention is not None:
            check_layer(translator, arguments.attention)
        cut = translator.too_long(lines)
        outputs = translator.translate(lines, arguments.beam, arguments.penalty)
        for line, output in zip(lines, outputs, strict=True):
            print(output)
            if arguments.attention is not None and line:
                show_attention(translator, line, output, arguments.attention, Console(width=WIDE))
        if cut:
            print(f"{cut} of {len(lines)} lines were cut at {translator.longest} pieces.", file=sys.stderr)


def _lines(words: list[str], path: Path | None) -> list[str]:
    try:
        text = " ".join(words) if words else (path.read_bytes() if path else sys.stdin.buffer.read()).decode()
        lines = [like_ted(line) for line in text.removesuffix("\n").split("\n")]
    except UnicodeDecodeError as error:
        raise Refused(f"{path or 'standard input'} is not UTF-8 text.") from error
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}.") from error
    if not any(lines):
        raise Refused("there is nothing to translate.")
    return lines


if __name__ == "__main__":
    main()
