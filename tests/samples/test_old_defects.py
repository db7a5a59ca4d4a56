"""What the system that this one replaces got wrong, shown beside what is right: in each test first the old way, in a few lines.

Its other defects are cases of the rules that they broke: reading times as text, and readings taken for clicks, in
``test_label_values.py``; the smallest weights, samples of another length and ids out of range in ``test_feature_kinds.py``;
text of logs that is run in ``test_columns.py``; days that are arithmetic in ``test_periods.py``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ctr_samples.config import Feature, LoadedConfig, load_config
from ctr_samples.contract import ExampleContract
from ctr_samples.job import run as job
from ctr_samples.readers import load_dataset
from ctr_samples.records.read import first_examples
from ctr_samples.samples.features.one_feature import feature_column
from ctr_samples.shards import Manifest, open_storage

pytestmark = pytest.mark.slow

Frame = Callable[..., DataFrame]
DAY = date(2019, 6, 5)
TEN = pd.Timestamp("2019-06-05 10:00:00", tz="UTC")


def minutes(number: float) -> pd.Timestamp:
    """So many minutes after ten o'clock."""
    return TEN + pd.Timedelta(minutes=number)


# One day of a small feed. User 3 has no profile and article 30 no vector; user 1 clicks, and the profile is updated.
SHOWN: dict[str, list[Any]] = {
    "at": [TEN, TEN, TEN],
    "user": [1, 2, 3],
    "article": [10, 30, 10],
    "action": ["exposure"] * 3,
}
CLICKS: dict[str, list[Any]] = {"at": [minutes(5)], "user": [1], "article": [10], "action": ["click"]}
PROFILES: dict[str, list[Any]] = {
    "user": [1, 1, 2],
    "at": [minutes(-60), minutes(10), minutes(-60)],
    "weights": [{"18:spark": 1.0, "18:hive": 0.25}, {"18:spark": 6.0, "18:hive": 0.25}, {"18:spark": 2.0}],
}
VECTORS = {"article": [10], "at": [minutes(-600)], "channel": [25], "vector": [[0.5, -0.5]]}

CONFIG = """
name: feed
timezone: UTC
sources:
  log: {format: parquet, path: ROOT/log.parquet}
  profiles: {format: parquet, path: ROOT/profiles.parquet}
  vectors: {format: parquet, path: ROOT/vectors.parquet}
impressions: {source: log, where: "action = 'exposure'", time: at, user: user, article: article}
labels:
  clicked: {source: log, where: "action = 'click'", window: 30m}
views:
  profile: {source: profiles, entity: user, key: user, event_time: at, ttl: 30d}
  vector: {source: vectors, entity: article, key: article, event_time: at, ttl: 30d}
features:
  user: {from: impression.user, dtype: int64}
  channel: {from: vector.channel, dtype: int64}
  vector: {from: vector.vector, dtype: float32, shape: [2]}
  user_weights: {from: profile.weights, dtype: float32, shape: [3], top_k: 3}
  known: {expr: cast(profile.matched as int) + 2 * cast(vector.matched as int), dtype: int64}
split: {eval: 0.0}
output: {path: ROOT/out, partitions: 3}
"""


def loaded(root: Path, *overrides: str) -> LoadedConfig:
    (root / "c.yaml").write_text(CONFIG.replace("ROOT", str(root)))
    return load_config(root / "c.yaml", overrides)


@pytest.fixture(scope="module")
def feed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Manifest, dict[int, Any]]:
    """The day, its manifest, and its samples by user."""
    root = tmp_path_factory.mktemp("feed")
    log = {name: [*SHOWN[name], *CLICKS[name]] for name in SHOWN}
    maps = pa.map_(pa.string(), pa.float64())
    profiles = {**PROFILES, "weights": pa.array([list(weights.items()) for weights in PROFILES["weights"]], maps)}
    for name, columns in {"log": log, "profiles": profiles, "vectors": VECTORS}.items():
        pq.write_table(pa.table(columns), root / f"{name}.parquet", coerce_timestamps="us")
    manifest = job.run(spark, loaded(root), DAY).manifest
    contract = ExampleContract.from_dict(dict(manifest.contract))
    rows = first_examples(open_storage(root / "out"), manifest.shards, contract, 10)
    return root, manifest, {row["user"]: row for row in rows}


def test_a_sample_does_not_see_the_profile_that_its_own_click_changed(
    feed: tuple[Path, Manifest, dict[int, Any]],
) -> None:
    current = pd.DataFrame(PROFILES).sort_values("at").groupby("user").last()
    old = pd.DataFrame(SHOWN).merge(current, on="user", how="left", suffixes=("", "_profile"))
    assert old.weights[0]["18:spark"] == 6.0, "the click of 10:05 is in the features of 10:00"
    _, _, samples = feed
    assert samples[1]["clicked"] == 1
    assert samples[1]["user_weights"] == [1.0, 0.25, 0.0]


def test_cold_users_and_articles_without_a_vector_stay(feed: tuple[Path, Manifest, dict[int, Any]]) -> None:
    shown, profiles = pd.DataFrame(SHOWN), pd.DataFrame(PROFILES).groupby("user").last()
    both = shown.merge(profiles, on="user", how="left", suffixes=("", "_p"))
    old = both.merge(pd.DataFrame(VECTORS), on="article", how="left", suffixes=("", "_v")).dropna()
    assert old.user.tolist() == [1], "two of three impressions are silently gone"
    _, manifest, samples = feed
    assert manifest.accounting == {"impressions": 3, "samples": 3, "no_time": 0, "no_article": 0, "repeated": 0}
    assert {user: (row["known"], row["vector"]) for user, row in samples.items()} == {
        1: (3, [0.5, -0.5]),
        2: (1, [0.0, 0.0]),
        3: (2, [0.5, -0.5]),
    }


def test_features_have_one_order_in_the_contract_the_manifest_and_the_reader(
    feed: tuple[Path, Manifest, dict[int, Any]],
) -> None:
    written = ["channel", "vector", "user_weights"]
    trained = ["channel", "user_weights", "vector"]
    values = {"channel": [25.0], "vector": [0.5, -0.5], "user_weights": [1.0, 0.25, 0.0]}
    raw = [value for name in written for value in values[name]]
    sizes = {name: len(value) for name, value in values.items()}
    starts = {name: sum(sizes[other] for other in trained[: trained.index(name)]) for name in trained}
    old = {name: raw[starts[name] :][: sizes[name]] for name in trained}
    assert old["user_weights"] == [0.5, -0.5, 1.0], "the article's vector, taken for the user's weights"
    root, manifest, _ = feed
    order = ["user", "channel", "vector", "user_weights", "known"]
    contract = ExampleContract.from_dict(json.loads(manifest.to_json())["contract"])
    assert contract.names("feature") == order == list(loaded(root).config.features)
    features, _ = next(iter(load_dataset(str(root / "out"), date="2019-06-05", split="train", batch_size=3)))
    assert list(features) == order
    mine = features["user"].numpy().tolist().index(1)
    assert {name: features[name].numpy()[mine].tolist() for name in values} == {**values, "channel": 25}


def test_a_topic_counts_for_its_own_article_only(frame: Frame) -> None:
    keywords = [(10, {"spark": 0.9, "hive": 0.1}), (11, {"spark": 0.2})]
    topics = [(10, ["spark"]), (11, ["spark"])]
    flat = [(article, word, weight) for article, words in keywords for word, weight in words.items()]
    old = [(a, w, weight) for a, found in topics for w in found for _, word, weight in flat if w == word]
    assert old == [(10, "spark", 0.9), (10, "spark", 0.2), (11, "spark", 0.9), (11, "spark", 0.2)], "twice the rows"
    # Keywords and topics of one article are one row of a view, so that no join by word can mix articles.
    rows = frame(
        "article struct<id: int, keywords: map<string, double>, topics: array<string>>",
        [((a, words, found),) for (a, words), (_, found) in zip(keywords, topics, strict=True)],
    )
    text = "aggregate(transform(article.topics, t -> article.keywords[t]), 0D, (sum, w) -> sum + coalesce(w, 0D))"
    own = Feature.model_validate({"expr": text, "dtype": "float32"})
    found = rows.select("article.id", feature_column(rows, "topics", own).alias("weight")).orderBy("id").collect()
    assert [tuple(row) for row in found] == [(10, 0.9), (11, 0.2)]


def test_samples_are_written_by_tasks_and_never_gathered_on_the_driver(
    feed: tuple[Path, Manifest, dict[int, Any]], spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = spark.range(1000).withColumn("feature", F.array(F.lit(0.5)))
    old = rows.toPandas()  # all rows in one process, which then writes one file
    assert len(old) == 1000
    root, manifest, _ = feed
    assert sorted({shard.partition for shard in manifest.shards}) <= [0, 1, 2]
    assert len({shard.partition for shard in manifest.shards}) > 1, "several tasks wrote"
    monkeypatch.setattr(type(rows), "toPandas", refused)
    collected: list[list[str]] = []
    monkeypatch.setattr(type(rows), "collect", watched(type(rows).collect, collected))
    again = job.run(spark, loaded(root, f"output.path={tmp_path}"), DAY).manifest
    assert again.records == 3
    assert collected, "the receipts of the tasks are gathered"
    features = {"channel", "vector", "user_weights"}
    assert all(not features & set(columns) for columns in collected), collected


def refused(*_: object) -> None:
    pytest.fail("rows were gathered on the driver")


def watched(collect: Any, seen: list[list[str]]) -> Any:
    """``DataFrame.collect`` that notes the columns that it brings."""

    def noting(frame: DataFrame) -> Any:
        seen.append(frame.columns)
        return collect(frame)

    return noting
