"""Copy published records, except the records to remove. Frames are copied byte for byte."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ctr_samples.codec import EncodedBatch, ExampleDecoder, RecordWriter
from ctr_samples.contract import ExampleContract
from ctr_samples.records.read import records_of
from ctr_samples.shards import Receipt, Shard, ShardWriter, Storage
from ctr_samples.shards.naming import compression_of

_FRAME = "_frame"

Keep = Callable[[pa.RecordBatch], pa.BooleanArray]
"""Function that returns a mask, without nulls, of the rows of a batch to keep."""


def write_without(
    storage: Storage,
    directory: str,
    shards: Sequence[Shard],
    contract: ExampleContract,
    keep: Keep,
    on_rows: Callable[[pa.RecordBatch, str], None] = lambda rows, split: None,
) -> Receipt:
    """Write the records of one partition's shards that ``keep`` selects, in order, below ``directory``.

    Calls ``on_rows`` with the kept rows and their split. Runs in any process. Raises DamagedFile for a shard that is
    missing or was changed, and ContractError for a record that does not fit. After an error, open files never appear.
    """
    compression = compression_of(shards[0].path)
    with ShardWriter(
        storage,
        directory,
        encode=_frames,
        open_frames=lambda file: RecordWriter(file, compression),
        labels=contract.names("label"),
        partition=shards[0].partition,
        compression=compression,
        shard_size=max(1, *(shard.bytes for shard in shards)),
    ) as writer:
        for shard in shards:
            for rows in _rows_of(storage, shard, contract):
                staying = rows.filter(keep(rows))
                writer.write(staying, shard.split)
                if staying.num_rows:
                    on_rows(staying, shard.split)
        return writer.close()


def values_among(storage: Storage, shard: Shard, contract: ExampleContract, column: str, values: pa.Array) -> set[Any]:
    """Return the given values that occur in a column of a shard's records."""
    decoder = ExampleDecoder(ExampleContract((contract[column],), contract.record))
    found: set[Any] = set()
    for chunk in records_of(storage, shard):
        rows = decoder.decode_frames(chunk.buffer, chunk.offsets).column(column)
        found.update(rows.filter(pc.is_in(rows, values)).unique().to_pylist())
    return found


def _rows_of(storage: Storage, shard: Shard, contract: ExampleContract) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a shard, with the frame of each row as a column."""
    decoder = ExampleDecoder(contract)
    for chunk in records_of(storage, shard):
        rows = decoder.decode_frames(chunk.buffer, chunk.offsets)
        buffers = [None, pa.py_buffer(np.ascontiguousarray(chunk.offsets)), pa.py_buffer(chunk.buffer)]
        frames = pa.Array.from_buffers(pa.large_binary(), len(chunk), buffers)
        yield rows.append_column(_FRAME, frames)


def _frames(rows: pa.RecordBatch) -> Any:
    """Extract the frames of rows, in the writer's format."""
    frames = rows.column(_FRAME)
    _, offsets, data = frames.buffers()
    limits = np.frombuffer(offsets, np.int64)[frames.offset : frames.offset + len(frames) + 1]
    return EncodedBatch(np.frombuffer(data, np.uint8)[limits[0] : limits[-1]], limits - limits[0])
