"""Profile training steps (debug=profile), and write where the time goes as a trace for a browser and as a table.

outputs/debug/<model>-<hash12>/seed<k>/profile/   trace.json (chrome://tracing, Perfetto)   slowest.txt
"""

from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from torch.profiler import ProfilerActivity

ROWS = 15


class Profile(pl.Callback):
    """Profile the last third of the steps.

    The first third warms up. The second third is profiled, and its profile thrown away: on a CPU, the profiler's first
    records break up the freed memory that a step uses again.
    """

    def __init__(self, folder: Path, steps: int) -> None:
        self.folder = folder
        self.starts = (steps // 3, 2 * steps // 3)
        self.ends = (2 * steps // 3, steps)

    def on_train_batch_start(self, trainer: pl.Trainer, *_: Any) -> None:
        if trainer.global_step in self.starts:
            cuda = [ProfilerActivity.CUDA] if torch.cuda.is_available() else []
            self.profiler = torch.profiler.profile(activities=[ProfilerActivity.CPU, *cuda])
            self.profiler.start()

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        if trainer.global_step in self.ends:
            self.profiler.stop()
        if trainer.global_step == self.ends[-1] and trainer.is_global_zero:
            self._write()

    def _write(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        trace, slowest = self.folder / "trace.json", self.folder / "slowest.txt"
        self.profiler.export_chrome_trace(str(trace))
        operations = self.profiler.key_averages()
        order = "self_cuda_time_total" if torch.cuda.is_available() else "self_cpu_time_total"
        slowest.write_text(operations.table(sort_by=order, row_limit=ROWS, max_name_column_width=40) + "\n")
        print(f"{slowest.read_text()}{slowest}\n{trace}", flush=True)
