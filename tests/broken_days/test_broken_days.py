"""For each way in which a night goes wrong: the gate refuses it, by the check that names it, and publishes nothing."""

from __future__ import annotations

import os
import shutil
from datetime import date, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ctr_samples.config import LoadedConfig, load_config
from ctr_samples.errors import GateRefused
from ctr_samples.job import run as job
from ctr_samples.shards import latest_manifest, open_storage
from ctr_samples.simulator import SimulationSpec, simulate
from ctr_samples.simulator.nights import WAYS, spoil

BEFORE, DAY, AFTER = date(2019, 6, 5), date(2019, 6, 6), date(2019, 6, 7)
CLEAN_DAYS = int(os.environ.get("CTR_SAMPLES_CLEAN_DAYS", "5"))

CHECK_OF = {
    "half_of_the_clicks_missing": "rate",
    "no_clicks_at_all": "one_class",
    "clicks_of_the_evening_come_too_late": "silent_hours",
    "clicks_of_other_users": "orphans",
    "two_thirds_of_the_impressions_missing": "volume",
    "three_hours_of_the_log_lost": "silent_hours",
    "log_files_delivered_twice": "dropped",
    "times_in_utc": "hours",
    "one_user_in_place_of_the_missing": "heavy_user",
    "algorithm_knows_the_click": "leak",
    "a_new_algorithm_takes_over": "values",
    "read_times_in_seconds": "rate",
    "profiles_of_yesterday_again": "age",
    "vectors_of_yesterday_again": "age",
    "vectors_of_zeros": "missing",
    "vectors_of_nan": "nonfinite",
    "vectors_of_another_model": "distribution",
    "ages_all_missing": "constant",
    "ages_in_months": "distribution",
    "weights_in_thousandths": "scale",
    "everyone_is_male": "values",
    "half_of_the_profiles_missing": "matched",
    "articles_of_the_wrong_keys": "matched",
    "channels_shifted_by_one": "stability",
    "publication_in_milliseconds_taken_for_seconds": "distribution",
}
"""Each way, and the check that has to find it."""

CONFIG = """
name: feed
timezone: Asia/Shanghai
sources:
  actions:
    format: json
    path: ROOT/user_action/dt={date}
    schema: >-
      actionTime STRING, readTime STRING,
      param STRUCT<action: STRING, userId: STRING, articleId: STRING, algorithmCombine: STRING>
    days_before: 1
    days_after: 1
    bad_records: {max_rate: 0.01}
  profiles: {format: parquet, path: "ROOT/user_profile/dt={date}", days_before: 5}
  vectors: {format: parquet, path: "ROOT/article_vector/dt={date}", days_before: 3}
  articles: {format: parquet, path: ROOT/article_profile}
impressions:
  {source: actions, where: param.action = 'exposure', time: actionTime, user: param.userId, article: param.articleId,
   explode: article, dedup: 30s, columns: {algorithm: param.algorithmCombine}}
labels:
  clicked: {source: actions, where: param.action = 'click', window: 30m}
  read_ms: {source: actions, where: param.action = 'read', window: 2h, value: readTime, reduce: sum}
views:
  user: {source: profiles, entity: user, key: user_id, event_time: updated_at, available_after: 10m, ttl: 5d}
  vector: {source: vectors, entity: article, key: article_id, event_time: trained_at, available_after: 30m, ttl: 3d}
  article: {source: articles, entity: article, key: article_id, event_time: published_at, ttl: unbounded}
features:
  channel: {from: article.channel_id, dtype: int64}
  position: {from: impression.position, dtype: int64}
  algorithm: {from: impression.algorithm, dtype: int64, hash_buckets: 64}
  gender: {expr: case user.gender when 'male' then 1 when 'female' then 2 else 0 end, dtype: int64}
  age: {from: user.age, dtype: float32}
  user_weights: {from: user.article_partial, dtype: float32, shape: [5], top_k: 5}
  article_age_h:
    expr: (unix_micros(impression.impression_time) - unix_micros(article.published_at)) / 3.6e9
    dtype: float32
  article_vector: {from: vector.articlevector, dtype: float32, shape: [100]}
split: {eval: 0.1, by: user}
output: {path: OUT, partitions: 2}
"""


def config_of(root: Path, out: Path) -> LoadedConfig:
    """The sample set of logs under ``root``, published to ``out``."""
    place = root / "feed.yaml"
    place.write_text(CONFIG.replace("ROOT", str(root)).replace("OUT", str(out)))
    return load_config(place)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two weeks of logs."""
    root = tmp_path_factory.mktemp("logs")
    simulate(SimulationSpec(start=date(2019, 5, 26), days=14, impressions=12_000, seed=11), root)
    return root


@pytest.fixture(scope="module")
def published(spark: SparkSession, logs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the same weekday a week ago and the day before are published."""
    out = tmp_path_factory.mktemp("samples")
    for day in (BEFORE, DAY - timedelta(weeks=1)):  # neither has a day before it to be compared with
        result = job.run(spark, config_of(logs, out), day)
        assert result.manifest.quality["verdict"] == "passed"
    return out


def broken(logs: Path, published: Path, tmp_path: Path, way: str) -> tuple[LoadedConfig, Path]:
    """The sample set of logs of which a day went wrong, and its output with the day before."""
    root, out = tmp_path / "logs", tmp_path / "samples"
    shutil.copytree(logs, root)
    shutil.copytree(published, out)
    spoil(root, DAY, way)
    return config_of(root, out), out


def test_each_way_has_its_check() -> None:
    assert CHECK_OF.keys() == WAYS.keys()


@pytest.mark.parametrize(("way", "check"), CHECK_OF.items())
def test_a_broken_day_is_refused(
    spark: SparkSession, logs: Path, published: Path, tmp_path: Path, way: str, check: str
) -> None:
    loaded, out = broken(logs, published, tmp_path, way)
    with pytest.raises(GateRefused) as refusal:
        job.run(spark, loaded, DAY)
    assert f"--accept {check}" in str(refusal.value), str(refusal.value)
    assert latest_manifest(open_storage(out), DAY) is None


def test_the_clean_day_passes(spark: SparkSession, logs: Path, published: Path, tmp_path: Path) -> None:
    out = tmp_path / "samples"
    shutil.copytree(published, out)
    result = job.run(spark, config_of(logs, out), DAY)
    assert result.manifest.quality == {"verdict": "passed", "found": [], "accepted": []}


def test_the_clean_day_after_a_refused_one_passes(
    spark: SparkSession, logs: Path, published: Path, tmp_path: Path
) -> None:
    loaded, out = broken(logs, published, tmp_path, "half_of_the_clicks_missing")
    with pytest.raises(GateRefused):
        job.run(spark, loaded, DAY)
    result = job.run(spark, config_of(logs, out), AFTER)
    assert result.manifest.quality == {"verdict": "passed", "found": [], "accepted": []}


def test_a_broken_day_is_published_when_it_is_accepted(
    spark: SparkSession, logs: Path, published: Path, tmp_path: Path
) -> None:
    loaded, _ = broken(logs, published, tmp_path, "half_of_the_clicks_missing")
    result = job.run(spark, loaded, DAY, accept=["rate"])
    assert result.manifest.quality["verdict"] == "warned"
    assert result.manifest.quality["accepted"] == ["rate"]


def test_clean_days_pass_one_after_the_other(spark: SparkSession, tmp_path: Path) -> None:
    """CTR_SAMPLES_CLEAN_DAYS says how many."""
    root, first = tmp_path / "logs", date(2019, 6, 5)
    simulate(SimulationSpec(start=first - timedelta(days=3), days=CLEAN_DAYS + 4, impressions=12_000, seed=5), root)
    loaded = config_of(root, tmp_path / "samples")
    alarms = []
    for n in range(CLEAN_DAYS):
        result = job.run(spark, loaded, first + timedelta(days=n))
        alarms += [(result.manifest.run_date, found["sentence"]) for found in result.manifest.quality["found"]]
    assert alarms == []
