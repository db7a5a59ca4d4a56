"""Two small published sample sets, made without Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

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
WEIGHTED = ExampleContract(
    (
        *CONTRACT.features,
        FeatureSpec("read_ms", "float32", role="label", nulls="fail"),
        FeatureSpec("read_ms__mask", "int64", role="mask", nulls="fail"),
        FeatureSpec("sample_weight", "float32", role="weight", nulls="fail"),
    )
)


@pytest.fixture(scope="session")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """400 train and 100 eval samples of 2019-06-05; a sample is clicked when its number is positive, with exceptions."""
    root = tmp_path_factory.mktemp("samples")
    published(root, CONTRACT, lambda split, first: rows(first, 50))
    return root


@pytest.fixture(scope="session")
def weighted_samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, but that two thirds of the negatives of train were left out; and with the reading time, which has a mask."""
    root = tmp_path_factory.mktemp("weighted")

    def kept(split: str, first: int) -> pa.RecordBatch:
        batch = rows(first, 50)
        clicked, ids = (batch.column(name).to_pylist() for name in ("clicked", "impression_id"))
        down_sampled = [split == "train" and not click for click in clicked]
        batch = batch.append_column("sample_weight", pa.array([3.0 if d else 1.0 for d in down_sampled], pa.float32()))
        batch = batch.append_column("read_ms", pa.array([100.0 * c for c in clicked], pa.float32()))
        batch = batch.append_column("read_ms__mask", pa.array(clicked, pa.int64()))
        return batch.filter(pa.array([not d or i % 3 == 0 for d, i in zip(down_sampled, ids, strict=True)]))

    published(root, WEIGHTED, kept, sampling={"rate": 1 / 3})
    return root


def published(root: Path, contract: ExampleContract, batch: Callable[[str, int], pa.RecordBatch], **more: Any) -> None:
    """Publish ten batches as 2019-06-05, the last two of them for eval."""
    storage = open_storage(root)
    writer = shard_writer(storage, "dt=2019-06-05/data/run", contract, shard_size=8192)
    for first in range(0, 500, 50):
        split = "train" if first < 400 else "eval"
        writer.write(batch(split, first), split)
    shards = writer.close().shards
    count = sum(shard.records for shard in shards)
    manifest = Manifest(
        name="tiny",
        run_date="2019-06-05",
        generation=1,
        run_id="run",
        parent=None,
        created_at="2019-06-06T00:00:00+00:00",
        fingerprint="",
        compression="none",
        contract={**contract.to_dict(), "fingerprint": contract.fingerprint},
        config={},
        inputs={},
        shards=shards,
        accounting={"impressions": count, "samples": count},
        views={},
        labels={"clicked": {}},
        label_mature=True,
        versions={},
        **more,
    )
    publish(storage, manifest)


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
