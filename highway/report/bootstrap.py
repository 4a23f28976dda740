"""Do two rows differ on these test sentences? sacreBLEU's paired bootstrap, from the counts that records keep.

This is about the sentences of one test set; differences between seeds are what the claims' verdicts are about.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from highway.report.collect import Collected, Sample
from highway.sweep.table import Row


@dataclass(frozen=True)
class Compared:
    row: Row
    base: Row
    seed: int
    bleu: float
    half: float  # of the 95 % interval over resamples
    difference: float
    p: float


def compare(collected: Collected) -> list[Compared]:
    """Every row that the table wants compared, at every seed that its base has as well."""
    found = []
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
            for row, one in zip(rows[1:], results[1:], strict=True):
                difference = one.score - results[0].score
                found.append(Compared(row, rows[0], base.seed, one.score, one.ci, difference, one.p_value))
    return found


def _counts(sample: Sample) -> list[str]:
    return sample.result["notes"]["bleu_counts"]


def _order(sample: Sample) -> list[str]:
    """Of which sentences the counts are, told by the references' lengths: publications of TED differ in their order."""
    return [line.split()[1] for line in _counts(sample)]


def paired_bootstrap(systems: Sequence[Sequence[str]]) -> list[Any]:
    """sacreBLEU's result for each system, the first being the baseline; a sentence is its counts, in words."""
    from sacrebleu.metrics import BLEU
    from sacrebleu.significance import PairedTest

    class OfCounts(BLEU):
        def _extract_corpus_statistics(self, hypotheses: Sequence[str], references: Any) -> list[list[int]]:
            return [[int(count) for count in line.split()] for line in hypotheses]

    named: list[tuple[str, Sequence[str]]] = [(str(number), lines) for number, lines in enumerate(systems)]
    metric = OfCounts(tokenize="none", references=[[""]])  # its signature wants their number
    _, results = PairedTest(named, {"BLEU": metric}, None, test_type="bs")()
    return results["BLEU"]
