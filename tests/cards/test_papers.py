"""Every table of a paper has the card of its paper."""

from highway.cards.papers import PAPERS, paper_of
from highway.tables.reading import load_table, table_ids


def test_every_table_names_a_paper_that_has_a_card() -> None:
    for name in table_ids():
        paper = paper_of(load_table(name).paper)
        assert paper is not None and paper in PAPERS.values(), name
        assert paper.authors and paper.title
    assert paper_of("") is None and paper_of("Somebody, Table 1") is None
