"""The fault harness (tests/support/faults.py) finds nothing lost, run twice or different, and no corrupt file used."""

import os
from pathlib import Path

import pytest

from tests.support.faults import FAULTS, Folder, outcome, undisturbed

KILLS = 3  # of each of three kinds; make faults uses seventeen


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    return undisturbed(tmp_path_factory.mktemp("whole"))


@pytest.mark.slow
@pytest.mark.skipif(
    os.environ.get("HIGHWAY_FAULTS") != "yes", reason="takes ten minutes; make faults prints the report"
)
@pytest.mark.parametrize("name", FAULTS)
def test_under_faults(name: str, whole: Folder, tmp_path: Path) -> None:
    result = outcome(name, tmp_path, whole, KILLS)
    assert result.injected and result.clean, result
