"""Static views and snapshots whose keys have several rows: one is taken, and it is told."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.whole_runs import Made, made, write_config

CONFIG = """\
name: tiny
timezone: UTC
sources:
  log: {format: csv, path: ROOT/log.csv, schema: "at STRING, user STRING, item STRING, clicked INT"}
  items: {format: csv, path: ROOT/items.csv, schema: "item STRING, brand STRING, unused STRING"}
impressions: {source: log, time: at, user: user, article: item}
labels:
  clicked: {expr: clicked = 1}
views:
  item: {source: items, static: true, key: item, on: article}
features:
  brand: {from: item.brand, dtype: int64, hash_buckets: 50}
output: {path: ROOT/out, partitions: 1}
split: {eval: 0}
"""

SNAPSHOTS = CONFIG.replace('"item STRING', '"day STRING, no INT, gone INT, item STRING').replace(
    "static: true", "snapshot: day, ttl: 9d, tombstone: gone = 1"
)
ROWS = """\
2019-06-03,1,0,a,x,1
2019-06-03,2,0,a,y,1
2019-06-04,1,0,a,x,1
2019-06-04,2,0,a,y,1
2019-06-04,1,0,b,z,1
2019-06-04,2,0,b,z,2
2019-06-05,1,0,b,x,1
2019-06-05,2,0,b,y,1
"""
"""The snapshot of June 5 is there only when the day has ended."""


def published(spark: SparkSession, root: Path, items: str, config: str = CONFIG) -> Made:
    root.mkdir()
    (root / "log.csv").write_text("2019-06-05 10:00:00,u,a,1\n2019-06-05 11:00:00,u,b,0\n2019-06-05 12:00:00,v,b,0\n")
    (root / "items.csv").write_text(items)
    return made(spark, write_config(root, "c", config), date(2019, 6, 5))


@pytest.mark.thorough
def test_a_run_tells_of_keys_with_rows_that_differ(spark: SparkSession, tmp_path: Path) -> None:
    days = {
        "static": published(spark, tmp_path / "static", "a,x,1\na,y,1\nb,z,1\nb,z,2\nc,x,1\nc,y,1\n"),
        "snapshots": published(spark, tmp_path / "snapshots", ROWS, SNAPSHOTS),
    }
    for name, day in days.items():
        assert day.manifest.views["item"]["keys_with_several_rows"] == 2, name
        assert day.manifest.views["item"]["matched"] == day.manifest.accounting["samples"] == 3
        assert len(day.found("several_rows")) == 1
    ordered = published(spark, tmp_path / "ordered", ROWS, SNAPSHOTS.replace("ttl: 9d", "ttl: 9d, sequence: no"))
    assert "keys_with_several_rows" not in ordered.manifest.views["item"]
    assert ordered.found("several_rows") == []
