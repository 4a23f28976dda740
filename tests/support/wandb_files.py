"""Read the files that W&B writes offline."""

import json
import struct
import time
from pathlib import Path
from typing import Any


def records_of(content: bytes) -> list[bytes]:
    """Read W&B's offline file: a 7-byte header, then blocks of 32 KiB.

    A block has pieces: checksum (4 bytes), length (2), kind (1), data.
    """
    block, position, pieces, records = 32768, 7, b"", []
    while position + 7 <= len(content):
        if block - position % block < 7:  # the block has no room for another piece
            position += block - position % block
            continue
        length, kind = struct.unpack_from("<HB", content, position + 4)
        if position + 7 + length > len(content):  # W&B writes it at this moment
            break
        pieces += content[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):  # whole, or the last piece
            records.append(pieces)
            pieces = b""
    return records


def whole_records_of(path: Path) -> list[bytes]:
    """Wait for W&B's own process to finish the file, which may be after the end of the run; return the records."""
    from wandb.proto import wandb_internal_pb2

    deadline = time.monotonic() + 20
    while True:
        records = records_of(path.read_bytes())
        last = wandb_internal_pb2.Record()
        last.ParseFromString(records[-1] if records else b"")
        if last.WhichOneof("record_type") in ("exit", "final", "footer"):
            return records
        assert time.monotonic() < deadline, f"{path} ends with {last.WhichOneof('record_type')}"
        time.sleep(0.2)


class Offline:
    """The contents of an offline W&B run, read back from its file."""

    def __init__(self, path: Path) -> None:
        from wandb.proto import wandb_internal_pb2

        self.rows: list[dict[str, Any]] = []
        self.summary: dict[str, Any] = {}
        self.config: dict[str, Any] = {}
        for data in whole_records_of(path):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            kind = record.WhichOneof("record_type")
            if kind == "run":
                self.run = record.run
                self.config |= self._items(record.run.config.update)
            if kind == "history":
                self.rows.append(self._items(record.history.item))
            if kind == "summary":
                self.summary |= self._items(record.summary.update)

    @staticmethod
    def _items(items: Any) -> dict[str, Any]:
        return {(item.key or "/".join(item.nested_key)): json.loads(item.value_json) for item in items}
