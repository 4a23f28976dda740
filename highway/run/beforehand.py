"""Prepare the data of a run before the run has a directory: fetch, check and cache it."""

from collections.abc import Iterable

from highway.config.experiment import Experiment
from highway.run import build


def have_data(experiments: Iterable[Experiment]) -> None:
    """Prepare each data set once, even if several runs read it. Raise Refused at the first that is not available."""
    reading = {(repr(one.dataset), one.data_dir, one.outputs_dir): one for one in experiments}
    for one in reading.values():
        build.streams(one.dataset, one.data_dir, one.outputs_dir)
