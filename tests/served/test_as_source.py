"""Served values as features: the view that docs/served.md describes, and who counts by origin."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ctr_samples.config import load_config
from ctr_samples.job import run as job
from ctr_samples.quality.checks import CHECKS
from ctr_samples.readers import iter_batches
from tests.support.project import PROJECT
from tests.support.whole_runs import write_rows

START = 1559692800
CONFIG = """
name: both
timezone: UTC
sources:
  log: {format: json, path: DIR/log.json, schema: "at BIGINT, rid STRING, u BIGINT, i BIGINT, clicked BOOLEAN"}
  users: {format: json, path: DIR/users.json, schema: "u BIGINT, at BIGINT, age DOUBLE"}
impressions: {source: log, time: timestamp_seconds(at), keys: {user: u, item: i}, request: rid}
labels: {clicked: {expr: clicked}}
views:
  user: {source: users, on: user, key: u, event_time: timestamp_seconds(at), ttl: 30d}
features:
  item: {from: impression.item, dtype: int64}
output: {path: DIR/out}
split: {eval: 0}
"""


@pytest.mark.thorough
def test_the_served_value_is_taken_where_there_is_one_known_before_the_impression(
    spark: SparkSession, tmp_path: Path
) -> None:
    (block,) = re.findall(r"```yaml\n(sources:\n  served:.*?)```", (PROJECT / "docs/served.md").read_text(), re.DOTALL)
    (tmp_path / "base.yaml").write_text(CONFIG.replace("DIR", str(tmp_path)))
    (tmp_path / "c.yaml").write_text(
        "base: base.yaml\n"
        + block.replace("logs/served/", f"{tmp_path}/served/")
        + f"output: {{path: {tmp_path}/both}}\n"
    )
    log = [{"at": START + 60 * n, "rid": f"r{n}", "u": 1, "i": n, "clicked": n == 1} for n in range(1, 4)]
    served = [
        {"rid": "r1", "item_id": 1, "at": START + 59, "age": 31.0},  # just before the impression
        {"rid": "r2", "item_id": 2, "at": START + 500, "age": 99.0},  # logged after it, so nobody can have seen it
    ]
    users = [{"u": 1, "at": START - 3600, "age": 40.0}]
    for day in ("2019-06-04", "2019-06-05"):
        (tmp_path / f"served/dt={day}").mkdir(parents=True)
    (tmp_path / "served/dt=2019-06-04/part.json").write_text(
        '{"rid": "r3", "item_id": 3, "at": 1559600000, "age": 98.0}\n'
    )
    for name, rows in (("log.json", log), ("users.json", users), ("served/dt=2019-06-05/part.json", served)):
        write_rows(tmp_path / name, rows)
    result = job.run(spark, load_config(tmp_path / "c.yaml"), date(2019, 6, 5), accept=CHECKS)
    (batch,) = iter_batches(tmp_path / "both", date="2019-06-05", split="train", batch_size=9)
    ages = dict(zip(batch.features["item"].tolist(), batch.features["age"].tolist(), strict=True))
    assert ages == {1: 31.0, 2: 40.0, 3: 40.0}
    origins = dict(zip(batch.features["item"].tolist(), batch.features["age_was_served"].tolist(), strict=True))
    assert origins == {1: 1, 2: 0, 3: 0}
    assert result.manifest.views["served"]["matched"] == 1
