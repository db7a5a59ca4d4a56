"""Samples tell the truth: a model trained on them is as good as the truth allows, and one that knows the future is better.

Logs are simulated, so the probability of each click is known, and with it the best AUC that any honest model can have. A table
of scores carries the true log-odds: a row for each user and article a minute before the impression, and one a minute after a
click, which has raised it, as clicks raise the scores of a recommender. Logistic regressions are scored on impressions that
they have not seen:

- on the samples of a run, with the scores: as good as the truth allows;
- on the samples without them: as good as the same columns made by plain Python and fitted to the true probabilities, which is
  what profile, position, hour and age can tell at most;
- with the latest profile and score instead of those at the impression, as a join on the key alone takes them: better than the
  truth allows, which is impossible without knowing the future.

An AUC is an estimate. Its standard error is that of Hanley and McNeil (1982), *The meaning and use of the area under a ROC
curve*: 0.010 with about 800 clicks in 8,000 impressions. Three of them are the band. With the scores it is one: the best AUC is
measured on the same impressions, so that their luck is the same on both sides, and there is next to nothing to fit.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from ctr_samples.config import load_config
from ctr_samples.contract import ExampleContract
from ctr_samples.job import run as job
from ctr_samples.records.read import first_examples
from ctr_samples.shards import open_storage
from ctr_samples.simulator import SimulationSpec, simulate
from ctr_samples.simulator.truth import best_auc

pytestmark = pytest.mark.slow

DAY = date(2019, 6, 5)
KNOWN_AFTER = timedelta(minutes=10)
COLUMNS = ("affinity", "known", "position", "hour", "age_h", "score")

CONFIG = """
name: truth
timezone: Asia/Shanghai
sources:
  actions:
    format: json
    path: ROOT/user_action/dt={date}
    schema: "actionTime STRING, param STRUCT<action: STRING, userId: STRING, articleId: STRING>"
    days_before: 1
    days_after: 1
    bad_records: {max_rate: 0.01}
  profiles: {format: parquet, path: "ROOT/user_profile/dt={date}", days_before: 7}
  articles: {format: parquet, path: ROOT/article_profile}
  scores: {format: parquet, path: ROOT/scores.parquet}
impressions:
  {source: actions, where: param.action = 'exposure', time: actionTime, user: param.userId, article: param.articleId,
   explode: article, dedup: 30s}
labels:
  clicked: {source: actions, where: param.action = 'click', window: 30m}
views:
  user: {source: profiles, entity: user, key: user_id, event_time: updated_at, available_after: 10m, ttl: 7d}
  article: {source: articles, entity: article, key: article_id, event_time: published_at, ttl: unbounded}
  scores: {source: scores, entity: user_article, key: user_id, article_key: article_id, event_time: scored_at, ttl: 1h}
features:
  affinity:
    expr: >-
      aggregate(
        transform(article.topics, t -> coalesce(user.article_partial[concat(cast(article.channel_id as string), ':', t)], 0D)),
        0D, (sum, w) -> sum + w)
    dtype: float32
  known: {from: user.matched, dtype: int64}
  position: {from: impression.position, dtype: int64}
  hour: {expr: hour(impression.impression_time), dtype: int64}
  age_h: {expr: (unix_micros(impression.impression_time) - unix_micros(article.published_at)) / 3.6e9, dtype: float32}
  score: {from: scores.score, dtype: float32}
split: {eval: 0.5}
output: {path: ROOT/out, partitions: 2}
"""

Floats = npt.NDArray[np.float64]
Profile = tuple[datetime, dict[str, float]]


class World(NamedTuple):
    """A simulated day: where it is, the impressions that were shown on it, and the tables that plain Python reads."""

    root: Path
    shown: list[dict[str, Any]]
    profiles: dict[int, list[Profile]]
    articles: dict[int, dict[str, Any]]
    scores: dict[tuple[int, int], list[tuple[datetime, float]]]


def rows(root: Path, pattern: str) -> list[dict[str, Any]]:
    return [row for file in sorted(root.glob(pattern)) for row in pq.ParquetFile(file).read().to_pylist()]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    root = tmp_path_factory.mktemp("truth")
    simulate(SimulationSpec(days=2, impressions=8_000, users=800, seed=11), root / "world", force=True)
    root = root / "world"
    profiles: dict[int, list[Profile]] = {}
    for row in rows(root, "user_profile/*/*.parquet"):
        profiles.setdefault(row["user_id"], []).append((row["updated_at"], dict(row["article_partial"])))
    for history in profiles.values():
        history.sort(key=lambda profile: profile[0])
    shown = [row for row in rows(root, f"truth/dt={DAY}/*.parquet") if not row["repeat"]]
    articles = {row["article_id"]: row for row in rows(root, "article_profile/*.parquet")}
    scores: dict[tuple[int, int], list[tuple[datetime, float]]] = {}
    for row in shown:
        scores.setdefault((row["user_id"], row["article_id"]), []).extend(scores_of(row))
    flat = [(user, article, at, score) for (user, article), found in scores.items() for at, score in found]
    names = ("user_id", "article_id", "scored_at", "score")
    table = pa.table({name: list(values) for name, values in zip(names, zip(*flat, strict=True), strict=True)})
    pq.write_table(table, root / "scores.parquet")
    return World(root, shown, profiles, articles, {pair: sorted(found) for pair, found in scores.items()})


def scores_of(row: dict[str, Any]) -> list[tuple[datetime, float]]:
    """The true log-odds of an impression, a minute before it, and what a click makes of them, a minute after that."""
    odds, minute = math.log(row["p_click"] / (1 - row["p_click"])), timedelta(minutes=1)
    scores = [(row["impression_time"] - minute, odds)]
    if row["clicked"]:
        scores.append((row["impression_time"] + timedelta(seconds=row["click_delay_s"]) + minute, odds + 5.0))
    return scores


def labels_of(world: World) -> Floats:
    return np.array([row["clicked"] and row["click_delay_s"] <= 1800 for row in world.shown], np.float64)


def columns_of(world: World, *, current: bool) -> Floats:
    """The columns of ``COLUMNS`` from the tables, with the profile that was known at each impression or the latest one."""
    made = []
    for row in world.shown:
        at, article = row["impression_time"], world.articles[row["article_id"]]
        history = world.profiles.get(row["user_id"], [])
        seen = len(history) if current else bisect_right(history, at - KNOWN_AFTER, key=lambda profile: profile[0])
        profile = history[seen - 1][1] if seen else {}
        affinity = sum(profile.get(f"{article['channel_id']}:{topic}", 0.0) for topic in article["topics"])
        hour = (at.astimezone(UTC) + timedelta(hours=8)).hour
        age_h = (at - article["published_at"]) / timedelta(hours=1)
        scores = [score for when, score in world.scores[row["user_id"], row["article_id"]] if current or when < at]
        made.append((affinity, bool(seen), row["position"], hour, age_h, scores[-1]))
    return np.array(made, np.float64)


def terms(columns: Floats) -> Floats:
    """What a logistic regression can weigh: logarithms of what is skewed, the hour as a point of a circle."""
    affinity, known, position, hour, age_h, *score = columns.T
    angle = hour * (2 * np.pi / 24)
    parts = [
        np.log1p(affinity),
        affinity > 0,
        known,
        position,
        np.cos(angle),
        np.sin(angle),
        np.exp(-age_h / 48),
        *score,
    ]
    table = np.stack(parts, axis=1).astype(np.float64)
    spread = table.std(axis=0)
    scaled = (table - table.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return np.column_stack([np.ones(len(table)), scaled])


def fitted(x: Floats, y: Floats) -> Floats:
    """The weights of a logistic regression by Newton's method; ``y`` may be labels or probabilities."""
    weights = np.zeros(x.shape[1])
    for _ in range(12):
        p = 1 / (1 + np.exp(-x @ weights))
        curvature = (x * (p * (1 - p))[:, None]).T @ x + 1e-3 * np.eye(len(weights))
        weights += np.linalg.solve(curvature, x.T @ (y - p) - 1e-3 * weights)
    return weights


def auc_of_model(columns: Floats, target: Floats, labels: Floats) -> float:
    """The AUC of a model that is fitted to ``target`` on every second impression and scored on the others, both ways."""
    x, even = terms(columns), np.arange(len(labels)) % 2 == 0
    scores = np.empty(len(labels))
    for train in (even, ~even):
        scores[~train] = x[~train] @ fitted(x[train], target[train])
    return best_auc(scores, labels > 0)


def standard_error(auc: float, labels: Floats) -> float:
    """Of an AUC, by Hanley and McNeil (1982), formula 1."""
    clicks, others = labels.sum(), (1 - labels).sum()
    q1, q2 = auc / (2 - auc), 2 * auc**2 / (1 + auc)
    return math.sqrt(
        (auc * (1 - auc) + (clicks - 1) * (q1 - auc**2) + (others - 1) * (q2 - auc**2)) / (clicks * others)
    )


def test_a_model_on_samples_is_as_good_as_the_truth_allows_and_one_on_current_profiles_is_impossibly_good(
    spark: SparkSession, world: World
) -> None:
    (world.root / "c.yaml").write_text(CONFIG.replace("ROOT", str(world.root)))
    manifest = job.run(spark, load_config(world.root / "c.yaml"), DAY).manifest
    contract = ExampleContract.from_dict(dict(manifest.contract))
    samples = first_examples(open_storage(world.root / "out"), manifest.shards, contract, 10**6)
    columns = np.array([[sample[name] for name in COLUMNS] for sample in samples], np.float64)
    found = np.array([sample["clicked"] for sample in samples], np.float64)

    true = labels_of(world)
    p_click = np.array([row["p_click"] for row in world.shown])
    assert (len(found), found.sum()) == (len(true), true.sum())
    possible = best_auc(p_click, true > 0)
    error = standard_error(possible, true)
    assert error < 0.011
    with_score = auc_of_model(columns, found, found)
    assert abs(with_score - possible) < error, f"{with_score:.3f} on samples, {possible:.3f} is possible"

    without_score = auc_of_model(columns[:, :-1], found, found)
    at_most = auc_of_model(columns_of(world, current=False)[:, :-1], p_click, true)
    assert 0.5 + 3 * error < at_most < possible - 3 * error
    assert abs(without_score - at_most) < 3 * error, (
        f"{without_score:.3f} on samples, {at_most:.3f} on the same columns"
    )

    current = columns_of(world, current=True)
    for name, leaking in (("profile", current[:, :-1]), ("score", current)):
        leaked = auc_of_model(leaking, true, true)
        assert leaked > possible + 3 * error, f"{leaked:.3f} by the current {name}, {possible:.3f} is possible"
