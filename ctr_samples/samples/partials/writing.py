"""From the steps of a day's log to the files of its partial."""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import DataFrame

from ctr_samples.crc32c import crc32c
from ctr_samples.samples.views.aggregates import STEP, VALUE, WHICH
from ctr_samples.samples.views.as_of import KEY
from ctr_samples.shards import Storage
from ctr_samples.shards.partials import PartialFile
from ctr_samples.typed import typed

_FILE = "file string"


def write_steps(
    steps: DataFrame, storage: Storage, directory: str, per_day: int, files: int
) -> tuple[PartialFile, ...]:
    """Write steps, and where a day has several their totals, below a directory that no other run uses. Runs a Spark job."""
    rows = steps.repartition(files, KEY).mapInArrow(_Writer(storage, directory, per_day), _FILE).collect()
    return tuple(sorted((typed(PartialFile, json.loads(row[0])) for row in rows), key=lambda file: file.path))


@dataclass(frozen=True, slots=True)
class _Writer:
    """Writes one partition. Runs on an executor, once for each attempt; the files of attempts that fail are named nowhere."""

    storage: Storage
    directory: str
    per_day: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts = list(batches)
        if not any(part.num_rows for part in parts):
            return
        steps = pa.Table.from_batches(parts).sort_by([(KEY, "ascending"), (WHICH, "ascending"), (STEP, "ascending")])
        files = [self._written("steps", steps)]
        if self.per_day > 1:
            files.append(self._written("totals", totals_of(steps, self.per_day)))
        yield pa.RecordBatch.from_pydict({"file": [json.dumps(asdict(file)) for file in files]})

    def _written(self, kind: str, table: pa.Table) -> PartialFile:
        context = TaskContext.get()
        assert context is not None
        buffer = io.BytesIO()
        pq.write_table(table, buffer, compression="zstd")
        data = buffer.getvalue()
        path = f"{self.directory}/{kind}-{context.partitionId():05}-{uuid.uuid4().hex[:8]}.parquet"
        with self.storage.new_file(path) as file:
            file.write(data)
        days = np.floor_divide(table.column(STEP).to_numpy(), self.per_day)
        facts = {"path": path, "kind": kind, "rows": table.num_rows, "bytes": len(data), "crc32c": int(crc32c(data))}
        return typed(PartialFile, {**facts, "first_day": int(days.min()), "last_day": int(days.max())})


def totals_of(steps: pa.Table, per_day: int) -> pa.Table:
    """What each key did on each day, at the last of its steps; and of each value of a distinct count its first and last step.

    Whatever a window sees of a day that lies in it, or outside of it, as a whole, it sees of these rows too.
    """
    day = np.floor_divide(steps.column(STEP).to_numpy(), per_day)
    summed = [name for name in steps.column_names if name not in (KEY, WHICH, VALUE, STEP)]
    grouped = (
        steps.append_column("_day", pa.array(day))
        .group_by([KEY, WHICH, VALUE, "_day"])
        .aggregate([(STEP, "max"), (STEP, "min"), *[(name, "sum") for name in summed]])
    )
    first, last = grouped.column(f"{STEP}_min"), grouped.column(f"{STEP}_max")
    kept = {KEY: grouped.column(KEY), WHICH: grouped.column(WHICH), VALUE: grouped.column(VALUE), STEP: last}
    kept |= {name: grouped.column(f"{name}_sum") for name in summed}
    at_last = pa.table(kept).select(steps.column_names).cast(steps.schema)
    again = pc.and_(pc.greater(grouped.column(WHICH), 0), pc.less(first, last))
    at_first = pa.table({**kept, STEP: first}).select(steps.column_names).cast(steps.schema).filter(again)
    return pa.concat_tables([at_last, at_first])
