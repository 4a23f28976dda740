"""Every table of a paper has the card of its paper."""

import pytest

from highway.config.papers import PAPERS, paper_of
from highway.sweep.reading import load_table, table_ids


@pytest.mark.parametrize("name", table_ids())
def test_a_table_names_a_paper_that_has_a_card(name: str) -> None:
    paper = paper_of(load_table(name).paper)
    assert paper is not None and paper in PAPERS.values()
    assert all(author in paper.bibtex for author in paper.authors) and paper.title in paper.bibtex


def test_another_table_has_none() -> None:
    assert paper_of("") is None and paper_of("Somebody, Table 1") is None
