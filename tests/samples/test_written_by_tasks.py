"""Samples are written by tasks: no rows pass through the driver."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from ctr_samples.config import load_config
from tests.support.tiny_days import write_days
from tests.support.whole_runs import made

DAY = date(2019, 6, 5)


@pytest.mark.thorough
def test_samples_are_written_by_tasks_and_never_gathered_on_the_driver(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind: Any = type(spark.range(1))
    collect, collected = kind.collect, list[list[str]]()

    def noting(frame: DataFrame) -> Any:
        collected.append(frame.columns)
        return collect(frame)

    def refused(*_: object) -> None:
        pytest.fail("rows were gathered on the driver")

    for name in ("toPandas", "toArrow", "toLocalIterator"):
        monkeypatch.setattr(kind, name, refused)
    monkeypatch.setattr(kind, "collect", noting)
    found = made(spark, load_config(write_days(tmp_path, DAY, 2), ["output.partitions=3"]), DAY)
    assert len({shard.partition for shard in found.manifest.shards}) > 1, "several tasks wrote"
    assert collected, "the receipts of the tasks are gathered"
    assert all("price" not in columns for columns in collected), collected
