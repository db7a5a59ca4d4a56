"""Labels in whole runs: a day that is run again when its windows have closed."""

from __future__ import annotations

import io
import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from jsonschema import validate
from pyspark.sql import SparkSession
from rich.console import Console

import ctr_samples
from ctr_samples.config import LoadedConfig, load_config
from ctr_samples.contract import ExampleContract
from ctr_samples.job import run as job
from ctr_samples.job.summary import run_summary
from ctr_samples.quality.pseudonyms import Pseudonyms
from ctr_samples.records.read import first_examples
from ctr_samples.shards import Manifest, open_storage
from tests.support.whole_runs import Told

DAY = date(2019, 6, 5)
CONFIG = """\
name: tiny
timezone: UTC
sources:
  log:
    format: json
    path: LOG/dt={date}
    schema: at STRING, user_id STRING, request_id STRING, articles STRING, action STRING, read_ms STRING
    days_before: 1
    days_after: 1
impressions:
  source: log
  where: action = 'exposure'
  time: at
  user: user_id
  request: request_id
  article: articles
  explode: article
labels:
  clicked: {source: log, where: action = 'click', window: 30m, skew: 2s}
  read_ms: {source: log, where: action = 'read', window: 2h, value: read_ms, reduce: sum}
features:
  position: {from: impression.position, dtype: int64}
output: {path: OUT, partitions: 1}
split: {eval: 0}
"""
FIVE = [
    ("2019-06-05 10:00:00", "u", "r1", "[1, 2, 3]", "exposure", ""),
    ("2019-06-05 10:00:30", "u", "r1", "2", "click", ""),
    ("2019-06-05 10:05:00", "u", "", "2", "read", "1500"),
    ("2019-06-05 11:00:00", "u", "r1", "3", "click", ""),
    ("2019-06-05 23:50:00", "v", "r2", "[1, 2]", "exposure", ""),
    ("2019-06-05 23:55:00", "v", "r2", "2", "read", "10"),
]
SIX = [
    ("2019-06-06 00:05:00", "v", "r2", "1", "click", ""),
    ("2019-06-06 00:06:00", "v", "r2", "2", "read", "20"),
    ("2019-06-06 00:07:00", "v", "r2", "1", "read", "30"),
]


def logged(root: Path, day: str, rows: list[tuple[str, ...]]) -> None:
    names = ("at", "user_id", "request_id", "articles", "action", "read_ms")
    place = root / "log" / f"dt={day}"
    place.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({n: v for n, v in zip(names, row, strict=True) if v}) for row in rows]
    (place / "part.json").write_text("\n".join(lines) + "\n")


def config(root: Path, *overrides: str) -> LoadedConfig:
    (root / "c.yaml").write_text(CONFIG.replace("LOG", str(root / "log")).replace("OUT", str(root / "out")))
    return load_config(root / "c.yaml", overrides)


def labels(root: Path, manifest: Manifest, *names: str) -> list[tuple[Any, ...]]:
    """(position, labels) of each sample, in order."""
    contract = ExampleContract.from_dict(dict(manifest.contract))
    rows = first_examples(open_storage(root / "out"), manifest.shards, contract, 100)
    return sorted(tuple(row[name] for name in ("position", *names)) for row in rows)


def said(root: Path, manifest: Manifest) -> str:
    console = Console(file=io.StringIO(), width=160, record=True)
    console.print(run_summary(manifest, open_storage(root / "out"), published=True))
    return console.export_text()


@pytest.mark.slow
def test_a_day_that_is_run_again_when_its_windows_closed_says_which_labels_flipped(
    spark: SparkSession, tmp_path: Path
) -> None:
    logged(tmp_path, "2019-06-05", FIVE)
    early = job.run(spark, config(tmp_path), DAY).manifest
    assert not early.label_mature
    assert "flips" not in early.labels["clicked"]
    columns = ("clicked", "read_ms", "read_ms__mask")
    assert labels(tmp_path, early, *columns) == [
        (0, 0, 0.0, 0),
        (0, 0, 0.0, 0),
        (1, 0, 10.0, 1),
        (1, 1, 1500.0, 1),
        (2, 0, 0.0, 0),
    ]

    logged(tmp_path, "2019-06-06", SIX)
    final = job.run(spark, config(tmp_path), DAY).manifest
    assert final.label_mature
    assert final.generation == 2
    assert (0, 1, 30.0, 1) in labels(tmp_path, final, *columns)
    assert (1, 0, 30.0, 1) in labels(tmp_path, final, *columns)
    names = Pseudonyms(final.name)
    assert final.labels == {
        "clicked": {
            "actions": 2,
            "orphans": 1,
            "without_value": 0,
            "delays": {"before": 0, "1s": 0, "10s": 0, "1m": 1, "10m": 0, "30m": 0},
            "orphan_sample": [
                {"time": "2019-06-05T11:00:00+00:00", "request": names.of("r1"), "user": names.of("u"), "article": "3"}
            ],
            "flips": {"flipped_to_1": 1, "flipped_to_0": 0, "new": 0, "gone": 0, "against": 1},
        },
        "read_ms": {
            "actions": 2,
            "orphans": 0,
            "without_value": 0,
            "delays": {"1s": 0, "10s": 0, "1m": 0, "10m": 2, "1h": 0, "2h": 0},
            "orphan_sample": [],
            "flips": {"flipped_to_1": 1, "flipped_to_0": 0, "changed": 1, "new": 0, "gone": 0, "against": 1},
        },
    }
    schema = json.loads((Path(ctr_samples.__file__).parent / "shards/manifest.schema.json").read_text())
    validate(json.loads(final.to_json()), schema)
    summary = said(tmp_path, final)
    assert "1  flipped since generation 1: 1 to 1, 0 to 0 " in summary
    assert "flipped since generation 1: 1 to 1, 0 to 0, 1 changed value" in summary

    again = job.run(spark, config(tmp_path), DAY, force=True).manifest
    nothing = {"flipped_to_1": 0, "flipped_to_0": 0, "new": 0, "gone": 0, "against": 2, "final": True}
    assert again.labels["clicked"]["flips"] == nothing
    assert not [found for found in again.quality["found"] if found["check"] == "final_labels"]


LISTS = [
    ("2019-06-05 10:00:00", "u", "r1", "[1, 2, 3, 4]", "exposure", ""),  # clicked at 0 and 2: 3 is below
    ("2019-06-05 10:01:00", "u", "r1", "3", "click", ""),
    ("2019-06-05 10:02:00", "u", "r1", "1", "click", ""),
    ("2019-06-05 10:05:00", "u", "r2", "[1, 2]", "exposure", ""),  # no click: all stay
    ("2019-06-05 10:10:00", "u", "r3", "[5, 6]", "exposure", ""),  # clicked at 1: nothing is below
    ("2019-06-05 10:11:00", "u", "r3", "6", "click", ""),
    ("2019-06-05 11:00:00", "v", "", "[1, 2, 3]", "exposure", ""),  # without a request: 1 and 2 are below
    ("2019-06-05 11:00:10", "v", "", "1", "click", ""),
    ("2019-06-05 11:00:01", "v", "", "[4, 5]", "exposure", ""),  # another moment is another list
    ("2019-06-05 11:00:00", "x", "", "[1, 2, 3]", "exposure", ""),  # another user at that moment: all stay
    ("2019-06-05 12:00:00", "w", "r4", "[1, 2, 1]", "exposure", ""),  # a repeat is dropped before: the 2 is below
    ("2019-06-05 12:00:10", "w", "r4", "1", "click", ""),
    ("2019-06-05 13:00:00", "", "", "[1, 2]", "exposure", ""),  # of nobody: no list at all
    ("2019-06-05 14:00:00", "w", "r5", "[1, 2]", "exposure", ""),  # the click comes too late
    ("2019-06-05 14:30:01", "w", "r5", "1", "click", ""),
]


@pytest.mark.slow
def test_what_stands_below_the_last_click_of_its_list_is_dropped_and_accounted_for(
    spark: SparkSession, tmp_path: Path
) -> None:
    logged(tmp_path, "2019-06-05", LISTS)
    extra = (
        "impressions.columns.who=coalesce(user_id, 'nobody')",
        "features.who={from: impression.who, dtype: string}",
        "features.at={expr: \"date_format(impression.impression_time, 'HH:mm')\", dtype: string}",
    )
    loaded = config(tmp_path, "impressions.skip_above=clicked", *extra)
    manifest = job.run(spark, loaded, DAY).manifest
    found: dict[str, list[tuple[int, int]]] = {}
    for position, at, who, clicked in labels(tmp_path, manifest, "at", "who", "clicked"):
        found.setdefault(f"{at.decode()} {who.decode()}", []).append((position, clicked))
    assert found == {
        "10:00 u": [(0, 1), (1, 0), (2, 1)],
        "10:05 u": [(0, 0), (1, 0)],
        "10:10 u": [(0, 0), (1, 1)],
        "11:00 v": [(0, 0), (0, 1), (1, 0)],
        "11:00 x": [(0, 0), (1, 0), (2, 0)],
        "12:00 w": [(0, 1)],
        "13:00 nobody": [(0, 0), (1, 0)],
        "14:00 w": [(0, 0), (1, 0)],
    }
    assert manifest.accounting == {
        "impressions": 23,
        "samples": 18,
        "no_time": 0,
        "no_article": 0,
        "repeated": 1,
        "skip_above": 4,
    }
    assert "4  were below the last click of their list" in said(tmp_path, manifest)


SHOWN_AT_ALL_HOURS = [
    (f"2019-06-05 {hour:02}:{minute:02}:00", f"u{hour}", f"r{hour}", "[1, 2]", "exposure", "")
    for hour in range(24)
    for minute in range(0, 60, 7)
]


def shown_until(end: str) -> list[tuple[str, ...]]:
    """The log of the next day up to a time."""
    rows = [(at.replace("06-05", "06-06"), *row) for at, *row in SHOWN_AT_ALL_HOURS]
    return [row for row in rows if row[0] <= f"2019-06-06 {end}"]


@pytest.mark.thorough
def test_labels_are_not_final_where_the_log_is_cut_before_their_windows_end(
    spark: SparkSession, tmp_path: Path
) -> None:
    logged(tmp_path, "2019-06-05", SHOWN_AT_ALL_HOURS)
    logged(tmp_path, "2019-06-06", shown_until("00:05:00"))
    reporter = Told()
    cut = job.run(spark, config(tmp_path), DAY, reporter=reporter).manifest
    assert not cut.label_mature
    (warning,) = [text for text in reporter.warnings if "cut" in text]
    assert warning == (
        "sources.log: no row is later than 2019-06-06 00:15:00+00:00, but the label windows end at 2019-06-06 02:00:00+00:00, "
        "and the same hours of the day itself have 15 rows. The log is cut, so the labels are not final; run again when it is "
        "complete."
    )
    assert "or with a cut log" in said(tmp_path, cut)
    logged(tmp_path, "2019-06-06", shown_until("23:59:59"))
    assert job.run(spark, config(tmp_path), DAY).manifest.label_mature


@pytest.mark.slow
@pytest.mark.parametrize(
    ("today", "tomorrow", "final"),
    [
        pytest.param(FIVE, SIX, True, id="a sparse log is not taken for a cut one"),
        pytest.param(SHOWN_AT_ALL_HOURS, shown_until("01:55:00"), True, id="nor one with a gap of minutes"),
        pytest.param(SHOWN_AT_ALL_HOURS, [], False, id="an empty log of the next day is cut at midnight"),
        pytest.param(
            [row for row in SHOWN_AT_ALL_HOURS if "06:00" < row[0][11:] < "22:00"], [], True, id="closed at night"
        ),
    ],
)
def test_a_log_is_cut_where_the_day_before_had_rows(
    spark: SparkSession, tmp_path: Path, today: list[Any], tomorrow: list[Any], final: bool
) -> None:
    logged(tmp_path, "2019-06-05", today)
    logged(tmp_path, "2019-06-06", tomorrow)
    assert job.run(spark, config(tmp_path, "quality.silent_hours=off"), DAY).manifest.label_mature == final


TWO_LOGS = CONFIG.replace("impressions:", """  clicks:
    format: json
    path: LOG/../clicks/dt={date}
    schema: at STRING, user_id STRING, articles STRING
    days_after: 1
impressions:""", 1).replace(
    """labels:
  clicked: {source: log, where: action = 'click', window: 30m, skew: 2s}
  read_ms: {source: log, where: action = 'read', window: 2h, value: read_ms, reduce: sum}
""",
    "labels: {clicked: {source: clicks, time: at, user: user_id, article: articles, window: 24h, match: [[user, article]]}}\n",
)  # fmt: skip


@pytest.mark.thorough
def test_labels_are_not_final_before_the_impressions_of_the_next_day_are_there_and_warn_if_final_ones_change(
    spark: SparkSession, tmp_path: Path
) -> None:
    logged(tmp_path, "2019-06-05", [("2019-06-05 20:00:00", "u", "r", "[1, 2]", "exposure", "")])
    (tmp_path / "clicks/dt=2019-06-05").mkdir(parents=True)
    (tmp_path / "clicks/dt=2019-06-05/x.json").write_text("{}\n")
    (tmp_path / "clicks/dt=2019-06-06").mkdir()
    (tmp_path / "clicks/dt=2019-06-06/x.json").write_text(
        '{"at": "2019-06-06 10:00:00", "user_id": "u", "articles": "1"}\n'
    )
    (tmp_path / "c.yaml").write_text(
        TWO_LOGS.replace("LOG", str(tmp_path / "log")).replace("OUT", str(tmp_path / "out"))
    )
    loaded, accepted = load_config(tmp_path / "c.yaml", ["sources.clicks.bad_records.max_rate=1"]), ("one_class",)

    early = job.run(spark, loaded, DAY, accept=accepted).manifest
    assert (early.label_mature, labels(tmp_path, early, "clicked")) == (False, [(0, 1), (1, 0)])

    logged(tmp_path, "2019-06-06", [("2019-06-06 09:00:00", "u", "s", "[3]", "exposure", "")])
    final = job.run(spark, loaded, DAY, accept=accepted).manifest
    assert (final.label_mature, labels(tmp_path, final, "clicked")) == (True, [(0, 1), (1, 0)])

    logged(tmp_path, "2019-06-06", [("2019-06-06 09:00:00", "u", "s", "[1]", "exposure", "")])
    reporter = Told()
    moved = job.run(spark, loaded, DAY, accept=accepted, reporter=reporter).manifest
    assert (moved.label_mature, labels(tmp_path, moved, "clicked")) == (True, [(0, 0), (1, 0)])
    assert moved.labels["clicked"]["flips"]["final"]
    alarm = (
        "1 value(s) of clicked differ from those of generation 2, whose labels were final: the logs changed after all windows "
        "had closed. Models that were trained on it saw other labels."
    )
    assert alarm in reporter.warnings
    assert alarm in [found["sentence"] for found in moved.quality["found"]]
    page = (tmp_path / f"out/dt=2019-06-05/data/{moved.run_id}/report.html").read_text()
    assert "whose labels were final" in page


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("time", "told"),
    [
        ("at", "at is '05/06/2019 10:00:30', for example; expected text such as"),
        (
            "try_to_timestamp(at, 'MM-dd-yyyy HH:mm:ss')",
            "at is '05/06/2019 10:00:30', for example, which try_to_timestamp(at, 'MM-dd-yyyy HH:mm:ss') does not read; "
            "expected text such as",
        ),
    ],
)
def test_times_of_actions_that_cannot_be_read_are_told_with_one_and_what_reads_it(
    spark: SparkSession, tmp_path: Path, time: str, told: str
) -> None:
    shown = ("2019-06-05 10:00:00", "u", "r1", "[1, 2, 3]", "exposure", "")
    clicks = [(f"05/06/2019 {hour}:00:30", "u", "r1", "2", "click", "") for hour in (11, 10)]
    logged(tmp_path, "2019-06-05", [shown, *clicks])
    logged(tmp_path, "2019-06-06", [("04/06/2019 00:00:00", "u", "r1", "2", "click", "")])
    manifest = job.run(spark, config(tmp_path, f"labels.clicked.time={time}"), DAY).manifest
    assert manifest.labels["clicked"]["without_time"] == 2
    assert manifest.labels["clicked"]["time_not_read"].startswith(f"labels.clicked.time: {told}")
    assert "time_not_read" not in manifest.labels["read_ms"]
    (found,) = [one["sentence"] for one in manifest.quality["found"] if one["check"] == "action_times"]
    assert f"labels.clicked.time: {told}" in found
    example = found.rpartition("such as ")[2].removesuffix(".")
    read = job.run(spark, config(tmp_path, f"labels.clicked.time={example}"), DAY).manifest
    assert read.labels["clicked"]["actions"] == 2
    assert "without_time" not in read.labels["clicked"]
