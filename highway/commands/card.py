"""Write a model card, weights and configuration in the Hugging Face layout:  highway card RUN [--into FOLDER]

Nothing is uploaded.
"""

from pathlib import Path

from highway.commands.arguments import Arguments, one_sentence


def main() -> None:
    parser = Arguments(__doc__)
    parser.add_argument("run", type=Path, metavar="RUN", help="directory of a finished run")
    parser.add_argument("--into", type=Path, metavar="FOLDER", help="default: card/ in the directory of the run")
    arguments = parser.parse_args()
    with one_sentence():
        from highway.use.card import write_card  # imports torch

        for path in write_card(arguments.run, arguments.into or arguments.run / "card"):
            print(path)
