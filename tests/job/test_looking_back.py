"""Runs that look back: samples as of an earlier time, and from the inputs that an earlier generation was made from."""

from __future__ import annotations

import json
import random
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from jsonschema import validate
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ctr_samples.config import JobConfig, RowLabel, load_config
from ctr_samples.errors import InputError, UsageError
from ctr_samples.job import run as job
from ctr_samples.job.planning import LookBack
from ctr_samples.samples.builder import SampleBuilder
from ctr_samples.samples.inputs import sources
from ctr_samples.samples.inputs.databases import TableVersion, current_version
from ctr_samples.samples.period import Span
from tests.support.command_line import invoke
from tests.support.frames_as_inputs import inputs_of
from tests.support.literal_frames import Frame
from tests.support.open_bandit import TUESDAY, open_bandit
from tests.support.project import PROJECT
from tests.support.whole_runs import Made, made, write_config, write_rows

DAY = date(2019, 6, 5)
NOON = datetime(2019, 6, 5, 12, tzinfo=UTC)

CONFIG = """
name: back
timezone: UTC
sources:
  log: {format: parquet, path: log}
  profiles: {format: parquet, path: profiles}
  plans: {format: parquet, path: plans}
impressions: {source: log, where: "kind = 'shown'", time: at, user: user, article: item, dedup: 1m}
labels:
  clicked: {source: log, where: "kind = 'click'", window: 2h, skew: 1m}
  dwell: {source: log, where: "kind = 'click'", window: 1h, value: id, reduce: sum}
views:
  profile: {source: profiles, entity: user, key: user, event_time: at, available_time: loaded, ttl: unbounded}
  plan: {source: plans, entity: user, key: user, event_time: at, valid_to: until, closed_available: closed, ttl: unbounded}
  clicks:
    source: log
    where: kind = 'click'
    entity: article
    key: item
    event_time: at
    available_after: 7m
    aggregates: {windows: [3h], step: 10m, counts: {n: "true"}}
histories:
  recent: {source: log, where: "kind = 'click'", last: 3, within: 6h, available_after: 5m}
features:
  score: {from: profile.score, dtype: int64}
  plan: {from: plan.name, dtype: int64}
  clicks: {from: clicks.n_3h, dtype: int64}
  recent: {expr: "array_join(recent.items, ',')", dtype: string}
output: {path: out}
"""

Frames = dict[str, DataFrame]


def stamp(minutes: int | None) -> str | None:
    return None if minutes is None else (NOON + timedelta(minutes=minutes)).strftime("%Y-%m-%d %H:%M:%S")


@pytest.fixture
def frames(frame: Frame) -> Frames:
    """A log and two tables around noon, of which some rows became known late."""
    rng = random.Random(7)
    users, items = ["u1", "u2", "u3"], ["a", "b"]
    kinds = ["shown", "shown", "click"]
    log = [
        (n, rng.choice(users), rng.choice(items), rng.choice(kinds), stamp(rng.randrange(-300, 300)))
        for n in range(400)
    ]
    begun = [rng.randrange(-400, 300) for _ in range(120)]
    profiles = [(rng.choice(users), stamp(at), stamp(at + rng.randrange(90)), n) for n, at in enumerate(begun)]
    ends = [rng.choice([None, at + rng.randrange(1, 200)]) for at in begun]
    plans = [
        (rng.choice(users), stamp(at), stamp(end), stamp(end + rng.randrange(60)) if end is not None else None, n)
        for n, (at, end) in enumerate(zip(begun, ends, strict=True))
    ]
    return {
        "log": frame("id bigint, user string, item string, kind string, at timestamp", log),
        "profiles": frame("user string, at timestamp, loaded timestamp, score bigint", profiles),
        "plans": frame("user string, at timestamp, until timestamp, closed timestamp, name bigint", plans),
    }


@pytest.fixture
def config(tmp_path: Path) -> JobConfig:
    return load_config(write_config(tmp_path, "back", CONFIG)).config


def samples(config: JobConfig, frames: Frames, known_by: datetime | None = None) -> dict[int, Any]:
    day = Span.of(DAY, "UTC", known_by)
    inputs = inputs_of(config, day, frames)
    columns = ["impression_id", "clicked", "dwell", "dwell__mask", "score", "plan", "clicks", "recent"]
    rows = SampleBuilder(inputs).build().samples.rows(inputs.watches.tasks)
    return {row.impression_id: row for row in rows.select(columns).collect()}


@pytest.mark.slow
def test_samples_as_of_a_time_are_those_of_inputs_without_what_became_known_later(
    config: JobConfig, frames: Frames
) -> None:
    noon = F.lit(NOON)
    then = {
        "log": frames["log"].where(F.col("at") <= noon),
        "profiles": frames["profiles"].where(F.col("loaded") <= noon),
        "plans": frames["plans"]
        .where(F.col("at") <= noon)
        .withColumn("until", F.when(F.greatest("until", "closed") <= noon, F.col("until"))),
    }
    looked_back, now = samples(config, frames, NOON), samples(config, frames)
    assert looked_back == samples(config, then)
    assert len(looked_back) > 50
    assert len(now) > len(looked_back)
    assert any(now[i].clicked > row.clicked for i, row in looked_back.items()), "a click came after noon"


@pytest.mark.thorough
def test_what_a_row_says_later_is_not_yet_its_label(config: JobConfig, frames: Frames) -> None:
    label = RowLabel.model_validate({"expr": "id >= 0", "known_after": "1h"})
    labelled = config.model_copy(update={"labels": {**config.labels, "seen": label}})
    day = Span.of(DAY, "UTC", NOON)
    inputs = inputs_of(labelled, day, frames)
    shown = F.col("impression.impression_time")
    rows = (
        SampleBuilder(inputs).labelled_impressions().select("seen", F.date_format(shown, "HH:mm").alias("at")).collect()
    )
    assert {row.seen for row in rows if row.at <= "11:00"} == {1}
    assert {row.seen for row in rows if row.at > "11:00"} == {0}


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (("--date", "2019-06-05", "--known-by", "noon"), "`--known-by` is 'noon'; expected a time such as "),
        (("--from", DAY, "--to", DAY, "--as-of-generation", "1"), "`--as-of-generation` is for one `--date`"),
    ],
)
def test_a_time_of_the_command_line_must_be_one_and_a_generation_is_of_one_day(
    tmp_path: Path, more: tuple[object, ...], sentence: str
) -> None:
    done = invoke("generate", "--config", write_config(tmp_path, "back", CONFIG), *more)
    assert (done.exit_code, sentence in done.stderr) == (2, True)


def test_a_time_that_has_not_come_and_one_before_the_day_are_refused() -> None:
    day = Span.of(DAY, "UTC")
    with pytest.raises(UsageError, match="`--known-by` is 2019-06-05 17:30:00.05:30, which has not come yet"):
        LookBack(NOON).check_time(day, NOON - timedelta(seconds=1), "Asia/Kolkata")
    with pytest.raises(UsageError, match="17:30:00.05:30, when the day had not begun .2019-06-05 05:30:00.05:30"):
        LookBack(NOON - timedelta(days=1)).check_time(day, NOON, "Asia/Kolkata")
    LookBack(NOON).check_time(day, NOON, "Asia/Kolkata")


@pytest.mark.slow
def test_a_run_as_of_a_time_says_so_and_is_repeated_only_for_another_time(spark: SparkSession, tmp_path: Path) -> None:
    loaded, day = open_bandit(tmp_path), TUESDAY
    noon = datetime(2019, 11, 26, 12, tzinfo=UTC)
    first = job.run(spark, loaded, day, known_by=noon).manifest
    assert (first.known_by, first.label_mature) == ("2019-11-26T12:00:00+00:00", False)
    assert 300 < first.accounting["impressions"] < 1000
    validate(json.loads(first.to_json()), json.loads((PROJECT / "ctr_samples/shards/manifest.schema.json").read_text()))
    assert not job.run(spark, loaded, day, known_by=noon).published
    later = job.run(spark, loaded, day, known_by=noon + timedelta(days=1)).manifest
    assert (later.generation, later.label_mature, later.accounting["impressions"]) == (2, True, 1300)


LAKE = """
name: lake
timezone: UTC
sources: {log: {format: parquet, path: ROOT/log}, prices: {format: table, table: prices}}
impressions: {source: log, time: at, user: user, article: item}
labels: {clicked: {source: log, where: "false", window: 1m}}
views: {price: {source: prices, entity: article, key: item, static: true}}
features: {price: {from: price.price, dtype: int64}}
output: {path: ROOT/OUT, partitions: 1}
"""


@pytest.mark.slow
def test_a_table_is_read_in_the_version_that_the_manifest_names(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def written(name: str, price: int) -> None:
        spark.createDataFrame([("a", price)], "item string, price bigint").write.mode("overwrite").saveAsTable(name)

    for name, price in (("prices", 0), ("prices_1", 10), ("prices_2", 20)):
        written(name, price)
    log = {"user": "u", "item": "a", "at": datetime(2019, 6, 5, 10, tzinfo=UTC)}
    write_rows(tmp_path / "log/a.parquet", [log])
    loaded = load_config(write_config(tmp_path, "out", LAKE))
    monkeypatch.setattr(
        sources, "rows_of_version", lambda spark, table, version: spark.read.table(f"prices_{version.version}")
    )

    def run(version: int | None, **more: Any) -> Made:
        there = None if version is None else TableVersion("delta", str(version), "the-table")
        monkeypatch.setattr(sources, "current_version", lambda *_: there)
        return made(spark, loaded, DAY, accept=(), **more)

    try:
        first = run(1)
        assert first.manifest.inputs["prices"]["snapshot"] == {"format": "delta", "version": "1", "table": "the-table"}
        assert not run(1).published
        second = run(2)
        assert (second.manifest.generation, second.shards) != (1, first.shards)
        again = run(2, as_of_generation=1)
        assert (again.published, again.manifest.generation) == (True, 3)
        assert again.shards == first.shards
        assert again.manifest.fingerprint == first.manifest.fingerprint
        assert run(None).manifest.fingerprint == ""
        with pytest.raises(InputError, match="sources.prices cannot be read as generation 4 read it: it was a table"):
            run(2, as_of_generation=4)
        with pytest.raises(InputError, match="has no generation 9 of 2019-06-05; it has 1, 2, 3, 4. Choose one"):
            run(2, as_of_generation=9)
        write_rows(tmp_path / "log/b.parquet", [log])
        with pytest.raises(InputError, match="sources.log cannot be read as generation 1 read it: its files are "):
            run(2, as_of_generation=1)
    finally:
        for name in ("prices", "prices_1", "prices_2"):
            spark.sql(f"DROP TABLE IF EXISTS {name}")


def test_tables_of_other_formats_and_views_have_no_version(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE plain (Provider string) USING parquet")
    spark.sql("CREATE OR REPLACE TEMP VIEW looked_at AS SELECT 1 AS a")
    try:
        assert current_version(spark, "plain") is None
        assert current_version(spark, "looked_at") is None
    finally:
        spark.sql("DROP TABLE plain")
        spark.sql("DROP VIEW looked_at")
