"""The command `highway`: it hands over to the module of a subcommand. Help imports nothing else, so it is immediate."""

import io
import os
import sys
from importlib import import_module

from highway.commands.helps import COMMANDS
from highway.errors import closest, listing

EXAMPLES = """
examples:
  highway train model=transformer gate=sdu_tanh dataset=ptb_char seed=1
  highway train -m table=highway_t1 budget=smoke seeds=1,2
  highway report highway_t1 --budget smoke

exit codes:
  0 done, 1 a run failed, 2 the command is wrong, 3 a run diverged, 4 a file cannot be written, 130 interrupted

`highway COMMAND --help` describes a command."""


def main(name: str | None = None) -> None:
    """Run a subcommand: `name`, or the first argument."""
    _settle()
    chosen, *arguments = [name, *sys.argv[1:]] if name else sys.argv[1:] or ["--help"]
    if chosen in ("-h", "--help"):
        print("usage: highway COMMAND ...\n\nReproduces the tables of four papers on gating.\n\ncommands:")
        print(*(f"  {command:<10} {does}" for command, does in COMMANDS.items()), EXAMPLES, sep="\n")
    elif chosen == "--version":
        from highway.commands.version import describe

        print(describe())
    elif chosen in COMMANDS:
        from highway.commands.arguments import one_sentence
        from highway.config.project import load

        sys.argv = [f"highway {chosen}", *arguments]
        with one_sentence():
            load()
        import_module(f"highway.commands.{chosen.replace('-', '_')}").main()
    else:
        print(
            f"error: {chosen} is not a command.{closest(chosen, list(COMMANDS))} Available: {listing(list(COMMANDS))}.",
            file=sys.stderr,
        )
        sys.exit(2)


def _settle() -> None:
    """Let the command print and draw in any environment."""
    os.environ.pop("MPLBACKEND", None)  # figures become files; a notebook's backend may not be installed
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may lack a character, as with PYTHONIOENCODING=ascii


if __name__ == "__main__":
    main()
