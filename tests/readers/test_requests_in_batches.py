"""How well the readers mix requests: a batch of samples ordered by request comes from many requests."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.periods import parse_period
from ctr_samples.readers import iter_batches, load_dataset
from ctr_samples.readers.order import LANES
from ctr_samples.readers.stream import Reading
from ctr_samples.records.write import shard_writer
from ctr_samples.shards import RequestOrder, Shard, open_storage, publish
from ctr_samples.shards.naming import run_directory
from tests.support.manifests import RUN, manifest

CONTRACT = ExampleContract(
    (
        FeatureSpec("request", "int64", nulls="fail"),
        FeatureSpec("clicked", "int64", role="label", nulls="fail"),
        FeatureSpec("impression_id", "int64", role="key", nulls="fail"),
    )
)
SAMPLES, BATCH = 60_000, 1024


def published(root: Path, sizes: list[int], *, by_request: bool) -> Path:
    """Publish requests of these sizes, again and again, in one order or the other."""
    chance = np.random.default_rng(36)
    requests = np.repeat(np.arange(SAMPLES), np.resize(sizes, SAMPLES))[:SAMPLES]
    if not by_request:
        requests = chance.permutation(requests)
    storage = open_storage(root)
    with shard_writer(storage, run_directory(parse_period("2019-06-05"), RUN), CONTRACT, shard_size=400_000) as writer:
        for first in range(0, SAMPLES, 4000):
            some = requests[first : first + 4000]
            ids = pa.array(range(first, first + len(some)))
            clicked = pa.array(np.zeros(len(some), np.int64))
            writer.write(pa.record_batch({"request": some, "clicked": clicked, "impression_id": ids}), "train")
    there = np.bincount(requests)
    order = RequestOrder(("request",), len(there), float(np.square(there).sum() / SAMPLES), 1) if by_request else None
    publish(storage, manifest(CONTRACT, shards=writer.close().shards, labels={"clicked": {}}, order=order))
    return root


def requests_of_batches(root: Path, *, shuffle: bool, reader: str) -> tuple[float, float]:
    """Return the mean number of requests of a batch, and of its samples of the most frequent request."""
    options: dict[str, Any] = {"date": "2019-06-05", "split": "train", "batch_size": BATCH, "shuffle": shuffle}
    if reader == "iter_batches":
        batches = [batch.features["request"] for batch in iter_batches(root, **options, drop_remainder=True)]
    else:
        batches = [f["request"].numpy() for f, _ in load_dataset(root, **options, drop_remainder=True)]
    counts = [Counter(batch.tolist()) for batch in batches]
    return float(np.mean([len(c) for c in counts])), float(np.mean([max(c.values()) for c in counts]))


@pytest.mark.some(3)
@pytest.mark.parametrize("reader", ["iter_batches", "load_dataset"])
@pytest.mark.parametrize("sizes", [[3], [10], [25], [1, 5, 70]], ids=["3", "10", "25", "1 to 70"])
def test_a_shuffled_batch_has_at_least_half_as_many_requests_as_in_the_order_by_impression(
    tmp_path: Path, sizes: list[int], reader: str
) -> None:
    by_impression = published(tmp_path / "by_impression", sizes, by_request=False)
    by_request = published(tmp_path / "by_request", sizes, by_request=True)
    there, _ = requests_of_batches(by_impression, shuffle=True, reader=reader)
    here, most = requests_of_batches(by_request, shuffle=True, reader=reader)
    assert here >= 0.5 * there
    assert most <= 12


def test_without_shuffling_a_batch_has_whole_requests(tmp_path: Path) -> None:
    by_request = published(tmp_path, [10], by_request=True)
    requests, most = requests_of_batches(by_request, shuffle=False, reader="iter_batches")
    assert requests < 104
    assert most == 10


class _Day(NamedTuple):
    compression: str
    order: RequestOrder


class _Samples(NamedTuple):
    """As much of a sample set as decides the order."""

    manifests: tuple[_Day, ...]
    records: int = 200_000
    request_size: float = 100.0

    @property
    def shards(self) -> tuple[Any, ...]:
        return (Shard("x", "train", 0, self.records, self.records * 400, 0),)


@pytest.mark.parametrize(
    ("compressions", "window"), [(("none", "none"), 80), (("none", "gzip"), 41), (("gzip", "none"), 41)]
)
def test_one_compressed_day_makes_the_window_smaller_and_lanes_follow_it(
    compressions: tuple[str, ...], window: int
) -> None:
    order = RequestOrder(("request",), 10, 100.0, 1)
    samples: Any = _Samples(tuple(_Day(compression, order) for compression in compressions))
    made = Reading(BATCH, shuffle=True).order_of(samples)
    assert made.window == window * BATCH
    assert made.lanes == min(LANES, samples.records // made.window)
