"""Clocks: numbers with the wrong unit are refused with the right function, and local times with what we do on odd days."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ctr_samples.config import JobConfig, LoadedConfig, load_config
from ctr_samples.errors import InputError
from ctr_samples.job import run as job
from ctr_samples.samples.inputs.clocks import Use, clocks_of, is_early, is_late, of_interest
from ctr_samples.samples.inputs.watched import Inputs
from ctr_samples.samples.period import Span
from ctr_samples.samples.watches.all import Watches
from ctr_samples.samples.watches.times import ClockCounts, ClocksByDay, check_clocks, clock_counts, counts_of_view
from ctr_samples.sparksql.columns import time_column
from ctr_samples.sparksql.expressions import MALFORMED
from ctr_samples.sparksql.session import run_session
from tests.support.literal_frames import Frame, literal
from tests.support.whole_runs import write_rows

DAY = Span.of(date(2019, 6, 5), "UTC")
TEN = 1_559_728_800
"""Seconds from 1970 to 2019-06-05 10:00 UTC."""

CONFIG = """
name: clocks
timezone: UTC
sources:
  log: {format: parquet, path: LOG}
  table: {format: parquet, path: TABLE}
  past: {format: parquet, path: SEEN}
impressions: {source: log, where: kind = 's', time: "TIME", user: who, article: what}
labels: {clicked: {source: log, where: kind = 'c', window: 1m}}
views:
  profile: {source: table, entity: user, key: who, event_time: "EVENT", available_time: "KNOWN", ttl: 30d}
histories:
  recent: {source: past, time: "PAST", user: who, item: what, last: 3, within: 2d}
features:
  city: {from: profile.city, dtype: string}
  recent: {from: recent.length, dtype: int64}
output: {path: OUT, partitions: 1}
"""
RIGHT = {"TIME": "timestamp_millis(t)", "EVENT": "timestamp_millis(at)", "KNOWN": "timestamp_millis(known)"}
RIGHT["PAST"] = "timestamp_millis(t)"


def loaded(root: Path, **texts: str) -> LoadedConfig:
    text = CONFIG
    files = {"LOG": "log.parquet", "SEEN": "log.parquet", "TABLE": "table.parquet", "OUT": "out"}
    places = {name: str(root / file) for name, file in files.items()}
    for name, value in {**RIGHT, **places, **texts}.items():
        text = text.replace(name, value)
    (root / "clocks.yaml").write_text(text)
    return load_config(root / "clocks.yaml")


MILLIS = TEN * 1000


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    """Two impressions, a click and a profile, with times in milliseconds, in seconds and in microseconds."""
    millis = [MILLIS, MILLIS + 60_000, MILLIS + 70_000]
    log = {"kind": ["s", "s", "c"], "t": millis, "who": ["a", "b", "b"], "what": [1, 2, 2]}
    log |= {"seconds": [t // 1000 for t in millis], "micros": [t * 1000 for t in millis]}
    known = [MILLIS - 500_000, MILLIS - 400_000]
    table = {"who": ["a", "b"], "at": [MILLIS - 600_000] * 2, "known": known, "city": ["Lund", "Ume"]}
    pq.write_table(pa.table(log), tmp_path / "log.parquet")
    pq.write_table(pa.table(table), tmp_path / "table.parquet")
    return tmp_path


@pytest.mark.slow
def test_a_run_with_a_wrong_unit_is_refused_with_the_right_function_and_nothing_is_said_against_the_right_one(
    spark: SparkSession, inputs: Path
) -> None:
    in_1970, in_51395 = "of {} times lie in 1970; did", "of {} times lie in years such as 51,395"
    for wrong, said in (
        ({"TIME": "timestamp_micros(t)"}, f"impressions.time: 2 {in_1970.format(2)}"),
        ({"KNOWN": "timestamp_seconds(known)"}, f"views.profile.available_time: 2 {in_51395.format(2)}"),
        ({"PAST": "timestamp_micros(t)"}, f"histories.recent.time: 3 {in_1970.format(3)}"),
    ):
        with pytest.raises(InputError) as caught:
            job.run(spark, loaded(inputs, **wrong), date(2019, 6, 5))
        assert str(caught.value).startswith(said)
    assert not list(inputs.glob("out/**/manifests/*"))
    manifest = job.run(spark, loaded(inputs), date(2019, 6, 5)).manifest
    assert (manifest.records, manifest.label_sum("clicked")) == (2, 1)
    profile = {key: manifest.views["profile"][key] for key in ("matched", "unusable", "implausible")}
    assert profile == {"matched": 2, "unusable": 0, "implausible": 0}


def counts_of(frame: DataFrame, *uses: tuple[JobConfig, str, Any]) -> list[ClocksByDay]:
    """The counts of the clocks of sources with equal rows, as runs of several configurations would take them, by one query."""
    watches = [Watches.of(config, DAY) for config, *_ in uses]
    for one, (config, source, use) in zip(watches, uses, strict=True):
        clocks = clocks_of(config, DAY, source, use, frame)
        frame = one.observed.on(frame, {"clocks": clock_counts(clocks)})
    frame.collect()
    return [one.clocks() for one in watches]


def refused(config: JobConfig, counts: ClocksByDay) -> str:
    with pytest.raises(InputError) as caught:
        check_clocks(config, counts)
    return str(caught.value)


MAGNITUDES = {
    "timestamp_millis(seconds)": "1970; did you mean timestamp_seconds(seconds)?",
    "timestamp_micros(seconds)": "1970; did you mean timestamp_seconds(seconds)?",
    "timestamp_micros(t)": "1970; did you mean timestamp_millis(t)?",
    "timestamp_seconds(t)": "years such as 51,395; did you mean timestamp_millis(t)?",
    "timestamp_millis(micros)": "years such as 51,395; did you mean timestamp_micros(micros)?",
    "cast(t as timestamp)": "years such as 51,395; did you mean timestamp_millis(t)?",
    "timestamp_millis(t div 1000)": "1970; did you mean timestamp_seconds(t div 1000)?",
    "coalesce(timestamp_micros(t), timestamp_micros(micros))": (
        "1970: the numbers behind coalesce(timestamp_micros(t), timestamp_micros(micros)) were read in the wrong unit, "
        "1,000 times too small."
    ),
    "timestamp_seconds(seconds * 10)": "years such as 2464. Correct the expression or, if only those rows are wrong, raise "
    "`sources.log.bad_records.max_rate` (0).",
}


def test_the_right_function_is_found_by_magnitude(spark: SparkSession, inputs: Path) -> None:
    log = spark.read.parquet(str(inputs / "log.parquet"))
    configs = [loaded(inputs, TIME=text).config for text in MAGNITUDES]
    found = counts_of(log, *[(config, "log", "impressions") for config in configs])
    for config, counts, said in zip(configs, found, MAGNITUDES.values(), strict=True):
        assert said in refused(config, counts)


def test_actions_histories_and_both_clocks_of_a_view_are_looked_at_too(frame: Frame, tmp_path: Path) -> None:
    log = frame("kind string, t bigint, who string, what int", [("c", MILLIS, "a", 1), ("s", 5, "a", 1)])
    right, wrong = (loaded(tmp_path, **texts).config for texts in ({}, {"TIME": "timestamp_micros(t)"}))
    histories = {
        # A history may have a time of its own, or that of the log of impressions.
        "past": ({}, {"time": "timestamp_seconds(t)", "user": "who", "item": "what"}),
        "log": ({"TIME": "timestamp_micros(t)"}, {}),
    }
    with_histories = []
    for source, (texts, keys) in histories.items():
        history = {"source": source, "where": "kind = 'c'", "last": 3, "within": "2d", **keys}
        dumped = loaded(tmp_path, **texts).config.model_dump(by_alias=True)
        with_histories.append(JobConfig.model_validate({**dumped, "histories": {"recent": history}}))
    of_right, of_wrong, *of_histories = counts_of(
        log,
        (right, "log", "labels"),
        (wrong, "log", "labels"),
        *[(config, source, "histories") for config, source in zip(with_histories, histories, strict=True)],
    )
    assert of_right == {"labels.clicked.time": {None: ClockCounts(rows=1)}}
    assert "labels.clicked.time: 1 of 1 times lie in 1970; did you mean timestamp_millis" in refused(wrong, of_wrong)
    own, inherited = map(refused, with_histories, of_histories)
    said = "histories.recent.time: 1 of 1 times lie in "
    assert own.startswith(f"{said}years such as 51,395; did you mean timestamp_millis(t)?")
    assert inherited.startswith(f"{said}1970; did you mean timestamp_millis(t)?")
    rows = [("a", MILLIS, MILLIS), ("b", MILLIS, 0), ("c", MILLIS * 1000, MILLIS), ("d", MILLIS, MILLIS)]
    of_table, *_ = counts_of(frame("who string, at bigint, known bigint", rows), (right, "table", "views"))
    assert counts_of_view(of_table, "profile") == {"unusable": 0, "implausible": 2}
    assert "views.profile.event_time: 1 of 4 times lie in years such as 51,395" in refused(right, of_table)


def test_of_actions_those_are_read_that_can_count_and_those_whose_times_cannot_be_right(
    frame: Frame, tmp_path: Path
) -> None:
    counted_hourly = {"step": "1m", "windows": ["1h"], "counts": {"n": "true"}}
    clicks = {"source": "log", "entity": "user", "key": "who", "event_time": "t", "aggregates": counted_hourly}
    text = loaded(tmp_path, TIME="t").config.model_dump(by_alias=True)
    text |= {"views": {"clicks": clicks}, "histories": {"recent": {"source": "log", "last": 3, "within": "2h"}}}
    config = JobConfig.model_validate(text)
    times = {
        "1970-01-01 00:00:01": {"views", "histories"},
        "1980-01-01 00:00:00": set[str](),
        "2019-06-04 21:59:59.999": set[str](),
        "2019-06-04 22:00:00": {"histories"},
        "2019-06-04 22:58:59.999": {"histories"},
        "2019-06-04 22:59:00": {"views", "histories"},  # the hour before midnight, and the step that is running
        "2019-06-05 23:59:59.999": {"views", "histories"},
        "2019-06-06 00:00:00": set[str](),
        "2300-01-01 00:00:00": {"views", "histories"},
        None: {"views", "histories"},
    }
    log = frame("kind string, t timestamp, who string, what int", [("c", at, "a", i) for i, at in enumerate(times)])
    uses: tuple[Use, ...] = ("views", "histories")
    conditions = [of_interest(clocks_of(config, DAY, "log", use, log)).alias(use) for use in uses]
    found = {row.what: {use for use in uses if row[use]} for row in log.select("what", *conditions).collect()}
    assert found == dict(enumerate(times.values()))


def test_malformed_lines_and_keys_of_two_are_looked_at_as_they_are_used(frame: Frame, tmp_path: Path) -> None:
    text = loaded(tmp_path).config.model_dump(by_alias=True)
    pair = {"source": "table", "entity": "user_article", "key": "who", "article_key": "what", "event_time": "at"}
    config = JobConfig.model_validate({**text, "views": {"profile": {**pair, "ttl": "1d"}}})
    rows = [("a", 1, None, None), (None, None, None, "{torn"), ("a", None, "2019-06-05 10:00:00", None)]
    table = frame(f"who string, what int, at timestamp, {MALFORMED} string", rows)
    counts = counts_of(table, (config, "table", "views"))[0]["views.profile.event_time"][None]
    assert (counts.rows, counts.unusable) == (2, 2), (
        "the malformed line is no row, and one without an article has no key"
    )


def test_as_many_bad_times_and_rows_pass_as_the_source_may_have_bad_records(frame: Frame, tmp_path: Path) -> None:
    unusable = [("a", MILLIS, MILLIS), (None, MILLIS, MILLIS), ("c", None, MILLIS), ("d", MILLIS, None)]
    implausible = [("a", MILLIS, MILLIS)] * 4
    for rows, most, said in (
        (
            unusable,
            0.6,
            "views.profile: 3 of 5 rows have no key or no time, more than `bad_records.max_rate: 0.59` of sources.table "
            "allows. Leave them out with `where`, or raise the rate.",
        ),
        (implausible, 0.2, "views.profile.event_time: 1 of 5 times lie in 1970"),
    ):
        table = frame("who string, at bigint, known bigint", [*rows, ("e", 0, MILLIS)])
        allowed, less = (
            loaded(tmp_path, TABLE=f"x, bad_records: {{max_rate: {rate:g}}}").config for rate in (most, most - 0.01)
        )
        of_allowed, of_less = counts_of(table, (allowed, "table", "views"), (less, "table", "views"))
        check_clocks(allowed, of_allowed)  # a rate includes its end
        bad = sum(None in row for row in rows)
        assert counts_of_view(of_allowed, "profile") == {"unusable": bad, "implausible": 1}
        assert refused(less, of_less).startswith(said)


def test_a_view_whose_times_cannot_be_read_is_refused_with_one_of_them(frame: Frame, tmp_path: Path) -> None:
    text = loaded(tmp_path).config.model_dump(by_alias=True)
    profile = {"source": "table", "entity": "user", "key": "who", "event_time": "at", "ttl": "1d"}
    config = JobConfig.model_validate({**text, "views": {"profile": profile}})
    table = frame("who string, at string", [("a", "14/03/2024 10:00"), ("b", "15/03/2024 10:00")])
    (counts,) = counts_of(table, (config, "table", "views"))
    with pytest.raises(InputError) as caught:
        check_clocks(config, counts, lambda _: table)
    assert str(caught.value).endswith(
        "or raise the rate. views.profile.event_time: at is '14/03/2024 10:00', for example; expected text such as "
        "'2019-06-05 10:00:00', or an expression that reads it, such as to_timestamp(at, 'dd/MM/yyyy HH:mm')."
    )


def test_the_edges_of_what_is_plausible(frame: Frame, tmp_path: Path) -> None:
    edges = {"1900-01-01": 0, "1969-12-31 23:59:59.999999": 0, "1970-01-01": 1, "1971-12-31 23:59:59.999999": 1}
    edges |= {"1972-01-01": 0, "2199-12-31 23:59:59.999999": 0, "2200-01-01": 1, "9999-12-31": 1}
    log = frame("kind string, t timestamp, who string, what int", [("s", at, "a", i) for i, at in enumerate(edges)])
    clock, *_ = clocks_of(loaded(tmp_path, TIME="t").config, DAY, "log", "impressions", log)
    found = log.select("what", (is_early(clock.time) | is_late(clock.time)).cast("int")).orderBy("what").collect()
    assert [row[1] for row in found] == list(edges.values())


def test_only_files_that_matter_are_read_though_times_are_looked_at(spark: SparkSession, tmp_path: Path) -> None:
    for day in range(1, 10):
        write_rows(tmp_path / f"table.parquet/ds=2019-06-{day:02}/x.parquet", [{"who": "a", "city": "x"}])
    config = loaded(tmp_path, EVENT="cast(ds as timestamp)", KNOWN="cast(ds as timestamp)").config
    read = spark.read.parquet(str(tmp_path / "table.parquet"))
    config = config.model_copy(
        update={"views": {"profile": config.views["profile"].model_copy(update={"ttl": DAY.end - DAY.start})}}
    )
    looked = read.where(of_interest(clocks_of(config, DAY, "table", "views", read)))
    plan = looked._jdf.queryExecution().executedPlan().toString()
    assert "PartitionFilters: [" in plan
    assert "PartitionFilters: []" not in plan
    assert sorted(f"{r.ds:%d}" for r in looked.collect()) == ["04", "05"]


STOCKHOLM = "Europe/Stockholm"


def test_local_times_of_odd_days_are_read_as_documented(spark: SparkSession) -> None:
    session = run_session(spark, STOCKHOLM)
    # In 2019 the clocks went from 02:00 to 03:00 on March 31 and from 03:00 back to 02:00 on October 27.
    texts = {
        "2019-03-31 01:59:59": "2019-03-31 00:59:59",
        "2019-03-31 02:30:00": "2019-03-31 01:30:00",  # was skipped: an hour later, 03:30
        "2019-03-31 03:30:00": "2019-03-31 01:30:00",
        "2019-10-27 01:59:59": "2019-10-26 23:59:59",
        "2019-10-27 02:30:00": "2019-10-27 00:30:00",  # came twice: the first one
        "2019-10-27 02:30:00+01:00": "2019-10-27 01:30:00",  # the second one, by its offset
        "2019-10-27T02:30:00Z": "2019-10-27 02:30:00",
        "2019-06-05 12:00:00 Asia/Shanghai": "2019-06-05 04:00:00",
        "2019-06-05 12:00:00.5 -03:30": "2019-06-05 15:30:00.5",
        "2019-06-05 12:00": "2019-06-05 10:00:00",
        "05.06.2019 12:00": None,
    }
    rows = literal(session, [(i, text) for i, text in enumerate(texts)], "i int, at string")
    found = rows.select(F.unix_micros(time_column(rows, "at", "here"))).orderBy("i").collect()
    utc = [text and datetime.fromisoformat(f"{text}+00:00") for text in texts.values()]
    assert [row[0] for row in found] == [time and int(time.timestamp() * 1_000_000) for time in utc]


def test_times_are_passed_on_to_the_files_of_impressions_and_actions(spark: SparkSession, tmp_path: Path) -> None:
    row = {"kind": ["s"], "t": pa.array([MILLIS], pa.timestamp("ms", "UTC")), "who": ["a"], "what": [1]}
    pq.write_table(pa.table(row), tmp_path / "log.parquet")
    pq.write_table(
        pa.table({"who": ["a"], "at": [MILLIS], "known": [MILLIS], "city": ["x"]}), tmp_path / "table.parquet"
    )
    read = Inputs.read(spark, loaded(tmp_path, TIME="t", PAST="t").config, date(2019, 6, 5))
    plan = read.watched("log", "impressions", "labels")._jdf.queryExecution().executedPlan().toString()
    assert "PushedFilters: [Or(" in plan, plan
