"""One nightly run without Spark, on tiny samples.

What a run writes is a function of its run id, so that a verifier can tell a whole generation from a mixture of two.
"""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pyarrow as pa

from ctr_samples.codec import ExampleEncoder
from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.descriptions import contract_json
from ctr_samples.records.write import shard_writer
from ctr_samples.shards import DayOutput, Manifest, Receipt, Storage
from ctr_samples.shards.clean import Retention

CONTRACT = ExampleContract(
    (
        FeatureSpec("user_id", "int64"),
        FeatureSpec("vector", "float32", (16,)),
        FeatureSpec("clicked", "int64", role="label"),
    )
)
KEEP_ALL = Retention(10**6, timedelta(days=365))
PARTITIONS = 4
BATCHES = {"eval": 1, "train": 4}
"""Batches of a partition by split; with :data:`SHARD_SIZE`, the eval split has one shard and train has two."""
ROWS = 100
SHARD_SIZE = 24 << 10


def batches(run: str, partition: int, split: str) -> list[pa.RecordBatch]:
    """The rows of one partition and split of a run, in order; the same on every call."""
    seed = [int(run[-8:], 16), partition, len(split)]
    random = np.random.default_rng(seed)
    return [_batch(random) for _ in range(BATCHES[split])]


def content(run: str, partition: int, split: str) -> bytes:
    """What the shards of that partition and split hold, one after the other."""
    encoder = ExampleEncoder(CONTRACT)
    return b"".join(encoder.encode(batch).buffer.tobytes() for batch in batches(run, partition, split))


def run(storage: Storage, day: date, retention: Retention) -> Manifest:
    """Write and publish one generation, by the objects that the product's run uses; raises what it raises."""
    output = DayOutput.open(storage, day, "harness", retention)
    this_run = output.begin(datetime.now(UTC), secrets.token_hex(4))
    with ThreadPoolExecutor(PARTITIONS) as tasks:
        receipts = list(tasks.map(lambda p: _write(storage, this_run.directory, this_run.run_id, p), range(PARTITIONS)))
    shards = this_run.shards(receipts, PARTITIONS)
    this_run.write({"contract.json": contract_json(CONTRACT)})
    samples = PARTITIONS * sum(BATCHES.values()) * ROWS
    manifest = this_run.manifest(
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        fingerprint="",
        compression="none",
        contract={**CONTRACT.to_dict(), "fingerprint": CONTRACT.fingerprint},
        config={},
        inputs={},
        shards=shards,
        accounting={"impressions": samples, "samples": samples},
        views={},
        labels={},
        label_mature=True,
        versions={},
    )
    this_run.publish(manifest)
    return manifest


def _write(storage: Storage, directory: str, this_run: str, partition: int) -> Receipt:
    """One task."""
    writer = shard_writer(storage, directory, CONTRACT, shard_size=SHARD_SIZE, partition=partition)
    with writer:
        for split in BATCHES:
            for batch in batches(this_run, partition, split):
                writer.write(batch, split)
    return writer.close()


def _batch(random: np.random.Generator) -> pa.RecordBatch:
    vectors = pa.array(random.random(ROWS * 16, dtype=np.float32))
    return pa.RecordBatch.from_pydict(
        {
            "user_id": random.integers(0, 1 << 40, ROWS),
            "vector": pa.FixedSizeListArray.from_arrays(vectors, 16),
            "clicked": random.integers(0, 2, ROWS),
        }
    )
