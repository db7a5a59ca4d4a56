"""Nights with long windows: from all logs that the windows reach, and from what was kept of finished days."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import date, timedelta
from hashlib import sha256
from pathlib import Path

from pyspark.sql import SparkSession

from ctr_samples.config import load_config
from ctr_samples.job.many_days import Backfill
from ctr_samples.job.run import run
from ctr_samples.quality.checks import CHECKS
from ctr_samples.shards import FeaturesFrom, open_storage
from ctr_samples.shards.partials import kept_days
from tests.benchmarks.simulated_days import FIRST, simulated
from tests.support.figures import Figures, at_most, size

NIGHTS = size("STATE_NIGHTS", 3, quick=1)

CONFIG = """
name: windows
timezone: Asia/Shanghai
sources:
  log:
    format: json
    path: LOGS/user_action/dt={date}
    schema: >-
      actionTime STRING, readTime STRING, channelId INT,
      param STRUCT<action: STRING, userId: STRING, articleId: STRING, algorithmCombine: STRING>
    days_before: BEFORE
    days_after: 1
    bad_records: {max_rate: 0.01}
impressions:
  source: log
  where: param.action = 'exposure'
  time: actionTime
  user: param.userId
  article: param.articleId
  explode: article
  dedup: 30s
labels:
  clicked: {source: log, where: param.action = 'click', window: 30m}
views:
  article:
    source: log
    entity: article
    key: param.articleId
    where: param.action in ('click', 'read', 'collect')
    event_time: actionTime
    available_after: 5m
    aggregates:
      windows: [WINDOW]
      counts: {clicks: param.action = 'click', all: 'true'}
      distinct: {users: param.userId}
  user:
    source: log
    entity: user
    key: param.userId
    where: param.action in ('click', 'read', 'collect')
    event_time: actionTime
    aggregates:
      windows: [WINDOW]
      counts: {clicks: param.action = 'click'}
      sums: {read_ms: try_cast(readTime as bigint)}
histories:
  recent: {source: log, where: param.action = 'click', user: param.userId, item: param.articleId, last: 10, within: WINDOW}
features:
  recent: {from: recent.items, dtype: int64, shape: [10], hash_buckets: 10000}
  clicks: {from: article.clicks_WINDOW, dtype: int64}
  all: {from: article.all_WINDOW, dtype: int64}
  users: {from: article.users_WINDOW, dtype: int64}
  own_clicks: {from: user.clicks_WINDOW, dtype: int64}
  own_read_ms: {from: user.read_ms_WINDOW, dtype: float32}
output: {path: OUT, partitions: 2}
"""


class _Nights:
    """Runs of a configuration with windows of so many days, with what is kept or without."""

    def __init__(self, spark: SparkSession, logs: Path, place: Path, days: int, *, kept: bool) -> None:
        self._spark, self.out, self.partials = spark, place / "out", place / "partials"
        text = CONFIG.replace("LOGS", str(logs)).replace("OUT", str(self.out)).replace("WINDOW", f"{days}d")
        text = text.replace("BEFORE", str(days + 1)) + (f"partials: {{path: {self.partials}}}\n" if kept else "")
        place.mkdir(parents=True)
        (place / "c.yaml").write_text(text)
        self._loaded = load_config(place / "c.yaml")

    def seconds(self, day: date, *, force: bool = True) -> float:
        """How long a night takes."""
        start = time.monotonic()
        self.result = run(self._spark, self._loaded, day, force=force, accept=CHECKS)
        return time.monotonic() - start

    def backfill(self, days: Sequence[date]) -> float:
        """How long many days by one command take."""
        start = time.monotonic()
        outcomes = list(Backfill(self._spark, self._loaded, days, accept=CHECKS).outcomes())
        assert [outcome.became for outcome in outcomes] == ["published"] * len(days)
        return time.monotonic() - start

    def shards(self, day: date) -> list[str]:
        """Hashes of the shards of a day."""
        return sorted(sha256(file.read_bytes()).hexdigest() for file in self.out.glob(f"dt={day}/data/*/*/*.tfrecord"))


def test_a_night_costs_the_same_however_long_its_windows_are(
    figures: Figures, spark: SparkSession, tmp_path: Path
) -> None:
    logs = simulated(tmp_path / "logs", 33 + NIGHTS)
    nights = [FIRST + timedelta(days=32 + n) for n in range(NIGHTS)]
    one_day = None
    for days in (1, 7, 30):
        plain = _Nights(spark, logs, tmp_path / f"plain{days}", days, kept=False)
        kept = _Nights(spark, logs, tmp_path / f"kept{days}", days, kept=True)
        first = kept.seconds(nights[0] - timedelta(days=1))
        both = [(plain.seconds(night), kept.seconds(night)) for night in nights]
        assert [plain.shards(night) for night in nights] == [kept.shards(night) for night in nights]
        one_day = one_day or [a for a, _ in both]
        what = f"a night with windows of {days} day(s)"
        figures.add(f"{what}, from the logs", [a for a, _ in both], "s")
        figures.add(f"{what}, first run, all days counted", [first], "s")
        figures.add(f"{what}, from what is kept", [b for _, b in both], "s")
        ratios = [b / a for (_, b), a in zip(both, one_day, strict=True)]
        figures.add(f"{what}, from what is kept, time vs. one day", ratios, "x", at_most(1.3) if days == 30 else None)
    log = sum(file.stat().st_size for file in (logs / f"user_action/dt={nights[0]}").iterdir())
    for view in ("article", "user"):
        sizes = [day.bytes / log for day in kept_days(open_storage(str(kept.partials))) if day.view == view]
        figures.add(f"what is kept of a day for the view {view}, size vs. its log", sizes, "x", at_most(0.1))


BACKFILLED = size("STATE_BACKFILLED", 30, quick=2)
"""Days that are made by one command."""


def test_a_backfill_reads_each_log_once(figures: Figures, spark: SparkSession, tmp_path: Path) -> None:
    days = [FIRST + timedelta(days=32 + n) for n in range(BACKFILLED)]
    logs = simulated(tmp_path / "logs", 33 + BACKFILLED)
    alone = _Nights(spark, logs, tmp_path / "alone", 1, kept=False)
    nights = [alone.seconds(day) for day in days]
    backfill = _Nights(spark, logs, tmp_path / "backfill", 30, kept=True).backfill(days)
    what = f"{BACKFILLED} days with windows of 30 days by one command"
    figures.add(what, [backfill], "s")
    figures.add(f"{what}, time vs. as many nights with windows of a day", [backfill / sum(nights)], "x", at_most(3))


def test_a_run_that_makes_labels_final_joins_only_labels(figures: Figures, spark: SparkSession, tmp_path: Path) -> None:
    logs = simulated(tmp_path / "logs", 33 + NIGHTS)
    plain = _Nights(spark, logs, tmp_path / "plain", 30, kept=False)
    kept = _Nights(spark, logs, tmp_path / "kept", 30, kept=True)
    kept.seconds(FIRST + timedelta(days=31))  # makes what is kept of all days
    both = []
    for night in (FIRST + timedelta(days=32 + n) for n in range(NIGHTS)):
        later, away = logs / f"user_action/dt={night + timedelta(days=1)}", tmp_path / "not yet there"
        later.rename(away)
        kept.seconds(night)
        away.rename(later)
        final = kept.seconds(night, force=False)
        assert kept.result.manifest.features_from == FeaturesFrom(1)
        shards = [(shard.records, shard.crc32c) for shard in kept.result.manifest.shards]
        both.append((final, kept.seconds(night), plain.seconds(night)))
        for joined in (kept, plain):
            assert [(shard.records, shard.crc32c) for shard in joined.result.manifest.shards] == shards
    what = "a run that makes labels final, with windows of 30 days"
    final, anew, from_logs = zip(*both, strict=True)
    figures.add(f"{what}, all joined from the logs", from_logs, "s")
    figures.add(f"{what}, all joined from what is kept", anew, "s")
    figures.add(f"{what}, only labels joined", final, "s")
    figures.add(f"{what}, time vs. all joined from what is kept", [a / b for a, b, _ in both], "x", at_most(0.6))
    figures.add(f"{what}, time vs. all joined from the logs", [a / c for a, _, c in both], "x", at_most(0.4))
