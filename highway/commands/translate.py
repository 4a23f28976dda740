"""Translate with a trained model:  highway translate RUN "este é um problema ." | --file talk.pt | < talk.pt

RUN is a run directory, as outputs/gated_resnet_t1/smoke/t_e4h6/seed1, or a file of weights (.safetensors). Each line is
a sentence; it is lower-cased and split into words as the training text was. Longer lines than the model accepts are
truncated, and a message counts them.
"""

import sys
from pathlib import Path

from rich.console import Console

from highway.commands.arguments import Arguments, between, one_sentence, whole
from highway.data.translation import like_ted
from highway.errors import Refused

WIDE = 1000  # columns, so that a map of attention is not wrapped; scroll it with less -S


def main() -> None:
    parser = Arguments(__doc__)
    parser.add_argument("run", type=Path, metavar="RUN", help="a run directory, or a file of weights")
    parser.add_argument("text", nargs="*", help="sentence to translate; default: standard input, or --file")
    parser.add_argument("--file", type=Path, help="UTF-8 file with a sentence in each line")
    search = parser.add_argument_group("search")
    search.add_argument(
        "--beam",
        type=whole(1, 100),
        default=1,
        metavar="WIDTH",
        help="width of the beam search; default: 1, which is greedy",
    )
    search.add_argument(
        "--penalty", type=between(-10, 10), default=0.6, help="exponent of the length penalty ((5 + n) / 6) ** penalty"
    )
    parser.add_argument("--last", action="store_true", help="use the last checkpoint instead of the best")
    parser.add_argument(
        "--attention", type=whole(1), metavar="LAYER", help="also print the cross-attention of this layer"
    )
    arguments = parser.parse_args()
    with one_sentence():
        if arguments.text and arguments.file:
            raise Refused("a text and --file cannot be combined. Give only one of them.")
        lines = _lines(arguments.text, arguments.file)
        from highway.use.translate import (  # imports torch, so not before the input is checked
            check_layer,
            show_attention,
            translator_of,
        )

        translator = translator_of(arguments.run, arguments.last)
        if arguments.attention is not None:
            check_layer(translator, arguments.attention)
        cut = translator.too_long(lines)
        outputs = translator.translate(lines, arguments.beam, arguments.penalty)
        for line, output in zip(lines, outputs, strict=True):
            print(output)
            if arguments.attention is not None and line:
                show_attention(translator, line, output, arguments.attention, Console(width=WIDE))
        if cut:
            count = f"{cut} of {len(lines)} line{'' if len(lines) == 1 else 's'}"
            print(f"{count} truncated to {translator.longest} pieces.", file=sys.stderr)


def _lines(texts: list[str], path: Path | None) -> list[str]:
    try:
        text = " ".join(texts) if texts else (path.read_bytes() if path else sys.stdin.buffer.read()).decode()
        lines = [like_ted(line) for line in text.removesuffix("\n").split("\n")]
    except UnicodeDecodeError as error:
        raise Refused(f"{path or 'standard input'} is not UTF-8 text. Convert it to UTF-8 first.") from error
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}.") from error
    if not any(lines):
        raise Refused("there is nothing to translate: the text is empty.")
    return lines
