"""Static views whose keys have several rows: one is taken, and it is told."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ctr_samples.config import EventView
from ctr_samples.samples.views.counts import irregular_rows
from tests.support.whole_runs import made, write_config

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


@pytest.mark.thorough
def test_a_run_tells_of_keys_with_rows_that_differ(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(
        "2019-06-05 10:00:00,u,a,1\n2019-06-05 11:00:00,u,b,0\n2019-06-05 12:00:00,v,b,0\n"
    )
    (tmp_path / "items.csv").write_text("a,x,1\na,y,1\nb,z,1\nb,z,2\nc,x,1\nc,y,1\n")
    day = made(spark, write_config(tmp_path, "tiny", CONFIG), date(2019, 6, 5))
    assert day.manifest.views["item"]["keys_with_several_rows"] == 2
    assert day.manifest.views["item"]["matched"] == day.manifest.accounting["samples"] == 3
    assert len(day.found("several_rows")) == 1


def test_irregular_rows_are_told_of_views_whose_rows_end_and_ties_of_all() -> None:
    rows = {"source": "log", "entity": "user", "key": "u", "event_time": "t"}
    views = {
        "plain": EventView.model_validate(rows | {"ttl": "1d"}),
        "ended": EventView.model_validate(rows | {"ttl": "1d", "valid_to": "until"}),
    }
    assert irregular_rows(views, {"ended.empty": 3, "ended.overlaps": 2, "plain.ties": 1}) == {
        "plain": {"ties": 1},
        "ended": {"empty": 3, "overlaps": 2, "contradictions": 0, "ties": 0},
    }
