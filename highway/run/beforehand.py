"""What is asked for before a cell has a folder: its data, fetched, checked and cached."""

from collections.abc import Iterable

from highway.config.experiment import Experiment
from highway.run import build


def have_data(experiments: Iterable[Experiment]) -> None:
    """Each data set once, however many read it; refuses the first that cannot be had."""
    reading = {(repr(one.dataset), one.data_dir, one.outputs_dir): one for one in experiments}
    for one in reading.values():
        build.streams(one.dataset, one.data_dir, one.outputs_dir)
