"""Print the completion of commands, tables and overrides for bash, and for zsh with bashcompinit:  highway completion

Commands and tables are completed at once; after `highway train`, Hydra completes groups, options and keys (its -sc).
"""

from highway.commands.arguments import Arguments
from highway.commands.helps import COMMANDS
from highway.sweep.reading import table_ids

SCRIPT = """_highway() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" choices
    if [ "$COMP_CWORD" = 1 ]; then
        choices="{commands} --help --version"
    elif [ "${{COMP_WORDS[1]}}" = train ]; then
        choices=$(COMP_LINE="highway${{COMP_LINE#*train}}" highway train -sc query=bash 2> /dev/null)
    else
        choices="{tables} --help"
    fi
    COMPREPLY=($(compgen -o nospace -o default -W "$choices" -- "$word"))
}}
COMP_WORDBREAKS=${{COMP_WORDBREAKS//=}}
complete -o nospace -o default -F _highway highway"""


def main() -> None:
    Arguments(__doc__).parse_args()
    print(SCRIPT.format(commands=" ".join(COMMANDS), tables=" ".join(table_ids())))
