"""Hours and whole logs: the samples are those of the days, and what is beside them follows."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from jsonschema import validate
from pyspark.sql import SparkSession

from ctr_samples.config import LoadedConfig, load_config
from ctr_samples.errors import InputError, UsageError
from ctr_samples.job import run as job
from ctr_samples.job.many_days import Backfill
from ctr_samples.periods import WHOLE, Hour, Period, periods_between
from ctr_samples.quality.metrics import Generation
from ctr_samples.readers.sample_set import open_samples
from ctr_samples.shards import check_directory, latest_manifest, open_storage, publish, published_days
from tests.support.command_line import invoke
from tests.support.manifests import manifest
from tests.support.project import PROJECT
from tests.support.whole_runs import Made, made, write_config, write_rows

TUESDAY, WEDNESDAY = date(2019, 6, 4), date(2019, 6, 5)

CONFIG = """
name: feed
timezone: UTC
sources:
  log:
    format: json
    path: ROOT/log/{date}.json
    days_before: 1
    days_after: 1
    schema: t string, kind string, user string, item string, price double
impressions:
  {source: log, where: kind = 'shown', time: t, user: user, article: item, columns: {price: price}, dedup: 10m}
labels:
  clicked: {source: log, where: kind = 'click', window: 1h}
views:
  item:
    source: log
    entity: article
    key: item
    event_time: t
    aggregates:
      windows: [3h]
      step: 1h
      counts: {clicks: kind = 'click'}
histories:
  lately: {source: log, where: kind = 'click', last: 3, within: 12h}
features:
  price: {from: impression.price, dtype: float32}
  clicks: {from: item.clicks_3h, dtype: int64}
  known: {from: item.matched, dtype: int64}
  items: {from: lately.items, dtype: string, ragged: true}
split: {eval: 0.3, by: user}
output: {path: ROOT/OUT, partitions: 1}
"""


def events() -> Iterator[dict[str, Any]]:
    """Four impressions an hour for five days, some repeated, some clicked, also in the next hour or on the next day."""
    for day in range(-2, 3):
        for n in range(96):
            at = datetime(2019, 6, 4) + timedelta(days=day, minutes=15 * n + 14)
            row = {"kind": "shown", "user": f"u{n % 7}", "item": f"i{n % 5}", "price": float(n)}
            yield {**row, "t": at}
            if n % 8 == 0:
                yield {**row, "t": at + timedelta(minutes=3)}
            if n % 3 == 0:
                yield {**row, "kind": "click", "t": at + timedelta(minutes=40)}


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root, every = tmp_path_factory.mktemp("feed"), list(events())
    for n in range(-2, 3):
        day = TUESDAY + timedelta(days=n)
        write_rows(root / f"log/{day}.json", [event for event in every if event["t"].date() == day])
    return write_config(root, "feed", CONFIG)


@pytest.fixture(scope="module")
def wednesday(spark: SparkSession, config: Path) -> Made:
    """The samples by the day."""
    return made(spark, config, WEDNESDAY, accept=())


def examples(day: Made) -> list[tuple[Any, ...]]:
    """All samples with all their columns and their split, by id."""
    return sorted((row["impression_id"], str(sorted(row.items()))) for row in day.samples)


def with_grain(config: Path, grain: str, output: Path, *more: str) -> LoadedConfig:
    """The configuration with another grain; of a whole log no days are read around its own."""
    days = ["sources.log.days_before=0", "sources.log.days_after=0"] if grain == "all" else []
    return load_config(config, [f"grain={grain}", f"output.path={output}", *days, *more])


@pytest.mark.slow
def test_the_samples_of_24_hours_are_those_of_the_day(spark: SparkSession, config: Path, wednesday: Made) -> None:
    output = config.with_name("by_the_hour")
    hours = periods_between(Hour(WEDNESDAY, 0), Hour(WEDNESDAY, 23), "UTC")
    outcomes = list(Backfill(spark, with_grain(config, "hour", output), hours, parallel=2).outcomes())
    assert [(str(outcome.day), outcome.became, outcome.error) for outcome in outcomes] == [
        (f"2019-06-05T{hour:02}", "published", None) for hour in range(24)
    ]
    of_hours = [Made(outcome.manifest, output) for outcome in outcomes if outcome.manifest is not None]
    assert sorted(row for hour in of_hours for row in examples(hour)) == examples(wednesday)
    day, manifests = wednesday.manifest, [hour.manifest for hour in of_hours]
    assert day.label_sum("clicked") > 20
    assert all(manifest.label_mature for manifest in manifests)
    for reason in ("impressions", "samples", "repeated"):
        assert sum(manifest.accounting[reason] for manifest in manifests) == day.accounting[reason]
    assert sum(manifest.labels["clicked"]["actions"] for manifest in manifests) == day.labels["clicked"]["actions"]
    assert published_days(open_storage(output)) == hours
    of_the_day = open_samples(str(output), date="2019-06-05", split="train")
    assert of_the_day.manifests == tuple(manifests)
    assert of_the_day.records == sum(shard.records for shard in day.of_split("train"))


@pytest.mark.slow
def test_the_samples_of_a_whole_log_are_those_of_its_days(
    spark: SparkSession, config: Path, wednesday: Made, tmp_path: Path
) -> None:
    loaded = with_grain(config, "all", tmp_path)
    whole = made(spark, loaded, WHOLE, accept=())
    manifest = whole.manifest
    found = (manifest.run_date, manifest.label_mature, manifest.accounting["impressions"])
    assert found == ("all", True, 5 * (96 + 12))
    days = dict(examples(wednesday))
    assert [row for row in examples(whole) if row[0] in days] == list(days.items())
    assert latest_manifest(open_storage(tmp_path), WHOLE) == manifest
    assert (tmp_path / "all/manifests/00000001.json").exists()
    assert open_samples(str(tmp_path), date="all", split="eval").manifests == (manifest,)
    again = job.run(spark, loaded, WHOLE)
    assert (again.published, again.manifest) == (False, manifest)


@pytest.mark.slow
def test_a_whole_log_is_split_at_an_instant(spark: SparkSession, config: Path, tmp_path: Path) -> None:
    by_time = "split={by: time, eval_from: '2019-06-05T12:00'}"
    whole = made(spark, with_grain(config, "all", tmp_path, by_time), WHOLE).manifest
    counts = {split: sum(shard.records for shard in whole.of_split(split)) for split in whole.splits}
    assert counts == {"train": 3 * 96 + 48, "eval": 48 + 96}


@pytest.fixture(scope="module")
def hourly(spark: SparkSession, config: Path) -> list[Made]:
    """The same hour of two days, by the command."""
    output = config.with_name("two_hours")
    for day in (TUESDAY, WEDNESDAY):
        changes = ("--set", "grain=hour", "--set", f"output.path={output}")
        done = invoke("generate", "--config", config, *changes, "--date", f"{day}T07")
        assert done.exit_code == 0, done.stderr
        assert done.stdout == f"{output}/dt={day}/hour=07/manifests/00000001.json\n"
    return [Made.newest(output, Hour(day, 7)) for day in (TUESDAY, WEDNESDAY)]


@pytest.mark.slow
def test_an_hour_is_compared_with_that_of_the_day_before_and_its_documents_follow_their_schemas(
    hourly: list[Made],
) -> None:
    first, second = (hour.metrics for hour in hourly)
    assert first.reference.previous_day is None
    assert second.reference.previous_day == Generation("2019-06-04T07", 1)
    checked = {finding.check for finding in second.checks}
    assert "volume" in checked
    assert not checked & {"hours", "silent_hours"}
    schemas, hour = PROJECT / "ctr_samples", hourly[1]
    validate(json.loads(hour.manifest.to_json()), json.loads((schemas / "shards/manifest.schema.json").read_text()))
    metrics = json.loads((hour.directory / "metrics.json").read_text())
    validate(metrics, json.loads((schemas / "quality/metrics.schema.json").read_text()))


@pytest.mark.slow
def test_every_command_takes_an_hour(hourly: list[Made]) -> None:
    output, (tuesday, wednesday) = hourly[0].output, (hour.manifest for hour in hourly)
    assert "feed 2019-06-05T07, generation 1" in invoke("verify", output).stderr
    assert "feed 2019-06-04T07, generation 1" in invoke("verify", output, "--date", "2019-06-04T07").stderr
    listed = invoke("paths", output, "--date", "2019-06-04T07").stdout.splitlines()
    assert listed == [f"{output}/{shard.path}" for shard in tuesday.shards]
    assert wednesday.run_id in invoke("history", output).stdout
    assert invoke("report", output).stdout.strip().endswith(f"hour=07/data/{wednesday.run_id}/report.html")
    prometheus = invoke("report", output, "--prometheus").stdout
    assert 'ctr_samples_run_date_timestamp_seconds{sample_set="feed"} 1559718000' in prometheus
    assert invoke("clean", output, "--dry-run").exit_code == 0
    status = [line.split() for line in invoke("status", output, "--to", "2019-06-04T08").stdout.splitlines()]
    assert [(line[0], line[-1]) for line in status if line and line[0].startswith("2019")] == [
        ("2019-06-04T07", "published"),
        ("2019-06-04T08", "missing"),
    ]


def test_a_run_of_another_grain_is_refused(spark: SparkSession, config: Path) -> None:
    with pytest.raises(UsageError, match="but the configuration has `grain: day`"):
        job.run(spark, load_config(config), Hour(WEDNESDAY, 7))


def test_hours_are_not_put_beside_a_day(spark: SparkSession, config: Path, tmp_path: Path) -> None:
    publish(open_storage(tmp_path), manifest(name="feed", run_date=str(WEDNESDAY)))
    with pytest.raises(InputError, match="of a sample set with another `grain` than that of 2019-06-05T07"):
        job.run(spark, with_grain(config, "hour", tmp_path), Hour(WEDNESDAY, 7))


@pytest.mark.parametrize(("first", "second"), [(WHOLE, WEDNESDAY), (WEDNESDAY, WHOLE), (WHOLE, Hour(WEDNESDAY, 7))])
def test_a_whole_log_and_its_days_are_not_put_into_one_directory(tmp_path: Path, first: Period, second: Period) -> None:
    storage = open_storage(tmp_path)
    publish(storage, manifest(run_date=str(first)))
    with pytest.raises(InputError, match=f"of a sample set with another `grain` than that of {second}"):
        check_directory(storage, second)


@pytest.mark.slow
def test_a_day_is_not_put_beside_its_hours(spark: SparkSession, config: Path, hourly: list[Made]) -> None:
    with pytest.raises(InputError, match="holds hour=07, which ctr-samples did not write"):
        job.run(spark, load_config(config, [f"output.path={hourly[0].output}"]), WEDNESDAY)


REQUESTS = """
name: requests
timezone: Asia/Kathmandu
grain: GRAIN
sources:
  log:
    format: json
    path: ROOT/log/PATH
    DAYS
    schema: t string, kind string, request string, user string, item string, price double
impressions:
  source: log
  where: kind = 'shown'
  time: t
  keys: {user: user, item: item}
  request: request
  columns: {price: price}
  DEDUP
labels: {clicked: LABEL}
features:
  price: {from: impression.price, dtype: float32}
  day: {expr: day(impression.impression_time), dtype: int64}
output: {path: ROOT/OUT, partitions: 1}
"""
OPEN_HOURS = (0, 1, 2, 3, 21, 22, 23)


def write_requests(root: Path) -> None:
    """Requests that show an item again after minutes or hours, also on the next day; some lines have no request."""
    chance, lines = random.Random(3), defaultdict(list)
    for day in (TUESDAY, WEDNESDAY, WEDNESDAY + timedelta(days=1)):
        for _ in range(60):
            at = datetime(day.year, day.month, day.day, chance.choice(OPEN_HOURS), chance.randrange(60))
            row = {"request": chance.choice([f"r{chance.randrange(9)}", f"r{chance.randrange(9)}", None])}
            row |= {"user": f"u{chance.randrange(2)}", "item": f"i{chance.randrange(2)}"}
            kinds = chance.choice([["shown"], ["shown", "shown"], ["shown", "click"]])
            for n, kind in enumerate(kinds):
                moment = at + timedelta(minutes=n * chance.choice([0, 7, 25]))
                lines[moment].append(row | {"kind": kind, "t": moment, "price": float(chance.randrange(50))})
    for moment, rows in lines.items():
        write_rows(root / f"log/{moment:%F}/{moment:%H}/{moment:%M}.json", rows)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("label", "dedup"),
    [("{source: log, where: kind = 'click', window: 40m}", ""), ("{expr: price > 20}", "dedup: 20m")],
)
def test_what_a_request_shows_again_is_a_repeat_alike_by_hours_by_days_and_in_the_whole_log(
    spark: SparkSession, tmp_path: Path, label: str, dedup: str
) -> None:
    write_requests(tmp_path)
    days, found = "days_before: 1\n    days_after: 1", {}
    for grain, path, around, periods in (
        ("hour", "{date}/{hour}", days, [Hour(WEDNESDAY, hour) for hour in OPEN_HOURS]),
        ("day", "{date}", days, [WEDNESDAY]),
        ("all", "{date}", "", [WHOLE]),
    ):
        texts = {"GRAIN": grain, "PATH": path, "DAYS": around, "DEDUP": dedup, "LABEL": label}
        config = write_config(tmp_path, grain, REQUESTS, texts)
        found[grain] = sorted(row for period in periods for row in examples(made(spark, config, period)))
    assert len(found["day"]) > 20
    assert found["hour"] == found["day"]
    assert [row for row in found["all"] if f"('day', {WEDNESDAY.day})" in row[1]] == found["day"]
