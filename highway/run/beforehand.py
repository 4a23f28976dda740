"""Prepare the data of a run before the run has a directory: fetch, check and cache it."""

from collections.abc import Iterable

from highway.config.experiment import Experiment
from highway.run import build


def have_data(experiments: Iterable[Experiment]) -> None:
    """Prepare each data set once, even if several runs read it. Raise Refused at the first that is not available."""
    reading = {(repr(run.dataset), run.data_dir, run.outputs_dir): run for run in experiments}
    for run in reading.values():
        build.streams(run.dataset, run.data_dir, run.outputs_dir)
