"""Samples tell the truth: scores in them are as good as the truth allows, and those of a join that knows the future are better.

Logs are simulated, so the probability of each click is known, and with it the best AUC that any honest score can have. A table
of scores carries the true log-odds: a row for each user and article a minute before the impression, and one a minute after a
click, which has raised it, as clicks raise the scores of a recommender. The scores in the samples must have the AUC of the
truth. The latest scores, as a join on the key alone takes them, have one that is impossible without knowing the future.
"""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from ctr_samples.simulator import SimulationSpec, simulate
from ctr_samples.simulator.truth import best_auc
from tests.support.auc import standard_error
from tests.support.whole_runs import made, write_config

DAY = date(2019, 6, 5)
CONFIG = """
name: truth
timezone: Asia/Shanghai
sources:
  actions:
    format: json
    path: ROOT/world/user_action/dt={date}
    schema: "actionTime STRING, param STRUCT<action: STRING, userId: STRING, articleId: STRING>"
    days_before: 1
    days_after: 1
    bad_records: {max_rate: 0.01}
  scores: {format: parquet, path: ROOT/scores.parquet}
impressions:
  {source: actions, where: param.action = 'exposure', time: actionTime, user: param.userId, article: param.articleId,
   explode: article, dedup: 30s}
labels:
  clicked: {source: actions, where: param.action = 'click', window: 30m}
views:
  scores: {source: scores, entity: user_article, key: user_id, article_key: article_id, event_time: scored_at, ttl: 1h}
features:
  score: {from: scores.score, dtype: float32}
output: {path: ROOT/out, partitions: 2}
"""


def scores_of(row: dict[str, Any]) -> list[tuple[datetime, float]]:
    """The true log-odds of an impression, a minute before it, and what a click makes of them, a minute after that."""
    odds, minute = math.log(row["p_click"] / (1 - row["p_click"])), timedelta(minutes=1)
    scores = [(row["impression_time"] - minute, odds)]
    if row["clicked"]:
        scores.append((row["impression_time"] + timedelta(seconds=row["click_delay_s"]) + minute, odds + 5.0))
    return scores


@pytest.mark.slow
def test_scores_in_samples_are_as_good_as_the_truth_allows_and_the_latest_scores_are_impossibly_good(
    spark: SparkSession, tmp_path: Path
) -> None:
    simulate(SimulationSpec(days=2, impressions=8_000, users=800, seed=11), tmp_path / "world", force=True)
    files = sorted(tmp_path.glob(f"world/truth/dt={DAY}/*.parquet"))
    shown = [row for row in pq.ParquetDataset(files).read().to_pylist() if not row["repeat"]]
    scores = [
        {"user_id": row["user_id"], "article_id": row["article_id"], "scored_at": at, "score": score}
        for row in shown
        for at, score in scores_of(row)
    ]
    pq.write_table(pa.Table.from_pylist(scores), tmp_path / "scores.parquet")
    samples = made(spark, write_config(tmp_path, "truth", CONFIG), DAY).samples

    clicked = np.array([row["clicked"] and row["click_delay_s"] <= 1800 for row in shown], np.bool_)
    assert (len(samples), sum(sample["clicked"] for sample in samples)) == (len(shown), clicked.sum())
    possible = best_auc([row["p_click"] for row in shown], clicked)
    found = best_auc([sample["score"] for sample in samples], [sample["clicked"] for sample in samples])
    assert found == pytest.approx(possible, abs=1e-6)

    latest = {(row["user_id"], row["article_id"]): row for row in sorted(scores, key=lambda row: row["scored_at"])}
    leaked = best_auc([latest[row["user_id"], row["article_id"]]["score"] for row in shown], clicked)
    error = standard_error(possible, int(clicked.sum()), int((~clicked).sum()))
    assert leaked > possible + 3 * error, f"{leaked:.3f} by the latest score, {possible:.3f} is possible"
