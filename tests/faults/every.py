"""All cases of the harness."""

import highway.report.formats
import highway.report.terminal
import highway.sweep.local
import highway.use.generate
import highway.use.translate  # noqa: F401  # imported once, before the cases fork
from tests.faults import archives, damage, inputs, interruptions
from tests.faults.scenes import Scenes
from tests.faults.trials import Case


def cases(scenes: Scenes) -> list[Case]:
    return [case for part in (damage, inputs, archives, interruptions) for case in part.cases(scenes)]
