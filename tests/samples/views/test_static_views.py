"""Static views whose keys have several rows: one is taken, and it is told."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from pyspark.sql import SparkSession

from ctr_samples.config import load_config
from ctr_samples.job import run as job
from ctr_samples.shards import Manifest

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


def published(spark: SparkSession, root: Path, items: str) -> Manifest:
    root.mkdir()
    (root / "log.csv").write_text("2019-06-05 10:00:00,u,a,1\n2019-06-05 11:00:00,u,b,0\n2019-06-05 12:00:00,v,b,0\n")
    (root / "items.csv").write_text(items)
    text = CONFIG
    for name in ("log.csv", "items.csv", "out"):
        text = text.replace(f"path: {name}", f"path: {root / name}")
    (root / "c.yaml").write_text(text)
    return job.run(spark, load_config(root / "c.yaml"), date(2019, 6, 5)).manifest


def test_keys_with_rows_that_differ_are_counted_and_equal_rows_are_not(spark: SparkSession, tmp_path: Path) -> None:
    manifest = published(spark, tmp_path / "several", "a,x,1\na,y,1\nb,z,1\nb,z,2\nc,x,1\nc,y,1\n")
    assert manifest.views["item"]["keys_with_several_rows"] == 2
    (found,) = [one for one in manifest.quality["found"] if one["check"] == "several_rows"]
    assert found["severity"] == "warn"
    one_each = published(spark, tmp_path / "one", "a,x,1\nb,z,1\nb,z,2\n")
    assert one_each.views["item"]["keys_with_several_rows"] == 0
