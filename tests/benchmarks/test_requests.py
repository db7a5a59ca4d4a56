"""Samples ordered by request against the same samples ordered by impression: their size, and the time to write and read them.

Floats are normal, of full precision or of that of float16. Item ids are 20 bits of chance, users have a history of 20 ids.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ctr_samples.codec import ExampleEncoder, RecordWriter
from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.readers import iter_batches
from ctr_samples.records.write import shard_writer
from ctr_samples.shards import RequestOrder, open_storage, publish
from tests.support.figures import Figures, at_least, at_most, in_turns, size
from tests.support.manifests import DAY, RUN, manifest

ROWS = size("REQUEST_ROWS", 100_000, quick=10_000)
ROUNDS = size("ROUNDS", 5, quick=2)
SETS = {
    "lists of 3, user 121, item 30": (3, 121, 30, np.float32, 0.5),
    "lists of 10, user 121, item 30": (10, 121, 30, np.float32, 0.3),
    "lists of 10, user 30, item 121": (10, 30, 121, np.float32, None),
    "lists of 25, user 64, item 32": (25, 64, 32, np.float32, 0.35),
    "lists of 10, user 121, item 30, half": (10, 121, 30, np.float16, None),
    "lists of 25, user 64, item 32, half": (25, 64, 32, np.float16, None),
}
"""Impressions of a request, floats of its user and of each item, their precision, and the goal for the size in gzip."""


def samples(k: int, user: int, item: int, precision: Any) -> tuple[ExampleContract, pa.RecordBatch]:
    """ROWS samples in the order by request."""
    chance = np.random.default_rng(36)
    requests = np.repeat(np.arange(ROWS // k + 1), k)[:ROWS]
    users = chance.standard_normal((ROWS // k + 1, user)).astype(precision).astype(np.float32)
    histories = chance.integers(0, 2**20, (ROWS // k + 1, 20))
    columns = {
        "user_vector": _vectors(users[requests]),
        "item_vector": _vectors(chance.standard_normal((ROWS, item)).astype(precision).astype(np.float32)),
        "user_id": pa.array(chance.integers(0, 2**40, ROWS // k + 1)[requests]),
        "history": _vectors(histories[requests]),
        "item_id": pa.array(chance.integers(0, 2**20, ROWS)),
        "clicked": pa.array((chance.random(ROWS) < 0.05).astype(np.int64)),
        "impression_id": pa.array(chance.integers(-(2**63), 2**63 - 1, ROWS)),
    }
    specs = (
        FeatureSpec("user_vector", "float32", (user,)),
        FeatureSpec("item_vector", "float32", (item,)),
        FeatureSpec("user_id", "int64"),
        FeatureSpec("history", "int64", (20,)),
        FeatureSpec("item_id", "int64"),
        FeatureSpec("clicked", "int64", role="label", nulls="fail"),
        FeatureSpec("impression_id", "int64", role="key", nulls="fail"),
    )
    return ExampleContract(specs), pa.record_batch(columns)


def _vectors(values: np.ndarray[Any, Any]) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])


def in_both_orders(k: int, user: int, item: int, precision: Any) -> tuple[ExampleContract, dict[str, pa.RecordBatch]]:
    contract, rows = samples(k, user, item, precision)
    mixed = rows.take(pa.array(np.random.default_rng(1).permutation(ROWS)))
    return contract, {"impression": mixed, "request": rows}


def written(root: Path, contract: ExampleContract, rows: pa.RecordBatch, compression: Any) -> tuple[Any, ...]:
    """Write the rows as a task does. Files of earlier calls stay unpublished."""
    with shard_writer(open_storage(root), f"dt={DAY}/data/{RUN}", contract, compression=compression) as writer:
        writer.write(rows, "train")
    return writer.close().shards


@pytest.mark.parametrize("name", SETS)
def test_writing_and_reading_by_request(figures: Figures, tmp_path: Path, name: str) -> None:
    k, user, item, precision, goal = SETS[name]
    contract, orders = in_both_orders(k, user, item, precision)
    shards: dict[tuple[str, str], Any] = {}

    def write(order: str, compression: str) -> None:
        root = tmp_path / f"{order}-{compression}"
        shards[order, compression] = written(root, contract, orders[order], compression)

    ways = {f"{order} {c}": (lambda order=order, c=c: write(order, c)) for order in orders for c in ("none", "gzip")}
    seconds = in_turns(ways, ROUNDS)
    sizes = {made: sum(shard.bytes for shard in some) for made, some in shards.items()}
    share = {order: sizes[order, "gzip"] / sizes[order, "none"] for order in orders}
    assert sizes["request", "none"] == sizes["impression", "none"]
    figures.add(f"{name}: gzip share by impression", [share["impression"]], "of plain")
    figures.add(f"{name}: gzip share by request", [share["request"]], "of plain")
    ratio = share["request"] / share["impression"]
    figures.add(f"{name}: size by request", [ratio], "x by impression", goal and at_most(goal))
    for compression in ("none", "gzip"):
        faster = seconds[f"impression {compression}"] / seconds[f"request {compression}"]
        least = at_least(1.5) if (k, compression, goal) == (10, "gzip", 0.3) else at_least(1.0)
        figures.add(f"{name}: writing {compression} by request", faster, "x as fast", least)

    for order in orders:
        by = RequestOrder(("request",), ROWS // k, float(k), k) if order == "request" else None
        for compression in ("none", "gzip"):
            root = tmp_path / f"{order}-{compression}"
            publish(
                open_storage(root),
                manifest(contract, compression=compression, shards=shards[order, compression], order=by),
            )

    def read(order: str, compression: str, *, shuffle: bool) -> int:
        options: Any = {"date": DAY, "split": "train", "batch_size": 1024, "shuffle": shuffle}
        batches = iter_batches(tmp_path / f"{order}-{compression}", **options)
        return sum(len(batch.labels["clicked"]) for batch in batches)

    assert read("request", "gzip", shuffle=True) == ROWS
    for compression in ("none", "gzip"):
        for shuffle in (False, True):
            ways = {o: (lambda o=o: read(o, compression, shuffle=shuffle)) for o in orders}  # noqa: B023
            seconds = in_turns(ways, ROUNDS)
            least = at_least(1.5) if (k, compression, goal) == (10, "gzip", 0.3) else None
            what = f"{name}: reading {compression}{', shuffled' * shuffle}, by request"
            figures.add(what, seconds["impression"] / seconds["request"], "x as fast", least)


@pytest.mark.parametrize("name", ["lists of 10, user 121, item 30", "lists of 25, user 64, item 32"])
def test_levels_of_deflate(figures: Figures, name: str) -> None:
    contract, orders = in_both_orders(*SETS[name][:4])
    for order, rows in orders.items():
        frames = ExampleEncoder(contract).encode(rows.slice(0, 40_000))
        plain = frames.buffer.nbytes
        sizes: dict[int, int] = {}

        def compressed(level: int, frames: Any = frames, sizes: dict[int, int] = sizes) -> None:
            file = io.BytesIO()
            writer = RecordWriter(file, "gzip", level=level)
            writer.write(frames)
            writer.close()
            sizes[level] = writer.size

        seconds = in_turns(
            {str(level): (lambda level=level: compressed(level)) for level in (0, 1, 2, 3, 4, 6)}, ROUNDS
        )
        for level, of in sizes.items():
            library = "ISA-L" if level <= 3 else "zlib"
            figures.add(f"{name}, by {order}: {library} level {level}, size", [of / plain], "of plain")
            figures.add(
                f"{name}, by {order}: {library} level {level}, speed", plain / seconds[str(level)] / 1e6, "MB/s"
            )
