"""Samples ordered by request: the same samples, each request in one place and one split, and what that saves."""

from __future__ import annotations

import json
import shutil
from datetime import date
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from jsonschema import validate
from pyspark.sql import SparkSession

from ctr_samples.job import run as job
from ctr_samples.job.forget import find, forget
from ctr_samples.job.gate import read_metrics
from ctr_samples.job.preview import previewed
from ctr_samples.quality.checks import CHECKS
from ctr_samples.quality.metrics import Metrics
from ctr_samples.readers import iter_batches
from ctr_samples.shards import Manifest, open_storage
from ctr_samples.shards.clean import Retention
from tests.job.feeds import DAY, LARGEST, feeds, samples_of, write_log
from tests.job.partial_days import shards_of
from tests.support.marks import slow_except
from tests.support.project import PROJECT


class Published(NamedTuple):
    root: Path
    out: str
    manifest: Manifest

    @property
    def shards(self) -> list[tuple[int, str, pd.DataFrame]]:
        """The shards of each partition and split in the order in which they were written."""
        return sorted(samples_of(self.root, self.out, self.manifest), key=lambda shard: shard[:2])

    @property
    def samples(self) -> pd.DataFrame:
        return pd.concat(frame.assign(split=split) for _, split, frame in self.shards)

    @property
    def metrics(self) -> Metrics:
        return read_metrics(open_storage(self.root / self.out), self.manifest)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("feeds")
    write_log(root)
    return root


def made(spark: SparkSession, root: Path, out: str, *overrides: str) -> Published:
    return Published(root, out, job.run(spark, feeds(root, out, *overrides), DAY).manifest)


@pytest.fixture(scope="module")
def by_impression(spark: SparkSession, root: Path) -> Published:
    return made(spark, root, "by_impression")


@pytest.fixture(scope="module")
def by_request(spark: SparkSession, root: Path) -> Published:
    return made(spark, root, "by_request", "output.order=request")


def rows(samples: pd.DataFrame) -> list[str]:
    return list(samples.astype(str).agg("|".join, axis=1))


def texts(samples: pd.DataFrame) -> list[str]:
    return sorted(rows(samples))


def names(samples: pd.DataFrame) -> list[str]:
    """The request of each sample as the order sees it: its id and its user."""
    return [f"{req} {user}" for req, user in zip(samples["req"], samples["user"], strict=True)]


@pytest.mark.thorough
def test_both_orders_hold_the_same_samples(by_impression: Published, by_request: Published) -> None:
    assert texts(by_request.samples) == texts(by_impression.samples)
    assert by_request.manifest.accounting == by_impression.manifest.accounting
    assert len(by_request.samples) > 1000


@pytest.mark.thorough
def test_the_samples_of_a_request_are_adjacent_in_one_partition_and_split(by_request: Published) -> None:
    runs = []
    for (partition, split), shards in groupby(by_request.shards, key=lambda shard: shard[:2]):
        runs += [(name, partition, split) for name, _ in groupby(names(pd.concat(frame for *_, frame in shards)))]
    assert len(runs) == len({name for name, *_ in runs}) > 250
    assert {partition for _, partition, _ in runs} == {0, 1, 2}


def test_no_request_is_in_two_splits_in_either_order(by_impression: Published, by_request: Published) -> None:
    for published in (by_impression, by_request):
        splits = published.samples.groupby(names(published.samples))["split"].nunique()
        assert splits.max() == 1
        assert {*published.samples["split"]} == {"train", "eval"}


def test_the_manifest_has_the_order_and_its_requests(by_impression: Published, by_request: Published) -> None:
    assert by_impression.manifest.order is None
    order = by_request.manifest.order
    assert order is not None
    assert order.by == ("request", "user")
    sizes = pd.Series(names(by_request.samples)).value_counts()
    assert order.requests == len(sizes)
    assert order.largest == LARGEST
    assert order.size == pytest.approx((sizes**2).sum() / sizes.sum())
    schema = json.loads((PROJECT / "ctr_samples/shards/manifest.schema.json").read_text())
    validate(json.loads(by_request.manifest.to_json()), schema)


def test_both_orders_measure_the_same_requests(by_impression: Published, by_request: Published) -> None:
    sizes = pd.Series(names(by_request.samples)).value_counts()
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
        schema = json.loads((PROJECT / "ctr_samples/quality/metrics.schema.json").read_text())
        validate(json.loads(published.metrics.to_json()), schema)


@pytest.mark.slow
def test_the_estimated_gzip_share_is_that_of_the_shards(
    spark: SparkSession, root: Path, by_impression: Published, by_request: Published
) -> None:
    estimated = by_impression.metrics.requests
    assert estimated is not None
    assert estimated.gzip is not None
    for plain, order, share in (
        (by_impression, "impression", estimated.gzip.by_impression),
        (by_request, "request", estimated.gzip.by_request),
    ):
        gzip = made(spark, root, f"gzip_{order}", f"output.order={order}", "output.compression=gzip")
        assert gzip.manifest.bytes / plain.manifest.bytes == pytest.approx(share, rel=0.25)


@pytest.mark.thorough
def test_a_list_of_keys_is_an_order_too(spark: SparkSession, root: Path) -> None:
    by_user = made(spark, root, "by_user", "output.order=[user]", "split.by=user")
    for _, shards in groupby(by_user.shards, key=lambda shard: shard[:2]):
        users = pd.concat(frame for *_, frame in shards)["user"]
        known = [user for user, _ in groupby(users[users != b""])]
        assert len(known) == len(set(known))
    assert by_user.manifest.order is not None
    assert by_user.manifest.order.by == ("user",)


@pytest.mark.thorough
def test_a_split_by_user_cuts_no_request_of_unknown_users(spark: SparkSession, root: Path) -> None:
    samples = made(spark, root, "split_by_user", "output.order=request", "split.by=user").samples
    unknown = samples[samples["user"] == b""]
    assert len(unknown) > 2 * unknown["req"].nunique()
    assert {*unknown["split"]} == {"train", "eval"}
    assert samples.assign(name=names(samples)).groupby("name")["split"].nunique().max() == 1


@pytest.mark.thorough
def test_requests_that_begin_late_go_to_eval_whole(spark: SparkSession, root: Path) -> None:
    late = made(spark, root, "late", "output.order=request", "split={by: request, eval_from: '20:00'}")
    samples = late.samples.assign(name=names(late.samples))
    first = samples.groupby("name")["hour"].min()
    assert set(samples[samples["split"] == "eval"]["name"]) == set(first[first >= 20].index)
    assert set(samples[samples["split"] == "train"]["name"]) == set(first[first < 20].index)


@pytest.mark.thorough
def test_a_set_without_requests_says_none(spark: SparkSession, root: Path) -> None:
    alone = made(
        spark,
        root,
        "alone",
        "impressions={source: log, time: at, keys: {item: item}, identity: row, columns: {price: price}}",
        "features={price: {from: impression.price, dtype: float32}}",
        "split={by: item}",
    )
    assert alone.metrics.requests is None


@pytest.mark.slow
def test_a_preview_measures_the_requests_of_the_day(spark: SparkSession, root: Path, by_request: Published) -> None:
    sizes = pd.Series(names(by_request.samples)).value_counts()
    _, found = previewed(spark, feeds(root, "preview"), DAY, 1, requests=True)
    assert found is not None
    assert (found.requests, found.median, found.largest) == (len(sizes), sizes.median(), LARGEST)
    assert found.mean == pytest.approx(sizes.mean())


NUMBERS = "features={taste: {from: impression.taste, dtype: float32, shape: [24]}}"
LISTS = "features={taste: {from: impression.taste, dtype: float32, ragged: true}}"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("layout", "features"), [("dense", NUMBERS), *slow_except((), [("sparse", NUMBERS), ("sequence", LISTS)])]
)
def test_a_layout_holds_the_same_records_in_either_order(
    spark: SparkSession, root: Path, by_request: Published, layout: str, features: str
) -> None:
    one, other = (
        texts(made(spark, root, f"{layout}_{o}", f"output.order={o}", f"output.layout={layout}", features).samples)
        for o in ("impression", "request")
    )
    assert one == other
    assert len(one) == len(by_request.samples)


@pytest.mark.thorough
def test_negatives_are_dropped_within_requests(spark: SparkSession, root: Path, by_request: Published) -> None:
    options = ["sampling={negatives: 0.5}", "split={eval: 0}"]
    sampled = made(spark, root, "sampled", "output.order=request", *options)
    kept, every = sampled.samples.drop(columns=["sample_weight", "split"]), by_request.samples.drop(columns="split")
    assert {*texts(kept)} < {*texts(every)}
    assert sampled.manifest.order is not None
    assert by_request.manifest.order is not None
    assert 1 < sampled.manifest.order.size < by_request.manifest.order.size


@pytest.mark.thorough
def test_forgetting_a_user_keeps_the_order_of_the_others(root: Path, by_request: Published) -> None:
    shutil.copytree(root / "by_request", root / "forgotten")
    before = by_request._replace(out="forgotten")
    storage = open_storage(root / "forgotten")
    found = find(storage, date.fromisoformat(DAY), "user", ["u7"])
    after = before._replace(manifest=forget(storage, found, "user", ["u7"], Retention()).manifest)
    frames = [frame[frame["user"] != b"u7"] for _, _, frame in before.shards]
    assert [text for *_, frame in after.shards for text in rows(frame)] == [text for f in frames for text in rows(f)]
    assert after.manifest.order == before.manifest.order
    assert after.metrics.requests == before.metrics.requests


@pytest.mark.thorough
def test_a_change_of_the_order_is_a_change_of_the_day_and_another_run_writes_the_same_bytes(
    spark: SparkSession, root: Path, by_request: Published
) -> None:
    first = job.run(spark, feeds(root, "changed"), DAY)
    assert not job.run(spark, feeds(root, "changed"), DAY).published
    second = job.run(spark, feeds(root, "changed", "output.order=request"), DAY)
    assert (second.published, second.manifest.generation) == (True, first.manifest.generation + 1)
    assert shards_of(second.manifest, root / "changed") == shards_of(by_request.manifest, root / "by_request")


@pytest.mark.thorough
def test_days_of_both_orders_are_read_together(spark: SparkSession, root: Path, by_request: Published) -> None:
    by_hour = ["grain=hour", "sources.log.path=ROOT/log.parquet".replace("ROOT", str(root))]
    for hour, order in (("T07", "request"), ("T08", "impression")):
        job.run(spark, feeds(root, "hours", *by_hour, f"output.order={order}"), f"{DAY}{hour}", accept=CHECKS)
    batches = list(iter_batches(root / "hours", date=DAY, split="train", batch_size=64, shuffle=True))
    read = sorted(value for batch in batches for value in batch.keys["impression_id"].tolist())
    every = by_request.samples
    expected = every[(every["split"] == "train") & every["hour"].isin([7, 8])]["impression_id"]
    assert read == sorted(expected)


@pytest.mark.slow
@pytest.mark.parametrize("users", [1, 2000])
def test_100000_impressions_with_a_placeholder_for_the_id_warn_if_they_are_of_one_user(
    spark: SparkSession, tmp_path: Path, users: int
) -> None:
    write_log(tmp_path)
    log = pq.read_table(tmp_path / "log.parquet")
    crawled = pa.table(
        {
            "at": pa.array([1_559_692_800_000_000] * 100_000, pa.timestamp("us", "UTC")),
            "req": ["-"] * 100_000,
            "uid": [f"crawler{n % users}" for n in range(100_000)],
            "item": [f"i{n}" for n in range(100_000)],
            "taste": [[0.5] * 24] * 100_000,
            "price": [1.0] * 100_000,
            "clicked": [False] * 100_000,
        }
    )
    pq.write_table(pa.concat_tables([log, crawled.cast(log.schema)]), tmp_path / "log.parquet")
    result = job.run(spark, feeds(tmp_path, "huge", "output.order=request"), DAY, accept=CHECKS)
    huge = Published(tmp_path, "huge", result.manifest)
    assert huge.metrics.requests is not None
    assert huge.metrics.requests.largest == max(100_000 // users, LARGEST)
    warnings = [one.standing for one in huge.metrics.checks if one.check == "huge_request" and one.standing != "passed"]
    assert warnings == ["warns"] * (users == 1)
    counts = {partition: 0 for partition, *_ in huge.shards}
    for shard in huge.manifest.shards:
        counts[shard.partition] += shard.records
    assert (max(counts.values()) > 100_000) == (users == 1)
