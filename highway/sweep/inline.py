"""hydra/launcher=inline: trains one run after another in this process, for tests and debugging."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from highway.config.compose import experiment
from highway.errors import Held
from highway.sweep.launcher import Job, Launcher
from highway.sweep.planned_run import EXIT_REFUSED, Planned
from highway.tables.typed import command_line, search_path


@dataclass(frozen=True)
class Call:
    """A job that trains its run when it is polled."""

    poll: Callable[[], int]

    def terminate(self) -> None: ...

    def wait(self) -> None: ...


class InlineLauncher(Launcher):
    in_this_process = True

    def prepare(self, to_run: Sequence[Planned], in_sweep: int) -> int:
        self.busy = False
        return 1

    def take(self, planned: Planned) -> bool:
        free, self.busy = not self.busy, True
        return free

    def give_back(self, planned: Planned) -> None:
        self.busy = False

    def start(self, to_run: Sequence[Planned]) -> Iterable[tuple[Planned, Job]]:
        for planned in to_run:
            yield planned, Call(partial(self._train, planned))

    def _train(self, planned: Planned) -> int:
        """Train a run; return the exit code that a process would have ended with."""
        from highway.training import run  # imports torch

        overrides = [*search_path(self.config), *planned.overrides]
        try:
            status = run(experiment(overrides), planned.directory, command_line(overrides))
        except Held:  # another sweep has taken the lease since the core looked
            return EXIT_REFUSED
        if status == "interrupted":
            raise KeyboardInterrupt
        return 0 if status == "finished" else 1
