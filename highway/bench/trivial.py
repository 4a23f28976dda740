"""Write a record without training: `python trivial.py FOLDER SEED`.

A sweep starts this in place of `highway train` when its overhead is measured.
"""

import sys
from pathlib import Path
from typing import Any

from highway.ledger.record import write_record

METRICS = [f"{split}_{kind}" for split in ("valid", "test") for kind in ("loss", "bpc", "ppl")]


def record(run: str, seed: int) -> dict[str, Any]:
    return {
        "cell": run,
        "status": "finished",
        "seed": seed,
        "budget": "smoke",
        "data": {"source": "sample", "sha256": {}},
        "metrics": {name: {"best": 1 + seed / 1000, "last": 2.0} for name in (*METRICS, "train_seconds")},
        "parameters": {"total": 1000, "trainable": 1000, "gate": 0},
        "cost": {
            "seconds": 1.0,
            "tokens_per_second": 1.0,
            "peak_memory_bytes": 1,
            "device": "none",
            "exclusive": True,
        },
        "environment": {
            "git_commit": None,
            "precision": "32",
            "threads": 1,
            "compile": None,
            "versions": {f"package-{number}": "1.2.3" for number in range(60)},
        },
    }


def write(folder: Path, seed: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"1,1,1,1,{split},{kind},2.5" for split in ("train", "valid") for kind in ("loss", "bpc")]
    (folder / "curves.csv").write_text("\n".join(["step,epoch,seconds,tokens,split,metric,value", *lines, ""]))
    write_record(folder, record(folder.parent.name, seed))


if __name__ == "__main__":
    write(Path(sys.argv[1]), int(sys.argv[2]))
