"""Days whose labels become final: the features of the first run, the labels of now, and the bytes of a run that joins all."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from partial_days import shards_of
from pyspark.sql import SparkSession

from ctr_samples.config import load_config
from ctr_samples.job import run as job
from ctr_samples.job.gate import read_metrics
from ctr_samples.job.many_days import Backfill
from ctr_samples.job.reporting import Silent
from ctr_samples.job.summary import run_summary
from ctr_samples.quality.checks import CHECKS
from ctr_samples.shards import Manifest, latest_manifest, open_storage

DAY, NEXT = date(2019, 6, 5), date(2019, 6, 6)
TAKEN = "features are those of generation 1; only labels are made anew"
NOT_TAKEN = "features are not taken from generation 1: "

CONFIG = """
name: maturing
timezone: UTC
sources:
  log:
    format: json
    path: ROOT/log/{date}.json
    days_before: 2
    days_after: 1
    bad_records: {max_rate: 0.5}
    schema: t string, kind string, user string, item string, place int, paid double
  users:
    format: json
    path: ROOT/users/{date}.json
    days_before: 2
    schema: since string, user string, city string, scores array<double>, words array<string>
impressions: {source: log, where: kind = 'shown', time: t, user: user, article: item, dedup: 10s, position: place}
labels:
  clicked: {source: log, where: kind = 'click', window: 2h}
  paid: {source: log, where: kind = 'buy', window: 1d, value: paid, reduce: sum}
views:
  item:
    source: log
    entity: article
    key: item
    event_time: t
    available_after: 5m
    aggregates:
      windows: [1h, 1d]
      counts: {clicks: kind = 'click', all: 'true'}
      rates: {ctr: {count: clicks, of: all, prior: 0.1, strength: 3}}
  profile: {source: users, entity: user, key: user, event_time: since, ttl: 2d}
histories:
  clicked_items: {source: log, where: kind = 'click', user: user, item: item, last: 3, within: 2d}
features:
  clicks: {from: item.clicks_1d, dtype: int64}
  ctr: {from: item.ctr_1h, dtype: float32}
  place: {from: impression.position, dtype: int64}
  last: {from: clicked_items.items, dtype: int64, shape: [3], hash_buckets: 100}
split: {eval: 0.25, test: 0.25}
output: {path: ROOT/OUT, partitions: 2, shard_size: 4096}
"""
FORMS = {
    "columns": """  city: {from: profile.city, dtype: string, nulls: omit}
  scores: {from: profile.scores, dtype: float32, shape: [2], fill: -1, nulls: omit}
  words: {from: profile.words, dtype: string, ragged: true, nulls: omit}
  grid: {expr: "concat(profile.scores, profile.scores)", dtype: float32, shape: [2, 2], fill: 0, nulls: omit}
  rows: {expr: "array(array(item.ctr_1d, 1D / 3), array(2D, 3D))", dtype: float32, shape: [2, 2]}
  tensor: {expr: "array(array(item.ctr_1d, 1D / 3), array(2D, 3D))", dtype: float32, shape: [2, 2], encoding: tensor}
  raw: {expr: "array(item.clicks_1d, 7)", dtype: int64, shape: [2], encoding: raw}
""",
    "dense": "  third: {expr: item.clicks_1d / 3, dtype: float32}\n",
    "sparse": "  bucket: {from: item.clicks_1d, dtype: int64, boundaries: [1, 5]}\n",
    "sequence": """  words: {from: profile.words, dtype: string, ragged: true, nulls: omit}
  lists: {expr: "array(item.clicks_1d, 7)", dtype: int64, ragged: true}
""",
}
"""More features, by the layout that has them."""


def write_config(root: Path, out: str, layout: str = "columns", more: str = "", compression: str = "none") -> Path:
    """The configuration of what is written to ``out``; only ``plain`` keeps nothing."""
    text = CONFIG.replace("split:", f"{more}split:").replace("ROOT", str(root)).replace("OUT", out)
    text = text.replace("shard_size: 4096", f"shard_size: 4096, layout: {layout}, compression: {compression}")
    path = root / f"{out}.yaml"
    path.write_text(text if out == "plain" else f"{text}state: {{path: {root}/state}}\n")
    return path


def row(day: date, minutes: float, kind: str, n: int, paid: float | None = None) -> dict[str, Any]:
    """Something that happened so many minutes after midnight; ``n`` says to whom, and of what."""
    at = datetime(day.year, day.month, day.day) + timedelta(minutes=minutes)
    return {"t": f"{at:%F %T.%f}", "kind": kind, "user": f"u{n % 5}", "item": f"i{n % 7}", "place": n % 4, "paid": paid}


def write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(one)}\n" for one in rows))


def write_log(root: Path, day: date, *more: dict[str, Any]) -> None:
    """An impression every ten minutes; each third is clicked five minutes later, each fifth paid for 1000 minutes later."""
    rows = [row(day, 10 * n + 7, "shown", n) for n in range(144)]
    clicks = [row(day, 10 * n + 12, "click", n) for n in range(0, 144, 3)]
    late = [row(day, (10 * n + 1007) % 1440, "buy", n, n / 3) for n in range(0, 144, 5)]
    bad = [{**row(day, 5, "click", 1), "t": None}, {**row(day, 6, "click", 1), "item": None}]
    write_lines(root / f"log/{day}.json", [*rows, *clicks, *late, *bad, *more])


def write_users(root: Path, day: date, city: str = "Lund") -> None:
    """What is known of users from a day on: sometimes nothing, sometimes lists with nothing in them."""
    lists = [{"scores": [0.1, None], "words": []}, {"scores": None, "words": ["a", "\u00e5"]}, {"scores": [1.5, 2.5]}]
    rows = [{"since": f"{day} 06:00:00", "user": f"u{n}", "city": [city, None, ""][n % 3], **lists[n % 3]} for n in range(4)]
    write_lines(root / f"users/{day}.json", rows)


def write_days(root: Path) -> None:
    """The logs of a day and of two days before it."""
    for n in range(-2, 1):
        write_log(root, DAY + timedelta(days=n))
    for n in (-1, 0):
        write_users(root, DAY + timedelta(days=n))


def made(spark: SparkSession, path: Path, **how: Any) -> tuple[list[bytes], Manifest]:
    """The shards of the day by a run of now, and its manifest."""
    config = load_config(path)
    result = job.run(spark, config, DAY, accept=CHECKS, **how)
    assert result.published
    return shards_of(result.manifest, Path(config.config.output.path)), result.manifest


def told(manifest: Manifest) -> str:
    """What a manifest says of the features of the generation before."""
    (line,) = [line for line in manifest.plan if line.startswith("features are ")]
    return line


@pytest.fixture(scope="module")
def nights(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A directory with a first run of the day, when the log of the next day was not there, and a copy of it."""
    root, copy = (tmp_path_factory.mktemp(name) for name in ("nights", "copy"))
    write_days(root)
    _, first = made(spark, write_config(root, "kept", more=FORMS["columns"]))
    assert not first.label_mature
    shutil.copytree(root, copy, dirs_exist_ok=True)
    return root, copy


@pytest.fixture
def night(nights: tuple[Path, Path]) -> Path:
    """The directory as the first run left it; the configuration is `kept.yaml`."""
    root, copy = nights
    shutil.rmtree(root)
    shutil.copytree(copy, root)
    return root


def full(spark: SparkSession, root: Path, more: str = FORMS["columns"]) -> list[bytes]:
    """The shards of a run that joins all, elsewhere."""
    return made(spark, write_config(root, "plain", more=more))[0]


def test_labels_become_final_without_a_look_at_views_and_with_the_bytes_of_a_full_run(
    spark: SparkSession, night: Path
) -> None:
    before = latest_manifest(open_storage(night / "kept"), DAY)
    assert before is not None
    write_log(night, NEXT)
    bytes_of_all = full(spark, night)
    for path in [*night.glob("users/*.json"), night / f"log/{DAY - timedelta(days=2)}.json", *night.glob("state/**/*.parquet")]:
        times = (path.stat().st_atime_ns, path.stat().st_mtime_ns)
        path.write_bytes(b"\x00" * path.stat().st_size)  # nobody may look into it
        os.utime(path, ns=times)
    shards, manifest = made(spark, night / "kept.yaml")
    assert shards == bytes_of_all
    assert manifest.plan == (TAKEN,)
    assert manifest.label_mature
    assert manifest.generation == 2
    flips = manifest.labels["clicked"]["flips"]
    assert (flips["flipped_to_1"], flips["flipped_to_0"], flips["new"], flips["gone"]) == (0, 0, 0, 0)
    assert manifest.labels["paid"]["flips"]["flipped_to_1"] > 0
