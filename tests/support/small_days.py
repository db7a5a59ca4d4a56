"""Small published sample sets, made without Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.periods import parse_period
from ctr_samples.records.write import shard_writer
from ctr_samples.shards import open_storage, publish
from ctr_samples.shards.naming import run_directory
from tests.support.manifests import RUN, manifest

CONTRACT = ExampleContract(
    (
        FeatureSpec("number", "float32", nulls="fail"),
        FeatureSpec("vector", "float32", (2,), nulls="fail"),
        FeatureSpec("city", "int64", nulls="fail", buckets=4),
        FeatureSpec("name", "bytes", nulls="fail"),
        FeatureSpec("clicked", "int64", role="label", nulls="fail"),
        FeatureSpec("impression_id", "int64", role="key", nulls="fail"),
    )
)
WEIGHTED = ExampleContract(
    (
        *CONTRACT.features,
        FeatureSpec("read_ms", "float32", role="label", nulls="fail"),
        FeatureSpec("read_ms__mask", "int64", role="mask", nulls="fail"),
        FeatureSpec("sample_weight", "float32", role="weight", nulls="fail"),
    )
)


def published(
    root: Path | str,
    contract: ExampleContract = CONTRACT,
    batch: Callable[[str, int], pa.RecordBatch] = lambda split, first: rows(first, 50),
    *,
    day: str = "2019-06-05",
    compression: Any = "none",
    run: str = RUN,
    **more: Any,
) -> None:
    """Publish ten batches as a day, the last two of them for eval."""
    storage = open_storage(root)
    writer = shard_writer(
        storage, run_directory(parse_period(day), run), contract, shard_size=8192, compression=compression
    )
    for first in range(0, 500, 50):
        split = "train" if first < 400 else "eval"
        writer.write(batch(split, first), split)
    publish(
        storage,
        manifest(
            contract,
            run_date=day,
            run_id=run,
            compression=compression,
            shards=writer.close().shards,
            labels={"clicked": {}},
            **more,
        ),
    )


def rows(first: int, count: int) -> pa.RecordBatch:
    ids = range(first, first + count)
    numbers = [((i * 37) % 101 - 50) / 50 for i in ids]
    return pa.RecordBatch.from_pydict(
        {
            "number": pa.array(numbers, pa.float32()),
            "vector": pa.array([[float(i), -float(i)] for i in ids], pa.list_(pa.float32())),
            "city": pa.array([i % 4 for i in ids], pa.int64()),
            "name": pa.array([f"n{i}" for i in ids]),
            "clicked": pa.array([int((x > 0) != (i % 10 == 0)) for i, x in zip(ids, numbers, strict=True)], pa.int64()),
            "impression_id": pa.array(list(ids), pa.int64()),
        }
    )
