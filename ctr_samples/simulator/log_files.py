"""The files of a simulation: output directory, and writers with bounded buffers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ctr_samples.errors import UsageError

MARKER = "_simulation.json"  # Spark ignores names that begin with an underscore
PARTS = ("user_action", "user_profile", "article_vector", "article_profile", "channels", "truth")
LINES_PER_FILE = 1_000_000
BUFFERED_BYTES = 32 << 20


def claim_directory(out: Path, description: dict[str, Any], *, force: bool) -> None:
    """Prepare ``out`` for a new simulation. Removes an earlier simulation, and rejects foreign files unless forced.

    With ``force``, it still removes only the names in ``PARTS``. Raises UsageError before any change.
    """
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is a file; expected a directory or a name that is still free.")
    if out.is_dir() and any(out.iterdir()) and not force and not _is_simulation(out / MARKER):
        raise UsageError(
            f"{out} is not empty and does not hold a simulation; choose another directory, "
            f"or replace its {', '.join(PARTS)} with --force."
        )
    out.mkdir(parents=True, exist_ok=True)
    for name in PARTS:
        _remove(out / name)
    write_marker(out, description)


def write_marker(out: Path, description: dict[str, Any]) -> None:
    """Write a marker file that describes the contents of ``out``."""
    text = json.dumps({"made_by": "ctr_samples.simulator", **description}, indent=2)
    (out / MARKER).write_text(text + "\n", encoding="utf-8")


def _is_simulation(marker: Path) -> bool:
    try:
        content = json.loads(marker.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and content.get("made_by") == "ctr_samples.simulator"


def _remove(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)


class PartitionedTable:
    """Writes ``<root>/dt=<day>/part-00000.parquet``. Days must be in order. Buffers up to 32 MB of rows."""

    def __init__(self, root: Path, schema: pa.Schema) -> None:
        self._root, self._schema = root, schema
        self._day: str | None = None
        self._writer: pq.ParquetWriter | None = None
        self._buffer: list[pa.Table] = []
        self._buffered = 0

    def write(self, day: str, table: pa.Table) -> None:
        """Add rows to a day. Completes the file of an earlier day."""
        if day != self._day:
            self.close()
            self._day = day
            self._writer = parquet_writer(self._root / f"dt={day}" / "part-00000.parquet", self._schema)
        self._buffer.append(table)
        self._buffered += table.nbytes
        if self._buffered >= BUFFERED_BYTES:
            self._flush()

    def close(self) -> None:
        """Complete the open file."""
        if self._writer is not None:
            self._flush()
            self._writer.close()
            self._writer = None

    def _flush(self) -> None:
        if self._writer is not None and self._buffer:
            self._writer.write_table(pa.concat_tables(self._buffer))
        self._buffer, self._buffered = [], 0


def parquet_writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """Open a Parquet writer. Its output depends only on the rows and the pyarrow version."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return pq.ParquetWriter(path, schema, compression="zstd", store_schema=False)


class PartitionedLines:
    """Writes text files ``<root>/dt=<day>/part-00000.json``, ... Starts a new file after a million lines."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._day: str | None = None
        self._file: BinaryIO | None = None
        self._part = 0
        self._lines = 0

    def write(self, day: str, lines: pa.StringArray) -> None:
        """Append lines that end with a newline. Writes their Arrow buffer to the file as it is."""
        if day != self._day:
            self.close()
            self._day, self._part = day, 0
        elif self._lines >= LINES_PER_FILE:
            self.close()
            self._part += 1
        if self._file is None:
            path = self._root / f"dt={day}" / f"part-{self._part:05d}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file, self._lines = path.open("wb"), 0
        # Lines are the output of a kernel, so their offset is 0. The end of the data buffer may be padded.
        if len(lines):
            end = int(np.frombuffer(lines.buffers()[1], np.int32)[len(lines)])
            self._file.write(memoryview(lines.buffers()[2])[:end])
        self._lines += len(lines)

    def close(self) -> None:
        """Complete the open file."""
        if self._file is not None:
            self._file.close()
            self._file = None
