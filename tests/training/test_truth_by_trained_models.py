"""Models trained on samples of simulated days are, on the next day, as good as the truth allows.

The truth of a click is the user's taste for the article, its quality, freshness, position and hour. A table carries taste and
quality, as a recommender's score of a pair would; freshness, position and hour are for the models to find, beside an id that
says nothing more. So the best possible AUC, that of the true probabilities on the same impressions, is within reach. It is an
estimate; its standard error is that of Hanley and McNeil (1982), formula 1: 0.004 with 6,000 clicks in 60,000 impressions. A
model has to come within one of it, and may by luck be above it by as much.

From ids alone no model comes so near: tastes are points of 32 dimensions, and a user has few impressions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from ctr_samples.config import load_config
from ctr_samples.job import run as job
from ctr_samples.simulator import SimulationSpec, simulate
from ctr_samples.simulator import click_probability as clicks
from ctr_samples.simulator.truth import best_auc
from ctr_samples.training.fit_options import FitOptions
from ctr_samples.training.fitting import fit
from ctr_samples.training.models import MODELS

pytestmark = pytest.mark.slow

DAYS = ("2019-06-05", "2019-06-06")
NEXT = "2019-06-07"
CONFIG = """
name: learnable
timezone: Asia/Shanghai
sources:
  actions:
    format: json
    path: ROOT/world/user_action/dt={date}
    schema: "actionTime STRING, param STRUCT<action: STRING, userId: STRING, articleId: STRING>"
    days_before: 1
    days_after: 1
    bad_records: {max_rate: 0.01}
  articles: {format: parquet, path: ROOT/world/article_profile}
  tastes: {format: parquet, path: ROOT/tastes.parquet}
impressions:
  {source: actions, where: param.action = 'exposure', time: actionTime, user: param.userId, article: param.articleId,
   explode: article, dedup: 30s}
labels:
  clicked: {source: actions, where: param.action = 'click', window: 30m}
views:
  article: {source: articles, entity: article, key: article_id, event_time: published_at, ttl: unbounded}
  taste:
    {source: tastes, entity: user_article, key: user_id, article_key: article_id, event_time: scored_at, ttl: unbounded}
features:
  taste: {from: taste.taste, dtype: float32}
  age_h:
    expr: (unix_micros(impression.impression_time) - unix_micros(article.published_at)) / 3.6e9
    dtype: float32
    boundaries: [3, 6, 12, 24, 36, 48, 72, 96, 144, 240]
    computed: model
  position: {from: impression.position, dtype: int64}
  hour: {from: impression.impression_time, date_part: hour, dtype: int64}
  channel: {from: article.channel_id, dtype: int64, hash_buckets: 100}
split: {eval: 0.1}
output: {path: ROOT/out, partitions: 2}
"""

Floats = npt.NDArray[np.float64]


class Truth(NamedTuple):
    """The impressions of a simulated day."""

    p_click: Floats
    clicked: npt.NDArray[np.bool_]

    @property
    def possible(self) -> float:
        """The best AUC that an honest model can have."""
        return best_auc(self.p_click, self.clicked)

    @property
    def standard_error(self) -> float:
        auc, clicks, others = self.possible, int(self.clicked.sum()), int((~self.clicked).sum())
        q1, q2 = auc / (2 - auc), 2 * auc**2 / (1 + auc)
        return math.sqrt(
            (auc * (1 - auc) + (clicks - 1) * (q1 - auc**2) + (others - 1) * (q2 - auc**2)) / (clicks * others)
        )


def truth_of(root: Path, day: str) -> dict[str, npt.NDArray[Any]]:
    """The first showings of a day, by column."""
    files = sorted((root / f"world/truth/dt={day}").glob("*.parquet"))
    table = pa.concat_tables([pq.ParquetFile(file).read() for file in files])
    table = table.filter(pa.compute.invert(table["repeat"]))
    return {name: table[name].to_numpy() for name in table.column_names}


def write_tastes(root: Path) -> None:
    """For each pair that was shown its true log-odds without what freshness, position and hour add to them."""
    profiles = [pq.ParquetFile(file).read() for file in sorted((root / "world/article_profile").glob("*.parquet"))]
    published = {row["article_id"]: row["published_at"].timestamp() for row in pa.concat_tables(profiles).to_pylist()}
    tastes: dict[tuple[int, int], float] = {}
    for day in (*DAYS, NEXT):
        shown = truth_of(root, day)
        at = shown["impression_time"].astype("datetime64[us]").astype(np.int64) / 1e6
        age = at - np.array([published[article] for article in shown["article_id"]])
        hour = (at + 8 * 3600) % 86400 / 3600
        taste = np.log(shown["p_click"] / (1 - shown["p_click"]))
        taste -= clicks.FRESHNESS * np.exp(-age / clicks.FRESH_FOR) - clicks.POSITION * shown["position"]
        taste -= clicks.EVENING * np.cos((hour - 21) * 2 * np.pi / 24)
        tastes.update(zip(zip(shown["user_id"], shown["article_id"], strict=True), taste, strict=True))
    table = pa.table(
        {
            "user_id": [user for user, _ in tastes],
            "article_id": [article for _, article in tastes],
            "scored_at": [datetime(2019, 6, 3, tzinfo=UTC)] * len(tastes),
            "taste": list(tastes.values()),
        }
    )
    pq.write_table(table, root / "tastes.parquet")


@pytest.fixture(scope="module")
def samples(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Samples of three simulated days."""
    root = tmp_path_factory.mktemp("learnable")
    simulate(SimulationSpec(days=4, impressions=60_000, seed=5), root / "world", force=True)
    write_tastes(root)
    (root / "c.yaml").write_text(CONFIG.replace("ROOT", str(root)))
    for day in (*DAYS, NEXT):
        job.run(spark, load_config(root / "c.yaml"), date.fromisoformat(day))
    return root


@pytest.fixture(scope="module")
def truth(samples: Path) -> Truth:
    shown = truth_of(samples, NEXT)
    in_time = np.nan_to_num(shown["click_delay_s"].astype(np.float64), nan=np.inf) <= 1800
    return Truth(shown["p_click"], shown["clicked"].astype(bool) & in_time)


@pytest.fixture(scope="module")
def scores(samples: Path) -> Mapping[str, Any]:
    """Of each model on the next day."""
    evaluations = {}
    for model in MODELS:
        options = FitOptions(samples=str(samples / "out"), days=DAYS, model=model, epochs=2, batch_size=512)
        report = fit(options)
        assert report is not None
        evaluations[model] = report.splits[NEXT]
    return evaluations


@pytest.mark.parametrize("model", MODELS)
def test_a_model_is_as_good_on_the_next_day_as_the_truth_allows(
    model: str, scores: Mapping[str, Any], truth: Truth
) -> None:
    evaluation = scores[model]
    assert (evaluation.samples, evaluation.positives) == (len(truth.clicked), truth.clicked.sum())
    summary = f"{model}: AUC {evaluation.auc:.4f}, {truth.possible:.4f} is possible; {evaluation}"
    assert truth.standard_error < 0.0045
    assert abs(evaluation.auc - truth.possible) < truth.standard_error, summary
    assert evaluation.beats_constant, summary
    assert 0.9 < evaluation.calibration < 1.1, summary
