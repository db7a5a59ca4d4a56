"""Bring served lines and samples together by the id of the impression, in parts that fit into memory. No Spark."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ctr_samples.served.log import ID

MEMORY = 256 << 20
"""Bytes of both sides that are joined at a time. Comparing them takes about four times as much."""

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Matched:
    """A part of both sides. Row i of ``samples`` and row i of ``served`` are of the same impression; the other ids are on
    one side only.
    """

    samples: pa.Table | None
    served: pa.Table | None
    not_served: Ids
    no_sample: Ids
    repeated: int
    """Further served lines of an impression. The first one counts."""


@dataclass(slots=True)
class Side:
    """Rows of one side, cut by the ids of their impressions. Beyond a share of the memory, they are kept in files."""

    directory: Path
    parts: int
    rows: int = 0
    without_id: int = 0
    _kept: list[list[pa.RecordBatch]] = field(default_factory=list)
    _writers: dict[int, list[tuple[pa.Schema, Path, pa.RecordBatchFileWriter]]] = field(default_factory=dict)
    _bytes: int = 0

    def __post_init__(self) -> None:
        self._kept = [[] for _ in range(self.parts)]

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows. Those without an id are counted alone."""
        ids = batch.column(ID)
        self.without_id += ids.null_count
        batch = batch.filter(pc.is_valid(ids)) if ids.null_count else batch
        self.rows += batch.num_rows
        self._bytes += batch.nbytes
        parts = part_of(batch.column(ID).to_numpy(), self.parts)
        order = np.argsort(parts, kind="stable")
        ends = np.searchsorted(parts[order], np.arange(self.parts + 1))
        sorted_rows = batch.take(pa.array(order)) if self.parts > 1 else batch
        for part in range(self.parts):
            if ends[part + 1] > ends[part]:
                self._kept[part].append(sorted_rows.slice(ends[part], ends[part + 1] - ends[part]))
        if self._bytes > MEMORY // 2:
            self._write()

    def _write(self) -> None:
        for part, batches in enumerate(self._kept):
            for batch in batches:
                self._writer(part, batch.schema).write_batch(batch)
        self._kept, self._bytes = [[] for _ in range(self.parts)], 0

    def _writer(self, part: int, schema: pa.Schema) -> pa.RecordBatchFileWriter:
        """Return the file for rows of a part and a schema, which may differ between files of JSON."""
        files = self._writers.setdefault(part, [])
        for known, _, writer in files:
            if known == schema:
                return writer
        path = self.directory / f"{part}-{len(files)}.arrow"
        files.append((schema, path, pa.ipc.new_file(str(path), schema)))
        return files[-1][2]

    def close(self) -> None:
        """Complete the files, once all rows were added."""
        if self._writers:
            self._write()
        for files in self._writers.values():
            for _, _, writer in files:
                writer.close()

    def part(self, number: int) -> pa.Table | None:
        """Return the rows of a part, or None if it has none."""
        tables = [pa.Table.from_batches([batch]) for batch in self._kept[number]]
        for _, path, _ in self._writers.get(number, ()):
            with pa.memory_map(str(path)) as file:
                tables.append(pa.ipc.open_file(file).read_all())
        return pa.concat_tables(tables, promote_options="permissive") if tables else None


def part_of(ids: Ids, parts: int) -> npt.NDArray[np.int64]:
    """Return the part of each id: by its upper bits, since ids are hashes."""
    return ((ids.view(np.uint64) >> np.uint64(32)) % np.uint64(parts)).astype(np.int64)


@dataclass(slots=True)
class Sides:
    """Both sides of a comparison. Use it as a context manager, which removes its files."""

    samples: Side
    served: Side
    _stack: ExitStack

    @classmethod
    def of(cls, expected_bytes: int) -> Self:
        """Prepare for about as many bytes of both sides together."""
        stack = ExitStack()
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="compare-served-")))
        parts = max(1, -(-expected_bytes // MEMORY))
        for name in ("samples", "served"):
            (root / name).mkdir()
        return cls(Side(root / "samples", parts), Side(root / "served", parts), stack)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def matched(self) -> Iterator[Matched]:
        """Yield the parts, each joined."""
        self.samples.close()
        self.served.close()
        for number in range(self.samples.parts):
            yield _matched(self.samples.part(number), self.served.part(number))


def _matched(samples: pa.Table | None, served: pa.Table | None) -> Matched:
    mine, theirs = (_ids(side) for side in (samples, served))
    unique, first = np.unique(theirs, return_index=True)
    places = np.searchsorted(unique, mine)
    there = np.zeros(len(mine), np.bool_)
    there[:] = unique[np.minimum(places, len(unique) - 1)] == mine if len(unique) else False
    rows = np.flatnonzero(there)
    return Matched(
        None if samples is None else samples.take(pa.array(rows)),
        None if served is None else served.take(pa.array(first[places[rows]])),
        mine[~there],
        unique[~np.isin(unique, mine, assume_unique=False)],
        len(theirs) - len(unique),
    )


def _ids(side: pa.Table | None) -> Ids:
    return np.zeros(0, np.int64) if side is None else np.asarray(side.column(ID).to_numpy(), np.int64)


def smallest(ids: Ids, count: int) -> npt.NDArray[np.int64]:
    """Return the places of the ``count`` ids with the smallest hashes: the same ones of whatever they are chosen from."""
    with np.errstate(over="ignore"):
        hashes = (ids.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) ^ np.uint64(0x5851F42D4C957F2D)
        hashes *= np.uint64(0xD6E8FEB86659FD93)
    if len(ids) <= count:
        return np.arange(len(ids))
    return np.sort(np.argpartition(hashes, count)[:count])
