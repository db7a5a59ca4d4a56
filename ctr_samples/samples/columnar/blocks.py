"""Rows of a partition as blocks that move through Spark in a few rows, and counts that travel with them."""

from __future__ import annotations

import heapq
import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from operator import itemgetter
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ctr_samples.config.units import format_size
from ctr_samples.errors import InputError
from ctr_samples.samples.columnar.columns import MOST_BYTES, Integers, integers


@dataclass(slots=True)
class Counts:
    """Sums, extremes, and samples of rows by rank. Those of several tasks add up in any order."""

    sums: dict[str, int] = field(default_factory=dict)
    samples: dict[str, list[tuple[int, list[Any]]]] = field(default_factory=dict)
    """The rows with the greatest ranks, which are hashes, and then the greatest values: the same rows in every run."""
    most: dict[str, int] = field(default_factory=dict)
    """Maximum number of rows in each sample."""
    extremes: dict[str, tuple[float, float]] = field(default_factory=dict)
    """The least and the greatest of some numbers."""

    def add(self, name: str, number: int) -> None:
        """Add to a sum."""
        self.sums[name] = self.sums.get(name, 0) + int(number)

    def sample(self, name: str, rows: Iterable[tuple[int, Sequence[Any]]], most: int) -> None:
        """Add rows with their ranks to a sample, which keeps at most ``most``. Values are text, numbers or None."""
        self.most[name] = most
        every = [*self.samples.get(name, ()), *((int(rank), list(row)) for rank, row in rows)]
        self.samples[name] = heapq.nlargest(most, every, key=lambda one: (one[0], repr(one[1])))

    def extend(self, name: str, least: float, greatest: float) -> None:
        """Add to the range of some numbers."""
        low, high = self.extremes.get(name, (least, greatest))
        self.extremes[name] = (min(low, least), max(high, greatest))

    def include(self, other: Self) -> None:
        """Add the counts of another task."""
        for name, number in other.sums.items():
            self.add(name, number)
        for name, rows in other.samples.items():
            self.sample(name, rows, other.most[name])
        for name, (least, greatest) in other.extremes.items():
            self.extend(name, least, greatest)

    def to_json(self) -> str:
        """Return the counts as text."""
        return json.dumps([self.sums, self.samples, self.most, self.extremes], sort_keys=True)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Return the counts of :meth:`to_json`."""
        sums, samples, most, extremes = json.loads(text)
        of_rank = {name: [(rank, row) for rank, row in rows] for name, rows in samples.items()}
        return cls(sums, of_rank, most, {name: (least, greatest) for name, (least, greatest) in extremes.items()})


PLACE = "_place"
"""Column of a row: a hash of its key as bigint, which decides its partition."""

KEY = "_key"
"""Column of a block: a number that Spark's own hash sends to the partition of the block."""

BLOCK = f"{KEY} int, frame int, rows bigint, checksum bigint, block binary"
"""Type of blocks: number of the frame that the rows come from (:data:`COUNTS` for counts), and their bytes."""

HELD = "held."
"""Prefix of counts: the bytes of rows that tasks of a stage held."""

FINAL_ORDER = "order"
"""Name of the stage whose tasks write the samples."""

COUNTS = -1
_MOST_ROWS, _MOST_BYTES = 1 << 18, 32 << 20
"""Rows that a task collects before it cuts them into blocks."""
_MOST_OF_A_CUT = 1 << 30
"""Bytes that are cut together, half of what an Arrow column of bytes can hold."""
_MARKS = 64
"""Bytes that mark the parts of a stream of Arrow and its end, at most."""

Place: TypeAlias = str | Callable[[pa.RecordBatch], Integers]
"""A column with the places of rows, or what returns those of a batch."""


@dataclass(frozen=True, slots=True)
class SideTables:
    """Rows of other frames that lie in the same partition, on their way to the step with this ``number``."""

    number: int
    tables: list[pa.Table]


Item: TypeAlias = pa.RecordBatch | Counts | SideTables
"""What passes from step to step in a task: rows, counts of the tasks before, and rows for later steps."""


class DamagedBlock(RuntimeError):
    """A block that arrived incomplete, changed, or beside blocks of another partition."""


@dataclass(frozen=True, slots=True)
class Scatter:
    """Cuts the rows of a frame into blocks by their places, for ``partitions`` partitions."""

    frame: int
    partitions: int
    place: Place = PLACE

    def __call__(self, items: Iterable[Item]) -> Iterator[pa.RecordBatch]:
        """Yield the blocks of rows, as they come."""
        held: list[pa.RecordBatch] = []
        count = size = 0
        for item in items:
            assert not isinstance(item, SideTables), "rows of other frames do not move on"
            if isinstance(item, Counts):
                content = pa.py_buffer(item.to_json().encode())
                yield _blocks([(0, COUNTS, 0)], [0, content.size], content, self.partitions)
            elif item.num_rows:
                held.append(item)
                count, size = count + item.num_rows, size + item.nbytes
                if count >= _MOST_ROWS or size >= _MOST_BYTES:
                    yield from self._cut(held)
                    held, count, size = [], 0, 0
        if held:
            yield from self._cut(held)

    def _cut(self, batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        (rows,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
        if rows.nbytes > _MOST_OF_A_CUT and rows.num_rows > 1:
            half = rows.num_rows // 2
            yield from self._cut([rows.slice(0, half)])
            yield from self._cut([rows.slice(half)])
            return
        places = integers(rows.column(self.place)) if isinstance(self.place, str) else self.place(rows)
        partition = places % self.partitions
        if self.partitions <= 1 << 16:
            partition = partition.astype(np.uint16)  # NumPy sorts small numbers by their digits
        rows = rows.take(pa.array(np.argsort(partition, kind="stable")))
        counts = np.bincount(partition)
        there = np.flatnonzero(counts)
        ends = np.cumsum(counts[there]).tolist()
        pieces = [rows.slice(begin, end - begin) for begin, end in pairwise([0, *ends])]
        blocks = [(place, self.frame, piece.num_rows) for place, piece in zip(there.tolist(), pieces, strict=True)]
        yield _blocks(blocks, *_written(pieces), self.partitions)


def _blocks(
    blocks: Sequence[tuple[int, int, int]], ends: Sequence[int], content: pa.Buffer, partitions: int
) -> pa.RecordBatch:
    """Return blocks, given the partition, the frame and the number of rows of each, and the ends of their bytes."""
    keys = keys_of(partitions)
    places, frames, rows = zip(*blocks, strict=True)
    every = memoryview(content)
    checksums = [zlib.crc32(every[begin:end]) for begin, end in pairwise(ends)]
    columns = [
        pa.array([keys[place] for place in places], pa.int32()),
        pa.array(frames, pa.int32()),
        pa.array(rows, pa.int64()),
        pa.array(checksums, pa.int64()),
        pa.BinaryArray.from_buffers(pa.binary(), len(blocks), [None, pa.py_buffer(np.array(ends, np.int32)), content]),
    ]
    return pa.RecordBatch.from_arrays(columns, [KEY, "frame", "rows", "checksum", "block"])


def _written(pieces: Sequence[pa.RecordBatch]) -> tuple[list[int], pa.Buffer]:
    """Return the bytes of rows, and where each piece begins and ends. Written once: a buffer that grows is copied each time."""
    around = pieces[0].schema.serialize().size + _MARKS
    content = pa.allocate_buffer(sum(around + pa.ipc.get_record_batch_size(piece) for piece in pieces))
    ends, sink = [0], pa.FixedSizeBufferWriter(content)
    for piece in pieces:
        with pa.ipc.new_stream(sink, piece.schema) as stream:
            stream.write_batch(piece)
        ends.append(sink.tell())
    return ends, content.slice(0, ends[-1])


def bytes_of_rows(rows: pa.RecordBatch) -> pa.Buffer:
    """Return rows as a block, for :func:`rows_of`."""
    return _written([rows])[1]


Task = Callable[[list[pa.Table], Counts], Iterator[pa.RecordBatch]]
"""What a stage does with the rows of a partition: one table for each frame, and counts to add to. The list is the task's
own: a table that it takes out and copies is freed.
"""


@dataclass(frozen=True, slots=True)
class Gather:
    """Reads the blocks of a partition, and runs a task on their rows. ``kinds`` has the Arrow schema of each frame.

    The task gets the first frames; ``beside`` has the number of frames for each later step.

    Blocks arrive in any order, and are put in order first: a task that Spark repeats must return the same bytes, or
    Spark 4.2 repeats all that depends on it, and ends the job if it cannot. Memory: the rows of the partition, plus what
    the task needs. Raises DamagedBlock for a block that is incomplete, and InputError if the values of a column are larger
    together than Arrow can hold.
    """

    task: Task
    kinds: Sequence[pa.Schema]
    name: str | None = None
    """What the stage does, for :data:`HELD`, or None to leave that out."""
    beside: Sequence[int] = ()

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Item]:
        """Yield the rows for later steps, what the task yields, and then its counts."""
        rows: list[list[tuple[int, int, pa.RecordBatch]]] = [[] for _ in self.kinds]
        before: list[bytes] = []
        held = 0
        own: int | None = None
        for batch in batches:
            numbers = (batch.column(name).to_pylist() for name in (KEY, "frame", "rows", "checksum"))
            for key, frame, count, checksum, scalar in zip(*numbers, batch.column("block"), strict=True):
                content, own = scalar.as_buffer(), key if own is None else own
                if key != own:
                    raise DamagedBlock("Blocks of several partitions arrived in one; expected one.")
                if zlib.crc32(content) != checksum:
                    raise DamagedBlock(f"A block of {count:,} rows arrived damaged.")
                if frame == COUNTS:
                    before.append(content.to_pybytes())
                    continue
                held += content.size
                block = rows_of(content)
                if block.num_rows != count:
                    raise DamagedBlock(f"A block arrived with {block.num_rows:,} rows, expected {count:,}.")
                rows[frame].append((count, checksum, block))
        tables = [
            pa.Table.from_batches([block for *_, block in sorted(some, key=itemgetter(0, 1))])
            if some
            else kind.empty_table()
            for some, kind in zip(rows, self.kinds, strict=True)
        ]
        del rows
        first = len(tables) - sum(self.beside)
        if held > MOST_BYTES:
            for table in tables[:first]:
                _check_sizes(table, self.name)
        counts = Counts()
        for text in sorted(before):
            counts.include(Counts.from_json(text))
        if self.name is not None:
            counts.add(f"{HELD}{self.name}", held)
            counts.extend(f"{HELD}{self.name}", held, held)
        for number, size in enumerate(self.beside):
            yield SideTables(number, [tables.pop(first) for _ in range(size)])
        yield from self.task(tables, counts)
        yield counts


def _check_sizes(table: pa.Table, stage: str | None) -> None:
    """Raise InputError if a column has too much text to be one array, which tasks make of it."""
    sizes: Counter[str] = Counter()
    for name, column in zip(table.column_names, table.columns, strict=True):
        for chunk in column.chunks:
            sizes.update(dict(_sizes_of_text(chunk, name)))
    name, size = max(sizes.items(), key=itemgetter(1), default=("", 0))
    if size > MOST_BYTES:
        raise InputError(
            f"The values of the column {name} take {format_size(size)} in one partition of {table.num_rows:,} rows, expected "
            f"at most {format_size(MOST_BYTES)}. Raise `{setting_of(stage)}`, or leave the column out."
        )


def setting_of(stage: str | None) -> str:
    """Return the setting with the number of tasks of a stage."""
    return "output.partitions" if stage == FINAL_ORDER else "spark.sql.shuffle.partitions"


def _sizes_of_text(array: pa.Array, name: str) -> Iterator[tuple[str, int]]:
    """Yield the bytes of each column of text or bytes, also below structs, lists and maps."""
    kind = array.type
    if pa.types.is_struct(kind):
        for field, values in zip(kind, array.flatten(), strict=True):
            yield from _sizes_of_text(values, f"{name}.{field.name}")
    elif pa.types.is_map(kind):
        yield from _sizes_of_text(array.keys, f"{name}.key")
        yield from _sizes_of_text(array.items, f"{name}.value")
    elif pa.types.is_list(kind):
        yield from _sizes_of_text(array.flatten(), name)
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        yield name, array.nbytes


def rows_of(content: pa.Buffer) -> pa.RecordBatch:
    """Return the rows of a block. Raises DamagedBlock if they cannot be read."""
    try:
        return pa.ipc.open_stream(content).read_next_batch()
    except (pa.ArrowInvalid, StopIteration) as error:
        raise DamagedBlock(f"A block cannot be read: {error}") from error


@cache
def keys_of(partitions: int) -> Sequence[int]:
    """Return a number for each partition that Spark's hash partitioning sends there.

    Spark sends a row to the partition Murmur3(key) mod n, with the seed 42, and has done so in all releases. Each task
    checks that its blocks have one key.
    """
    keys = np.full(partitions, -1, np.int64)
    first, some = 0, 64 * partitions
    while (keys < 0).any():
        numbers = np.arange(first, first + some, dtype=np.uint32)
        places = murmur3(numbers) % partitions
        found, at = np.unique(places, return_index=True)
        new = keys[found] < 0
        keys[found[new]] = first + at[new]
        first += some
    return [int(key) for key in keys]


def murmur3(numbers: npt.NDArray[np.uint32]) -> Integers:
    """Return Spark's hash of 32-bit integers: MurmurHash3_x86_32 of their bytes (Austin Appleby), as int32."""
    return _finished(_mixed_in(np.uint32(42), numbers), 4)


def murmur3_of_longs(numbers: Integers) -> Integers:
    """Return Spark's hash of 64-bit integers: MurmurHash3_x86_32 of their bytes, lower half first, as int32."""
    halves = numbers.view(np.uint64)
    low, high = (halves & np.uint64(2**32 - 1)).astype(np.uint32), (halves >> np.uint64(32)).astype(np.uint32)
    return _finished(_mixed_in(_mixed_in(np.uint32(42), low), high), 8)


def _mixed_in(hashed: npt.NDArray[np.uint32] | np.uint32, numbers: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    with np.errstate(over="ignore"):
        mixed = _rotated(numbers * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
        return _rotated(hashed ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _finished(hashed: npt.NDArray[np.uint32], size: int) -> Integers:
    with np.errstate(over="ignore"):
        hashed = hashed ^ np.uint32(size)
        hashed = (hashed ^ (hashed >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        hashed = (hashed ^ (hashed >> np.uint32(13))) * np.uint32(0xC2B2AE35)
        return (hashed ^ (hashed >> np.uint32(16))).view(np.int32).astype(np.int64)


def _rotated(numbers: npt.NDArray[np.uint32], bits: int) -> npt.NDArray[np.uint32]:
    return (numbers << np.uint32(bits)) | (numbers >> np.uint32(32 - bits))
