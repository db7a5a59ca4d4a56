"""Rates by the values of columns of impressions: in the metrics of a day, on its page, and kept as its labels mature."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ctr_samples.config import load_config
from ctr_samples.errors import ConfigError, InputError
from ctr_samples.job import run as job
from ctr_samples.quality.metrics import ValueRate
from ctr_samples.quality.pseudonyms import pseudonyms_of
from tests.support.whole_runs import made, write_config, write_rows

CONFIG = """
name: arms
timezone: UTC
sources:
  log:
    format: json
    path: ROOT/log.json
    schema: "at BIGINT, u STRING, i BIGINT, arm STRING, tags ARRAY<STRING>, clicked BOOLEAN"
impressions:
  source: log
  time: timestamp_seconds(at)
  keys: {user: u, item: i}
  columns: {arm: arm, tags: tags}
  rates_by: [arm, user]
labels:
  clicked: {expr: clicked}
  liked: {expr: "arm = 'a'"}
features:
  half: {from: impression.item, boundaries: [3], dtype: int64}
  item: {from: impression.item, dtype: int64}
output: {path: ROOT/OUT, partitions: 3}
"""
START = 1559692800
ARMS = [("a", True), ("a", False), ("b", False), (None, True), ("a", True), ("b", False)]


def written(directory: Path, text: str = CONFIG) -> Path:
    rows = [
        {"at": START + 60 * n, "u": "ann", "i": n, "arm": arm, "tags": [], "clicked": clicked}
        for n, (arm, clicked) in enumerate(ARMS)
    ]
    write_rows(directory / "log.json", rows)
    return write_config(directory, "out", text)


@pytest.mark.thorough
def test_the_rates_of_each_arm_are_in_the_metrics_and_on_the_page(spark: SparkSession, tmp_path: Path) -> None:
    loaded = load_config(written(tmp_path))
    day = made(spark, loaded, date(2019, 6, 5), accept=())
    metrics = day.metrics
    assert metrics.click_rate is not None
    names = pseudonyms_of(loaded.config)
    assert names is not None
    assert metrics.click_rate.by_column == {
        "arm": (ValueRate(3, 2, "a"), ValueRate(2, 0, "b"), ValueRate(1, 1, None)),
        "user": (ValueRate(6, 3, names.of("ann")),),
    }
    page = day.page
    assert "clicked by arm" in page
    assert "20.8% to 93.9%" in page, "Wilson's interval of 2 of 3"
    assert "no value" in page
    assert "clicked by hour of impression" in page
    assert "liked by hour of impression" in page
    assert "below 3 (1)" in page, "the words of an id"


def test_a_column_that_impressions_do_not_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="rates_by: impressions have no column 'amr'; did you mean 'arm'"):
        load_config(written(tmp_path, CONFIG.replace("[arm, user]", "[amr]")))


def test_a_list_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    loaded = load_config(written(tmp_path, CONFIG.replace("[arm, user]", "[tags]")))
    with pytest.raises(InputError, match="rates_by: tags is array<string>; expected a column of text, numbers or "):
        job.run(spark, loaded, date(2019, 6, 5))
