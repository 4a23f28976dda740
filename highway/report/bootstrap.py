"""sacreBLEU's paired bootstrap of two rows, from the n-gram counts that records keep.

It says whether two trained models differ on the sentences of a test set; verdicts on claims compare seeds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from highway.report.collect import Collected, Sample
from highway.sweep.table import Row


@dataclass(frozen=True)
class Compared:
    """A row compared with its baseline at a seed."""

    row: Row
    base: Row
    seed: int
    bleu: float
    half: float  # half the width of the 95 % interval over resamples
    difference: float
    p: float


def compare(collected: Collected) -> list[Compared]:
    """Compare the rows that the table file names, at each seed that their baseline has as well."""
    pairs = []
    for base_id, others in collected.table.bootstrap.items():
        for base in collected.finished(base_id):
            same_seed = {
                row_id: _counts(sample)
                for row_id in (base_id, *others)
                for sample in collected.finished(row_id)
                if sample.seed == base.seed and _order(sample) == _order(base)
            }
            rows = [collected.table.row(row_id) for row_id in same_seed]
            results = paired_bootstrap(list(same_seed.values()))
            for row, result in zip(rows[1:], results[1:], strict=True):
                difference = result.score - results[0].score
                pairs.append(Compared(row, rows[0], base.seed, result.score, result.ci, difference, result.p_value))
    return pairs


def _counts(sample: Sample) -> list[str]:
    return sample.result["notes"]["bleu_counts"]


def _order(sample: Sample) -> list[str]:
    """Return the lengths of the references, which show the order of the sentences: releases of TED differ in it."""
    return [line.split()[1] for line in _counts(sample)]


def paired_bootstrap(systems: Sequence[Sequence[str]]) -> list[Any]:
    """Return sacreBLEU's result for each system; the first is the baseline, and a sentence is a line of its counts."""
    from sacrebleu.metrics import BLEU
    from sacrebleu.significance import PairedTest

    class OfCounts(BLEU):
        def _extract_corpus_statistics(self, hypotheses: Sequence[str], references: Any) -> list[list[int]]:
            return [[int(count) for count in line.split()] for line in hypotheses]

    named: list[tuple[str, Sequence[str]]] = [(str(number), lines) for number, lines in enumerate(systems)]
    metric = OfCounts(tokenize="none", references=[[""]])  # sacreBLEU's signature needs the number of references
    _, results = PairedTest(named, {"BLEU": metric}, None, test_type="bs")()
    return results["BLEU"]
