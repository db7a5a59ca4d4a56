"""Hours and whole logs: the samples are those of the days, and what is beside them follows."""

from __future__ import annotations

import json
import random
import re
from collections import defaultdict
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from jsonschema import validate
from pyspark.sql import SparkSession

from ctr_samples.config import load_config
from ctr_samples.contract import ExampleContract
from ctr_samples.errors import InputError, UsageError
from ctr_samples.job import run as job
from ctr_samples.job.gate import read_metrics
from ctr_samples.job.many_days import Backfill
from ctr_samples.periods import WHOLE, Hour, Period, periods_between, span_of
from ctr_samples.quality.checks import CHECKS
from ctr_samples.quality.metrics import Generation
from ctr_samples.readers.sample_set import open_samples
from ctr_samples.records.read import first_examples
from ctr_samples.shards import Manifest, check_directory, latest_manifest, open_storage, publish, published_days
from tests.support.command_line import invoke
from tests.support.manifests import manifest
from tests.support.project import PROJECT

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
output: {path: ROOT/out, partitions: 1}
"""


def write_log(root: Path, days: Sequence[date]) -> Path:
    """Four impressions an hour, some repeated, some clicked, also in the next hour or on the next day."""
    (root / "log").mkdir(parents=True, exist_ok=True)
    lines: dict[date, list[dict[str, object]]] = {day: [] for day in days}
    for day in days:
        for n in range(96):
            at = datetime(day.year, day.month, day.day) + timedelta(minutes=15 * n + 14)
            row = {"kind": "shown", "user": f"u{n % 7}", "item": f"i{n % 5}", "price": float(n)}
            events = [{**row, "t": at}]
            events += [{**row, "t": at + timedelta(minutes=3)}] if n % 8 == 0 else []
            events += [{**row, "kind": "click", "t": at + timedelta(minutes=40)}] if n % 3 == 0 else []
            for event in events:
                moment = event["t"]
                assert isinstance(moment, datetime)
                if moment.date() in lines:
                    lines[moment.date()].append({**event, "t": f"{moment:%F %T}"})
    for day, rows in lines.items():
        (root / f"log/{day}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    path = root / "feed.yaml"
    path.write_text(CONFIG.replace("ROOT", str(root)))
    return path


def examples(output: Path, manifest: Manifest) -> list[tuple[Any, ...]]:
    """All samples with all their columns and their split, by id."""
    contract, storage = ExampleContract.from_dict(dict(manifest.contract)), open_storage(output)
    return sorted(
        (row["impression_id"], split, str(sorted(row.items())))
        for split in manifest.splits
        for row in first_examples(storage, manifest.of_split(split), contract, 10**6)
    )


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    days = [TUESDAY + timedelta(days=n) for n in range(-2, 3)]
    return write_log(tmp_path_factory.mktemp("feed"), days)


@pytest.fixture(scope="module")
def wednesday(spark: SparkSession, config: Path) -> Manifest:
    """The samples by the day."""
    return job.run(spark, load_config(config), WEDNESDAY).manifest


@pytest.mark.slow
def test_the_samples_of_24_hours_are_those_of_the_day(spark: SparkSession, config: Path, wednesday: Manifest) -> None:
    output = config.with_name("by_the_hour")
    loaded = load_config(config, ["grain=hour", f"output.path={output}"])
    hours = periods_between(Hour(WEDNESDAY, 0), Hour(WEDNESDAY, 23), "UTC")
    outcomes = list(Backfill(spark, loaded, hours, parallel=2).outcomes())
    assert [(str(outcome.day), outcome.became, outcome.error) for outcome in outcomes] == [
        (f"2019-06-05T{hour:02}", "published", None) for hour in range(24)
    ]
    made = [outcome.manifest for outcome in outcomes if outcome.manifest is not None]
    together = sorted(row for manifest in made for row in examples(output, manifest))
    assert together == examples(config.with_name("out"), wednesday)
    assert wednesday.label_sum("clicked") > 20
    assert all(manifest.label_mature for manifest in made)
    for reason in ("impressions", "samples", "repeated"):
        assert sum(manifest.accounting[reason] for manifest in made) == wednesday.accounting[reason]
    assert sum(manifest.labels["clicked"]["actions"] for manifest in made) == wednesday.labels["clicked"]["actions"]
    assert published_days(open_storage(output)) == hours
    of_the_day = open_samples(str(output), date="2019-06-05", split="train")
    assert of_the_day.manifests == tuple(made)
    assert of_the_day.records == sum(shard.records for shard in wednesday.of_split("train"))


@pytest.mark.slow
def test_the_samples_of_a_whole_log_are_those_of_its_days(
    spark: SparkSession, config: Path, wednesday: Manifest, tmp_path: Path
) -> None:
    whole = ["grain=all", "sources.log.days_before=0", "sources.log.days_after=0", f"output.path={tmp_path}"]
    made = job.run(spark, load_config(config, whole), WHOLE).manifest
    assert (made.run_date, made.label_mature, made.accounting["impressions"]) == ("all", True, 5 * (96 + 12))
    days = {row[0]: row for row in examples(config.with_name("out"), wednesday)}
    assert [row for row in examples(tmp_path, made) if row[0] in days] == list(days.values())
    assert latest_manifest(open_storage(tmp_path), WHOLE) == made
    assert (tmp_path / "all/manifests/00000001.json").exists()
    assert open_samples(str(tmp_path), date="all", split="eval").manifests == (made,)
    again = job.run(spark, load_config(config, whole), WHOLE)
    assert (again.published, again.manifest) == (False, made)


@pytest.mark.slow
def test_a_whole_log_is_split_at_an_instant(spark: SparkSession, config: Path, tmp_path: Path) -> None:
    by_time = "split={by: time, eval_from: '2019-06-05T12:00'}"
    whole = ["grain=all", "sources.log.days_before=0", "sources.log.days_after=0", f"output.path={tmp_path}", by_time]
    made = job.run(spark, load_config(config, whole), WHOLE).manifest
    counts = {split: sum(shard.records for shard in made.of_split(split)) for split in made.splits}
    assert counts == {"train": 3 * 96 + 48, "eval": 48 + 96}


@pytest.fixture(scope="module")
def hourly(spark: SparkSession, config: Path) -> tuple[Path, Manifest, Manifest]:
    """The same hour of two days, by the command."""
    output = config.with_name("two_hours")
    manifests = []
    for day in (TUESDAY, WEDNESDAY):
        done = call("generate", "--config", str(config), *by_the_hour(output), "--date", f"{day}T07")
        assert done.exit_code == 0, done.stderr
        assert done.stdout == f"{output}/dt={day}/hour=07/manifests/00000001.json\n"
        newest = latest_manifest(open_storage(output), Hour(day, 7))
        assert newest is not None
        manifests.append(newest)
    return output, manifests[0], manifests[1]


def call(*arguments: str) -> Any:
    return invoke(*arguments)


def by_the_hour(output: Path) -> list[str]:
    return ["--set", "grain=hour", "--set", f"output.path={output}"]


@pytest.mark.slow
def test_an_hour_is_compared_with_the_same_hour_of_the_day_before(hourly: tuple[Path, Manifest, Manifest]) -> None:
    output, tuesday, wednesday = hourly
    first, second = (read_metrics(open_storage(output), manifest) for manifest in (tuesday, wednesday))
    assert first.reference.previous_day is None
    assert second.reference.previous_day == Generation("2019-06-04T07", 1)
    checked = {finding.check for finding in second.checks}
    assert "volume" in checked
    assert not checked & {"hours", "silent_hours"}


@pytest.mark.slow
def test_the_documents_of_an_hour_follow_their_schemas(hourly: tuple[Path, Manifest, Manifest]) -> None:
    output, _, manifest = hourly
    schemas = PROJECT / "ctr_samples"
    validate(json.loads(manifest.to_json()), json.loads((schemas / "shards/manifest.schema.json").read_text()))
    metrics = json.loads((output / f"dt=2019-06-05/hour=07/data/{manifest.run_id}/metrics.json").read_text())
    validate(metrics, json.loads((schemas / "quality/metrics.schema.json").read_text()))


@pytest.mark.slow
def test_every_command_takes_an_hour(hourly: tuple[Path, Manifest, Manifest]) -> None:
    output, tuesday, wednesday = hourly
    assert "feed 2019-06-05T07, generation 1" in call("verify", str(output)).stderr
    assert "feed 2019-06-04T07, generation 1" in call("verify", str(output), "--date", "2019-06-04T07").stderr
    listed = call("paths", str(output), "--date", "2019-06-04T07").stdout.splitlines()
    assert listed == [f"{output}/{shard.path}" for shard in tuesday.shards]
    assert wednesday.run_id in call("history", str(output)).stdout
    assert call("report", str(output)).stdout.strip().endswith(f"hour=07/data/{wednesday.run_id}/report.html")
    prometheus = call("report", str(output), "--prometheus").stdout
    assert 'ctr_samples_run_date_timestamp_seconds{sample_set="feed"} 1559718000' in prometheus
    assert call("clean", str(output), "--dry-run").exit_code == 0
    status = [line.split() for line in call("status", str(output), "--to", "2019-06-04T08").stdout.splitlines()]
    assert [(line[0], line[-1]) for line in status if line and line[0].startswith("2019")] == [
        ("2019-06-04T07", "published"),
        ("2019-06-04T08", "missing"),
    ]
    absent = call("show", str(output), "--date", "2019-06-05")
    assert "has no samples of 2019-06-05; it has 2019-06-04T07 to 2019-06-05T07 (2 day(s))" in " ".join(
        absent.stderr.split()
    )


@pytest.mark.parametrize(
    ("grain", "period"), [("day", Hour(WEDNESDAY, 7)), ("hour", WEDNESDAY), ("all", WEDNESDAY), ("day", WHOLE)]
)
def test_a_run_of_another_grain_is_refused(spark: SparkSession, config: Path, grain: str, period: Period) -> None:
    changes = ["sources.log.days_before=0", "sources.log.days_after=0"] if grain == "all" else []
    loaded = load_config(config, [f"grain={grain}", *changes])
    with pytest.raises(UsageError, match=f"but the configuration has `grain: {grain}`"):
        job.run(spark, loaded, period)


def test_hours_are_not_put_beside_a_day(spark: SparkSession, config: Path, tmp_path: Path) -> None:
    publish(open_storage(tmp_path), manifest(name="feed", run_date=str(WEDNESDAY)))
    with pytest.raises(InputError, match="of a sample set with another `grain` than that of 2019-06-05T07"):
        job.run(spark, load_config(config, ["grain=hour", f"output.path={tmp_path}"]), Hour(WEDNESDAY, 7))


@pytest.mark.parametrize(("first", "second"), [(WHOLE, WEDNESDAY), (WEDNESDAY, WHOLE), (WHOLE, Hour(WEDNESDAY, 7))])
def test_a_whole_log_and_its_days_are_not_put_into_one_directory(tmp_path: Path, first: Period, second: Period) -> None:
    storage = open_storage(tmp_path)
    publish(storage, manifest(run_date=str(first)))
    with pytest.raises(InputError, match=f"of a sample set with another `grain` than that of {second}"):
        check_directory(storage, second)


@pytest.mark.slow
def test_a_day_is_not_put_beside_its_hours(
    spark: SparkSession, config: Path, hourly: tuple[Path, Manifest, Manifest]
) -> None:
    with pytest.raises(InputError, match="holds hour=07, which ctr-samples did not write"):
        job.run(spark, load_config(config, [f"output.path={hourly[0]}"]), WEDNESDAY)


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
  at: {expr: unix_micros(impression.impression_time), dtype: int64}
output: {path: ROOT/GRAIN, partitions: 1}
"""
OPEN_HOURS = (0, 1, 2, 3, 21, 22, 23)
OF_ACTIONS = "{source: log, where: kind = 'click', window: 40m}"


def write_requests(root: Path, seed: int) -> None:
    """Requests that show an item again after minutes or hours, also on the next day; some lines have no request."""
    chance, lines = random.Random(seed), defaultdict(list)
    for day in (TUESDAY, WEDNESDAY, WEDNESDAY + timedelta(days=1)):
        for _ in range(60):
            at = datetime(day.year, day.month, day.day, chance.choice(OPEN_HOURS), chance.randrange(60))
            row = {"request": chance.choice([f"r{chance.randrange(9)}", f"r{chance.randrange(9)}", None])}
            row |= {"user": f"u{chance.randrange(2)}", "item": f"i{chance.randrange(2)}"}
            kinds = chance.choice([["shown"], ["shown", "shown"], ["shown", "click"]])
            for n, kind in enumerate(kinds):
                moment = at + timedelta(minutes=n * chance.choice([0, 7, 25]))
                lines[moment].append(row | {"kind": kind, "t": f"{moment:%F %T}", "price": float(chance.randrange(50))})
    for moment, rows in lines.items():
        path = root / f"log/{moment:%F}/{moment:%H}/{moment:%M}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("label", "dedup", "days_before"),
    [
        (OF_ACTIONS, "", 0),
        ("{expr: price > 20}", "", 0),
        (OF_ACTIONS, "", 1),
        ("{expr: price > 20}", "", 1),
        (OF_ACTIONS, "dedup: 20m", 1),
        ("{expr: price > 20}", "dedup: 20m", 1),
    ],
)
def test_what_a_request_shows_again_is_a_repeat_alike_by_hours_by_days_and_in_the_whole_log(
    spark: SparkSession, tmp_path: Path, label: str, dedup: str, days_before: int
) -> None:
    write_requests(tmp_path, len(label) + len(dedup))
    days = f"days_before: {days_before}\n    days_after: 1"
    found = {}
    for grain, path, around in (("hour", "{date}/{hour}", days), ("day", "{date}", days), ("all", "{date}", "")):
        texts = {"ROOT": str(tmp_path), "GRAIN": grain, "PATH": path, "DAYS": around, "DEDUP": dedup, "LABEL": label}
        text = REQUESTS
        for name, value in texts.items():
            text = text.replace(name, value)
        (tmp_path / f"{grain}.yaml").write_text(text)
        hours: list[Period] = [Hour(WEDNESDAY, hour) for hour in OPEN_HOURS]
        periods = {"hour": hours, "day": [WEDNESDAY], "all": [WHOLE]}[grain]
        loaded = load_config(tmp_path / f"{grain}.yaml")
        made = [job.run(spark, loaded, period, accept=CHECKS).manifest for period in periods]
        found[grain] = sorted(row for manifest in made for row in examples(tmp_path / grain, manifest))
    start, end = span_of(WEDNESDAY, "Asia/Kathmandu") or (None, None)
    assert start is not None
    assert end is not None
    own = range(int(start.timestamp() * 1e6), int(end.timestamp() * 1e6))
    mine = [row for row in found["all"] if int(re.search(r"'at', (\d+)", row[2])[1]) in own]  # type: ignore[index]
    assert len(found["day"]) > 20
    assert found["hour"] == found["day"]
    assert mine == found["day"]
