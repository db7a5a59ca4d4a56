"""Static views and snapshots whose keys have several rows: one is taken, and it is told."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ctr_samples.config import load_config
from ctr_samples.contract import ExampleContract
from ctr_samples.job import run as job
from ctr_samples.records.read import first_examples
from ctr_samples.shards import Manifest, open_storage
from tests.support.marks import slow_except

CONFIG = """\
name: tiny
timezone: UTC
sources:
  log: {format: csv, path: log.csv, schema: "at STRING, user STRING, item STRING, clicked INT"}
  items: {format: csv, path: items.csv, schema: "item STRING, brand STRING, unused STRING"}
impressions: {source: log, time: at, user: user, article: item}
labels:
  clicked: {expr: clicked = 1}
views:
  item: {source: items, static: true, key: item, on: article}
features:
  brand: {from: item.brand, dtype: int64, hash_buckets: 50}
output: {path: out, partitions: 1}
split: {eval: 0}
"""


SNAPSHOTS = CONFIG.replace('"item STRING', '"day STRING, no INT, gone INT, item STRING').replace(
    "static: true", "snapshot: day, ttl: 9d, MORE"
)


def published(spark: SparkSession, root: Path, items: str, config: str = CONFIG) -> Manifest:
    root.mkdir()
    (root / "log.csv").write_text("2019-06-05 10:00:00,u,a,1\n2019-06-05 11:00:00,u,b,0\n2019-06-05 12:00:00,v,b,0\n")
    (root / "items.csv").write_text(items)
    text = config
    for name in ("log.csv", "items.csv", "out"):
        text = text.replace(f"path: {name}", f"path: {root / name}")
    (root / "c.yaml").write_text(text)
    return job.run(spark, load_config(root / "c.yaml"), date(2019, 6, 5)).manifest


@pytest.mark.thorough
def test_keys_with_rows_that_differ_are_counted_and_equal_rows_are_not(spark: SparkSession, tmp_path: Path) -> None:
    manifest = published(spark, tmp_path / "several", "a,x,1\na,y,1\nb,z,1\nb,z,2\nc,x,1\nc,y,1\n")
    assert manifest.views["item"]["keys_with_several_rows"] == 2
    (found,) = [one for one in manifest.quality["found"] if one["check"] == "several_rows"]
    assert found["severity"] == "warn"
    one_each = published(spark, tmp_path / "one", "a,x,1\nb,z,1\nb,z,2\n")
    assert one_each.views["item"]["keys_with_several_rows"] == 0


ROWS = """\
2019-06-03,1,0,a,x,1
2019-06-03,2,0,a,y,1
2019-06-04,1,0,a,x,1
2019-06-04,2,0,a,y,1
2019-06-04,1,0,b,z,1
2019-06-04,2,0,b,z,2
2019-06-04,1,0,c,x,1
2019-06-04,1,1,c,y,1
2019-06-05,1,0,b,x,1
2019-06-05,2,0,b,y,1
"""
"""The snapshot of June 5 is there only when the day has ended."""


@pytest.mark.thorough
@pytest.mark.parametrize("method", slow_except(["snapshots"], ["snapshots", "intervals", "union"]))
def test_keys_with_rows_of_one_snapshot_that_differ_are_counted_in_each_snapshot(
    method: str, spark: SparkSession, tmp_path: Path
) -> None:
    config = SNAPSHOTS.replace("MORE", f"method: {method}, tombstone: gone = 1")
    manifest = published(spark, tmp_path / "several", ROWS, config)
    assert manifest.views["item"]["keys_with_several_rows"] == 2
    assert manifest.views["item"]["matched"] == manifest.accounting["samples"] == 3
    (found,) = [one for one in manifest.quality["found"] if one["check"] == "several_rows"]
    assert found["severity"] == "warn"
    without = published(spark, tmp_path / "alike", "".join(ROWS.splitlines(keepends=True)[4:8]), config)
    assert without.views["item"]["keys_with_several_rows"] == 0


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["snapshots", "intervals", "union"])
def test_a_sequence_says_which_row_of_a_snapshot_is_the_last(method: str, spark: SparkSession, tmp_path: Path) -> None:
    manifest = published(
        spark, tmp_path / "x", ROWS, SNAPSHOTS.replace("MORE", f"method: {method}, sequence: no, tombstone: gone = 1")
    )
    assert "keys_with_several_rows" not in manifest.views["item"]
    assert "several_rows" not in [one["check"] for one in manifest.quality["found"]]


@pytest.mark.slow
def test_one_row_of_a_key_and_snapshot_is_taken_by_every_method_and_in_any_order(
    spark: SparkSession, tmp_path: Path
) -> None:
    def brands(method: str, rows: str, name: str) -> list[object]:
        root = tmp_path / name
        manifest = published(spark, root, rows, SNAPSHOTS.replace("MORE", f"method: {method}"))
        contract = ExampleContract.from_dict(dict(manifest.contract))
        return [row["brand"] for row in first_examples(open_storage(root / "out"), manifest.shards, contract, 9)]

    backwards = "".join(reversed(ROWS.splitlines(keepends=True)))
    first = brands("snapshots", ROWS, "snapshots")
    assert len(first) == 3
    assert brands("snapshots", backwards, "backwards") == first
    assert brands("intervals", backwards, "intervals") == first
    assert brands("union", ROWS, "union") == first
