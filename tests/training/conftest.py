"""A small published sample set, made without Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.shards import Manifest, open_storage, publish
from ctr_samples.writing import shard_writer

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


@pytest.fixture(scope="session")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """400 train and 100 eval samples of 2019-06-05; a sample is clicked when its number is positive, with exceptions."""
    root = tmp_path_factory.mktemp("samples")
    storage = open_storage(root)
    writer = shard_writer(storage, "dt=2019-06-05/data/run", CONTRACT, shard_size=8192)
    for split, start, count in (("train", 0, 400), ("eval", 400, 100)):
        for first in range(start, start + count, 50):
            writer.write(rows(first, 50), split)
    manifest = Manifest(
        name="tiny",
        run_date="2019-06-05",
        generation=1,
        run_id="run",
        parent=None,
        created_at="2019-06-06T00:00:00+00:00",
        fingerprint="",
        compression="none",
        contract={**CONTRACT.to_dict(), "fingerprint": CONTRACT.fingerprint},
        config={},
        inputs={},
        shards=writer.close().shards,
        accounting={"impressions": 500, "samples": 500},
        views={},
        labels={"clicked": {}},
        label_mature=True,
        versions={},
    )
    publish(storage, manifest)
    return root


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
