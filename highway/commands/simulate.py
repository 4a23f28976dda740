"""Simulate tables, and count how often verdicts are wrong or find an effect:  highway simulate [TABLE...]

Prints Markdown. A share with an exclamation mark is significantly above 5 %. docs/LOG.md has the table of 4,000.
"""

import numpy as np

from highway.commands.arguments import Arguments, one_sentence, whole
from highway.report.simulation import CASES, HELD, errors, errors_before, number_rates, power
from highway.sweep.reading import load_table, table_ids

SEEDS = (3, 5, 10)


def main() -> None:
    parser = Arguments(__doc__)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help="default: every table")
    parser.add_argument(
        "--count", type=whole(100, 1_000_000), default=4000, metavar="N", help="tables of each case; default: 4,000"
    )
    arguments = parser.parse_args()
    with one_sentence():
        names = arguments.tables or table_ids()
        show_errors(names, arguments.count)
        show_power(names, arguments.count // 10)
        show_numbers(arguments.count)


def show_errors(names: list[str], count: int) -> None:
    """Print the share of tables with any false verdict, by table, seeds and case."""
    print("Share of tables with any false verdict:\n")
    for case, description in CASES.items():
        print(f"- {case}: {description}{'' if case in HELD else ' (printed only)'}")
    heads = [*CASES, "a, rule of a4d60ae"]
    print("\n| table | seeds | " + " | ".join(heads) + " |\n| --- | ---: |" + " ---: |" * len(heads))
    for name in names:
        table = load_table(name)
        for seeds in SEEDS:
            results = [errors(table, case, seeds, count) for case in CASES]
            shares = [f"{result.share:.1%}{'!' if result.exceeds else ''}" for result in results]
            shares.append(f"{errors_before(table, 'a', seeds, count).share:.1%}")
            print(f"| {name} | {seeds} | " + " | ".join(shares) + " |", flush=True)


def show_power(names: list[str], count: int) -> None:
    """Print the share of true claims that are supported, for effects in deviations."""
    sizes = (1, 2, 3)
    print("\nShare of true claims supported (in brackets: by the rule of a4d60ae), by the effect in deviations:\n")
    heads = [f"{seeds} seeds, {size}" for seeds in SEEDS[:2] for size in sizes]
    print("| table | " + " | ".join(heads) + " |\n| --- |" + " ---: |" * len(heads))
    for name in names:
        powers = [power(load_table(name), size, seeds, count) for seeds in SEEDS[:2] for size in sizes]
        print(
            f"| {name} | " + " | ".join(f"{p.today:.0%} ({p.before:.0%})" if p else "" for p in powers) + " |",
            flush=True,
        )


def show_numbers(count: int) -> None:
    """Print the rates of the words for the paper's numbers."""
    print("\nNumbers of the paper, six rows, by how many deviations its true mean is off:\n")
    offs = np.arange(7)
    print("| seeds | margin | word | " + " | ".join(map(str, offs)) + " |\n| ---: | ---: | --- |" + " ---: |" * 7)
    for seeds in SEEDS:
        for margin in (1.0, 1.8, 3.0):
            rates = [number_rates(float(off), margin, seeds, count) for off in offs]
            for word in rates[0]:
                print(f"| {seeds} | {margin} | {word} | " + " | ".join(f"{rate[word]:.0%}" for rate in rates) + " |")
