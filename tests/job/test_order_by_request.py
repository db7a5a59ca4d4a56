"""Samples ordered by request: the same samples, each request in one place and one split, and what that saves."""

from __future__ import annotations

import json
import random
import shutil
from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from jsonschema import validate
from pyspark.sql import SparkSession

from ctr_samples.config import LoadedConfig, load_config
from ctr_samples.job.forget import find, forget
from ctr_samples.job.preview import previewed
from ctr_samples.shards import Shard, open_storage
from ctr_samples.shards.clean import Retention
from tests.support.project import PROJECT
from tests.support.whole_runs import Made, made, write_config

DAY = "2019-06-05"
LARGEST = 400
_SIZES = [1, 1, 2, 3, 5, 8, 13, 20]

CONFIG = """
name: feeds
timezone: UTC
sources:
  log: {format: parquet, path: ROOT/log.parquet}
impressions:
  source: log
  time: at
  request: req
  keys: {user: uid, item: item}
  columns: {taste: taste, price: price, req: "coalesce(req, concat(uid, at), concat(item, at))"}
labels:
  clicked: {expr: clicked}
features:
  taste: {from: impression.taste, dtype: float32, shape: [24]}
  price: {from: impression.price, dtype: float32}
  item: {from: impression.item, dtype: string}
  user: {from: impression.user, dtype: string}
  req: {from: impression.req, dtype: string}
  hour: {expr: "hour(impression.impression_time)", dtype: int64}
split: {by: request, eval: 0.3}
output: {path: ROOT/OUT, partitions: 3, shard_size: 64KiB}
"""


def write_log(root: Path) -> None:
    """Write the log of the day in random order."""
    chance = random.Random(36)
    rows = [row for number in range(300) for row in _request(chance, number)]
    chance.shuffle(rows)
    table = pa.Table.from_pylist(rows)
    pq.write_table(table.set_column(0, "at", table["at"].cast(pa.timestamp("us", "UTC"))), root / "log.parquet")


def _request(chance: random.Random, number: int) -> list[dict[str, Any]]:
    at = datetime(2019, 6, 5, tzinfo=UTC) + timedelta(seconds=chance.randrange(86_000))
    user = None if number % 29 == 3 else f"u{chance.randrange(60)}"
    size = LARGEST if number == 7 else chance.choice(_SIZES)
    taste = [chance.random() for _ in range(24)]
    own = None if number % 11 == 5 else f"r{number % 250}"  # users share the names of some requests
    items = chance.sample(range(1000), size)
    return [
        {
            "at": at if own is None else at + timedelta(seconds=position // 4),
            "req": own,
            "uid": user,
            "item": f"i{item}",
            "taste": taste,
            "price": item / 7,
            "clicked": chance.random() < 0.1,
        }
        for position, item in enumerate(items)
    ]


def feeds(root: Path, out: str, *overrides: str) -> LoadedConfig:
    """Return the configuration, with its output at ``out`` below ``root``."""
    return load_config(write_config(root, out, CONFIG), overrides, {})


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("feeds")
    write_log(root)
    return root


def day_of_feeds(spark: SparkSession, root: Path, out: str, *overrides: str) -> Made:
    return made(spark, feeds(root, out, *overrides), DAY)


@pytest.fixture(scope="module")
def by_impression(spark: SparkSession, root: Path) -> Made:
    return day_of_feeds(spark, root, "by_impression")


@pytest.fixture(scope="module")
def by_request(spark: SparkSession, root: Path) -> Made:
    return day_of_feeds(spark, root, "by_request", "output.order=request")


def parts(day: Made) -> list[tuple[int, str, pd.DataFrame]]:
    """The samples of each partition and split in the order in which they were written."""
    shards: dict[tuple[int, str], list[Shard]] = defaultdict(list)
    for shard in day.manifest.shards:
        shards[shard.partition, shard.split].append(shard)
    return [
        (*part, pd.DataFrame([row for shard in of for row in day.rows_of(shard)]))
        for part, of in sorted(shards.items())
    ]


def texts(samples: pd.DataFrame) -> list[str]:
    """All columns of each sample."""
    return list(samples.astype(str).agg("|".join, axis=1))


def names(samples: pd.DataFrame) -> list[str]:
    """The request of each sample as the order sees it: its id and its user."""
    return [f"{req} {user}" for req, user in zip(samples["req"], samples["user"], strict=True)]


@pytest.mark.thorough
def test_both_orders_hold_the_same_samples_and_no_request_in_two_splits(by_impression: Made, by_request: Made) -> None:
    assert sorted(texts(by_request.frame)) == sorted(texts(by_impression.frame))
    assert by_request.manifest.accounting == by_impression.manifest.accounting
    assert len(by_request.frame) > 1000
    assert by_request.frame.groupby(names(by_request.frame))["split"].nunique().max() == 1
    assert {*by_request.frame["split"]} == {"train", "eval"}


@pytest.mark.thorough
def test_the_samples_of_a_request_are_adjacent_in_one_partition_and_split(by_request: Made) -> None:
    every = parts(by_request)
    runs = [name for *_, frame in every for name, _ in groupby(names(frame))]
    assert len(runs) == len(set(runs)) > 250
    assert {partition for partition, *_ in every} == {0, 1, 2}


@pytest.mark.thorough
def test_the_manifest_has_the_order_and_its_requests(by_impression: Made, by_request: Made) -> None:
    assert by_impression.manifest.order is None
    order = by_request.manifest.order
    assert order is not None
    assert order.by == ("request", "user")
    sizes = pd.Series(names(by_request.frame)).value_counts()
    assert order.requests == len(sizes)
    assert order.largest == LARGEST
    assert order.size == pytest.approx((sizes**2).sum() / sizes.sum())
    documents = {"shards/manifest": by_request.manifest, "quality/metrics": by_request.metrics}
    for name, document in documents.items():
        schema = json.loads((PROJECT / f"ctr_samples/{name}.schema.json").read_text())
        validate(json.loads(document.to_json()), schema)


@pytest.mark.thorough
def test_both_orders_measure_the_same_requests(by_impression: Made, by_request: Made) -> None:
    sizes = pd.Series(names(by_request.frame)).value_counts()
    for published in (by_impression, by_request):
        requests = published.metrics.requests
        assert requests is not None
        assert requests.keys == ("request", "user")
        assert (requests.requests, requests.looked_at) == (len(sizes), len(sizes))
        assert requests.mean == pytest.approx(sizes.mean())
        assert requests.median == sizes.median()
        assert requests.largest == LARGEST
        assert requests.equal_bytes is not None
        assert 0.6 < requests.equal_bytes < 0.9
        assert requests.gzip is not None
        assert requests.gzip.by_request < 0.6 * requests.gzip.by_impression


@pytest.mark.slow
def test_the_estimated_gzip_share_is_that_of_the_shards(
    spark: SparkSession, root: Path, by_impression: Made, by_request: Made
) -> None:
    estimated = by_impression.metrics.requests
    assert estimated is not None
    assert estimated.gzip is not None
    for plain, order, share in (
        (by_impression, "impression", estimated.gzip.by_impression),
        (by_request, "request", estimated.gzip.by_request),
    ):
        gzip = day_of_feeds(spark, root, f"gzip_{order}", f"output.order={order}", "output.compression=gzip")
        assert gzip.manifest.bytes / plain.manifest.bytes == pytest.approx(share, rel=0.25)


@pytest.mark.thorough
def test_a_layout_is_ordered_by_request_too(spark: SparkSession, root: Path, by_request: Made) -> None:
    features = "features={taste: {from: impression.taste, dtype: float32, shape: [24]}}"
    dense = day_of_feeds(spark, root, "dense", "output.order=request", "output.layout=dense", features)
    ids = [frame["impression_id"].tolist() for *_, frame in parts(dense)]
    assert ids == [frame["impression_id"].tolist() for *_, frame in parts(by_request)]


@pytest.mark.slow
def test_a_preview_measures_the_requests_of_the_day(spark: SparkSession, root: Path, by_request: Made) -> None:
    sizes = pd.Series(names(by_request.frame)).value_counts()
    _, found = previewed(spark, feeds(root, "preview"), DAY, 1, requests=True)
    assert found is not None
    assert (found.requests, found.median, found.largest) == (len(sizes), sizes.median(), LARGEST)
    assert found.mean == pytest.approx(sizes.mean())


@pytest.mark.thorough
def test_forgetting_a_user_keeps_the_order_of_the_others(root: Path, by_request: Made) -> None:
    output = shutil.copytree(root / "by_request", root / "forgotten")
    storage = open_storage(output)
    found = find(storage, date.fromisoformat(DAY), "user", ["u7"])
    after = Made(forget(storage, found, "user", ["u7"], Retention()).manifest, output)
    staying = [texts(frame[frame["user"] != b"u7"]) for *_, frame in parts(by_request)]
    assert [texts(frame) for *_, frame in parts(after)] == staying
    assert after.manifest.order == by_request.manifest.order
    assert after.metrics.requests == by_request.metrics.requests


@pytest.mark.thorough
def test_a_change_of_the_order_is_a_change_of_the_day_and_another_run_writes_the_same_bytes(
    spark: SparkSession, root: Path, by_request: Made
) -> None:
    first = day_of_feeds(spark, root, "changed")
    assert not day_of_feeds(spark, root, "changed").published
    second = day_of_feeds(spark, root, "changed", "output.order=request")
    assert (second.published, second.manifest.generation) == (True, first.manifest.generation + 1)
    assert second.shards == by_request.shards
