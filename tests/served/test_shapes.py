"""Tables whose rows end, and snapshots: what is served is that of a run made otherwise."""

from __future__ import annotations

import random
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ctr_samples.config import load_config
from ctr_samples.job import run as job
from ctr_samples.quality.checks import CHECKS
from tests.served.served_day import BY_IDS, DAY, START, compared
from tests.support.whole_runs import write_rows

pytestmark = pytest.mark.slow

SHOWN, USERS = 800, 30
BEGIN = START.timestamp()
CONFIG = """
name: shapes
timezone: UTC
sources:
  log: {format: json, path: DIR/log.json, schema: "at DOUBLE, u STRING"}
  rows: {format: json, path: DIR/rows.json, schema: "u STRING, at DOUBLE, no BIGINT, gone BOOLEAN, upto DOUBLE, v DOUBLE"}
  days: {format: json, path: DIR/days.json, schema: "u STRING, day STRING, v DOUBLE"}
impressions:
  source: log
  time: timestamp_millis(bigint(at * 1000))
  keys: {user: u}
labels: {none: {expr: "false"}}
views:
  step: {source: rows, on: user, key: u, event_time: "timestamp_seconds(bigint(at))", sequence: no, AFTER_STEP}
  left: {source: rows, on: user, key: u, event_time: "timestamp_seconds(bigint(at) + no)", TOMB AFTER_LEFT}
  deal: {source: rows, on: user, key: u, event_time: "timestamp_seconds(bigint(at) + no)", END AFTER_DEAL}
  seen: {source: days, on: user, key: u, snapshot: "date(day)", ttl: 9d, PUBLISHED}
features:
  step: {from: step.v, dtype: float32, default: -1}
  left: {from: left.v, dtype: float32, default: -1}
  deal: {from: deal.v, dtype: float32, default: -1}
  seen: {from: seen.v, dtype: float32, default: -1}
split: {eval: 0.1}
output: {path: DIR/OUT, partitions: 2}
"""
RIGHT = {
    "AFTER_STEP": "ttl: 20d",
    "TOMB": "tombstone: gone,",
    "AFTER_LEFT": "ttl: 20d",
    "END": "valid_to: timestamp_seconds(bigint(upto)),",
    "AFTER_DEAL": "ttl: 20d",
    "PUBLISHED": "publish_delay: 3h",
}
LATE = {
    **RIGHT,
    "AFTER_STEP": "ttl: 20d, available_after: 1h",
    "AFTER_LEFT": "ttl: 20d, available_after: 2h",
    "END": "valid_to: timestamp_seconds(bigint(upto)), closed_available: timestamp_seconds(bigint(upto) + 1800),",
    "AFTER_DEAL": "ttl: 20d, available_after: 30m",
    "PUBLISHED": "publish_delay: 9h",
}
ENDLESS = {**RIGHT, "TOMB": "", "END": ""}


@pytest.fixture(scope="module")
def root(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    where, rng = tmp_path_factory.mktemp("shapes"), random.Random(39)
    users = [f"{n:05}" for n in range(USERS)]
    rows: list[dict[str, Any]] = []
    for user in users:
        at = BEGIN - 86400
        while at < BEGIN + 86400:
            upto = at + rng.uniform(1800, 9000)
            rows += [{"u": user, "at": at, "no": no, "gone": rng.random() < 0.3, "upto": upto, "v": rng.random() * 9 + 1}
                     for no in (1, 0)]  # fmt: skip
            at += rng.uniform(3600, 14400)
    days = [
        {"u": user, "day": str(DAY - timedelta(days=back)), "v": rng.random()}
        for back in (1, 2, 3)
        for user in users
        if rng.random() < 0.8
    ]
    log = [{"at": round(BEGIN + rng.uniform(0, 86399), 3), "u": rng.choice(users)} for _ in range(SHOWN)]
    for name, of in (("rows", rows), ("days", days), ("log", log)):
        write_rows(where / f"{name}.json", of)
    for out, parts in (("out", RIGHT), ("late", LATE), ("endless", ENDLESS)):
        text = CONFIG.replace("OUT", out)
        for name, part in parts.items():
            text = text.replace(name, part)
        (where / f"{out}.yaml").write_text(text.replace("DIR", str(where)))
        job.run(spark, load_config(where / f"{out}.yaml"), DAY, accept=CHECKS)
    return where


def shards(root: Path, out: str) -> Path:
    """A copy of the shards of a run, which is a log of tf.Examples."""
    log = root / f"{out}_log"
    log.mkdir()
    for number, shard in enumerate(sorted(root.glob(f"{out}/dt=*/data/*/*/*.tfrecord"))):
        shutil.copy(shard, log / f"{number}.tfrecord")
    return log


def test_late_stores_whose_rows_end_and_ends_that_are_ignored_are_named(spark: SparkSession, root: Path) -> None:
    found = compared(spark, root / "out.yaml", shards(root, "late"), BY_IDS, propose=True)
    differing = {name for name, one in found.features.items() if one.differ}
    assert differing == {"step", "left", "deal", "seen"}
    for name, delay in (("step", "1h"), ("left", "2h"), ("deal", "30m"), ("seen", "6h")):
        cause = found.features[name].causes[0]
        assert cause.name == "late row", (name, found.features[name].causes)
        assert f"{delay} late" in cause.sentence
        assert cause.share > 0.98
    assert "`closed_available`" in found.features["deal"].causes[0].sentence
    settings = {one.view: {one.setting: one.available_after} for one in found.proposals}
    assert settings["seen"] == {"publish_delay": "9h"}
    assert settings["left"] == {"available_after": "2h"}
    found = compared(spark, root / "out.yaml", shards(root, "endless"), BY_IDS)
    assert {name for name, one in found.features.items() if one.differ} == {"left", "deal"}
    for name in ("left", "deal"):
        (cause,) = found.features[name].causes
        assert cause.name == "ended row"
        assert cause.share > 0.95  # rows that ended before the day are not tried
