"""Labels in whole runs: a day that is run again when its windows have closed, and labels that the row or its element holds."""

from __future__ import annotations

from collections import Counter
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ctr_samples.config import LoadedConfig, load_config
from ctr_samples.errors import GateRefused, InputError
from ctr_samples.quality.pseudonyms import Pseudonyms
from ctr_samples.samples.period import Span
from ctr_samples.samples.watches.all import cut_logs
from tests.support.whole_runs import Made, Told, made, write_config, write_rows

DAY = date(2019, 6, 5)
CONFIG = """\
name: tiny
timezone: UTC
sources:
  log:
    format: json
    path: ROOT/log/dt={date}
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
output: {path: ROOT/out, partitions: 1}
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
    filled = [{name: value for name, value in zip(names, row, strict=True) if value} for row in rows]
    file = root / f"log/dt={day}/part.json"
    write_rows(file, filled)
    if not rows:
        file.write_text("\n")  # a day whose file has no byte would be missing


def config(root: Path, *overrides: str) -> LoadedConfig:
    return load_config(write_config(root, "c", CONFIG), overrides)


@pytest.mark.slow
def test_a_day_that_is_run_again_when_its_windows_closed_says_which_labels_flipped(
    spark: SparkSession, tmp_path: Path
) -> None:
    logged(tmp_path, "2019-06-05", FIVE)
    early = made(spark, config(tmp_path), DAY)
    assert not early.manifest.label_mature
    assert "flips" not in early.manifest.labels["clicked"]
    columns = ("position", "clicked", "read_ms", "read_ms__mask")
    assert early.values(*columns) == [
        (0, 0, 0.0, 0),
        (0, 0, 0.0, 0),
        (1, 0, 10.0, 1),
        (1, 1, 1500.0, 1),
        (2, 0, 0.0, 0),
    ]

    logged(tmp_path, "2019-06-06", SIX)
    later = made(spark, config(tmp_path), DAY)
    final = later.manifest
    assert (final.label_mature, final.generation) == (True, 2)
    assert {(0, 1, 30.0, 1), (1, 0, 30.0, 1)} <= {*later.values(*columns)}
    clicked, read, names = final.labels["clicked"], final.labels["read_ms"], Pseudonyms(final.name)
    assert clicked["orphan_sample"] == [
        {"time": "2019-06-05T11:00:00+00:00", "request": names.of("r1"), "user": names.of("u"), "article": "3"}
    ]
    flips = {"flipped_to_1": 1, "flipped_to_0": 0, "new": 0, "gone": 0, "against": 1}
    assert (clicked["flips"], read["flips"]) == (flips, {**flips, "changed": 1})


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
    day = made(spark, config(tmp_path, "impressions.skip_above=clicked", *extra), DAY)
    found: dict[str, list[tuple[int, int]]] = {}
    for position, at, who, clicked in day.values("position", "at", "who", "clicked"):
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
    assert day.manifest.accounting == {
        "impressions": 23,
        "samples": 18,
        "no_time": 0,
        "no_article": 0,
        "repeated": 1,
        "skip_above": 4,
    }
    assert "4  were below the last click of their list" in day.summary


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
    cut = made(spark, config(tmp_path), DAY, reporter=reporter)
    assert not cut.manifest.label_mature
    (warning,) = [text for text in reporter.warnings if "cut" in text]
    assert warning == (
        "sources.log: no row is later than 2019-06-06 00:15:00+00:00, but the label windows end at 2019-06-06 02:00:00+00:00, "
        "and the same hours of the day itself have 15 rows. The log is cut, so the labels are not final; run again when it is "
        "complete."
    )
    assert "or with a cut log" in cut.summary


def quarters(rows: list[tuple[str, ...]]) -> dict[int, int]:
    """Rows by the quarter of an hour since the day began, up to two hours after it, as a run counts them for one clock."""
    minutes = [(datetime.fromisoformat(row[0]) - datetime(2019, 6, 5)) // timedelta(minutes=15) for row in rows]
    return Counter(104 + quarter for quarter in minutes)


@pytest.mark.parametrize(
    ("today", "tomorrow", "is_cut"),
    [
        pytest.param(FIVE, SIX, False, id="a sparse log is not taken for a cut one"),
        pytest.param(SHOWN_AT_ALL_HOURS, shown_until("01:55:00"), False, id="nor one with a gap of minutes"),
        pytest.param(SHOWN_AT_ALL_HOURS, [], True, id="an empty log of the next day is cut at midnight"),
        pytest.param(
            [row for row in SHOWN_AT_ALL_HOURS if "06:00" < row[0][11:] < "22:00"], [], False, id="closed at night"
        ),
    ],
)
def test_a_log_is_cut_where_the_day_before_had_rows(
    tmp_path: Path, today: list[Any], tomorrow: list[Any], is_cut: bool
) -> None:
    tallies = {"log|104|impressions.time": quarters([*today, *tomorrow])}
    assert len([*cut_logs(config(tmp_path).config, Span.of(DAY, "UTC"), tallies)]) == is_cut


TWO_LOGS = CONFIG.replace("impressions:", """  clicks:
    format: json
    path: ROOT/clicks/dt={date}
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
    click = {"at": "2019-06-06 10:00:00", "user_id": "u", "articles": "1"}
    for day, rows in (("2019-06-05", [{}]), ("2019-06-06", [click])):
        write_rows(tmp_path / f"clicks/dt={day}/x.json", rows)
    loaded = load_config(write_config(tmp_path, "c", TWO_LOGS), ["sources.clicks.bad_records.max_rate=1"])

    def run(reporter: Told | None = None) -> tuple[Made, list[tuple[int, int]]]:
        day = made(spark, loaded, DAY, **({} if reporter is None else {"reporter": reporter}))
        return day, day.values("position", "clicked")

    early, labels = run()
    assert (early.manifest.label_mature, labels) == (False, [(0, 1), (1, 0)])

    logged(tmp_path, "2019-06-06", [("2019-06-06 09:00:00", "u", "s", "[3]", "exposure", "")])
    final, labels = run()
    assert (final.manifest.label_mature, labels) == (True, [(0, 1), (1, 0)])

    logged(tmp_path, "2019-06-06", [("2019-06-06 09:00:00", "u", "s", "[1]", "exposure", "")])
    reporter = Told()
    moved, labels = run(reporter)
    assert (moved.manifest.label_mature, labels) == (True, [(0, 0), (1, 0)])
    assert moved.manifest.labels["clicked"]["flips"]["final"]
    alarm = (
        "1 value(s) of clicked differ from those of generation 2, whose labels were final: the logs changed after all windows "
        "had closed. Models that were trained on it saw other labels."
    )
    assert alarm in reporter.warnings
    assert moved.found("final_labels") == [alarm]
    assert "whose labels were final" in moved.page


@pytest.mark.thorough
def test_times_of_actions_that_cannot_be_read_are_told_with_one_and_what_reads_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    by_month = "try_to_timestamp(at, 'MM-dd-yyyy HH:mm:ss')"
    shown = ("2019-06-05 10:00:00", "u", "r1", "[1, 2, 3]", "exposure", "")
    actions = [
        (f"05/06/2019 {hour}:00:30", "u", "r1", "2", what, "5") for hour in (11, 10) for what in ("click", "read")
    ]
    logged(tmp_path, "2019-06-05", [shown, *actions])
    logged(tmp_path, "2019-06-06", [("04/06/2019 00:00:00", "u", "r1", "2", "click", "")])
    day = made(spark, config(tmp_path, "labels.clicked.time=at", f"labels.read_ms.time={by_month}"), DAY)
    said = {
        "clicked": "at is '05/06/2019 10:00:30', for example; expected text such as ",
        "read_ms": f"at is '05/06/2019 10:00:30', for example, which {by_month} does not read; expected text such as ",
    }
    for name, told in said.items():
        label = day.manifest.labels[name]
        assert label["without_time"] == 2
        assert label["time_not_read"].startswith(f"labels.{name}.time: {told}")
        assert [sentence for sentence in day.found("action_times") if f"labels.{name}.time: {told}" in sentence]


OF_ROWS = """
name: rows
timezone: UTC
sources:
  lists:
    format: json
    path: ROOT/lists.json
    bad_records: {max_rate: 0.5}
    schema: "r BIGINT, u STRING, at STRING, shown STRING"
    explode: {element: "split(shown, ' ')"}
  clicks: {format: json, path: ROOT/clicks.json, schema: "u STRING, i STRING, at STRING"}
impressions:
  source: lists
  time: at
  request: r
  keys: {user: u, item: "split_part(element, '-', 1)"}
  position: element_position
labels:
  clicked: {expr: "split_part(element, '-', 2) = '1'"}
  bought: {source: clicks, time: at, keys: {user: u, item: i}, window: 1h}
features:
  position: {from: impression.position, dtype: int64}
split: {eval: 0}
quality: {one_class: off, too_few: off}
output: {path: ROOT/out, partitions: 1}
"""
ELEMENTS = [
    {"r": 1, "u": "u", "at": "2019-06-05 10:00:00", "shown": "a-0 b-1 c-0"},
    {"r": 2, "u": "v", "at": "2019-06-05 11:00:00", "shown": "a-1"},
    {"r": 3, "u": "v", "at": "2019-06-05 12:00:00", "shown": None},
    {"r": 4, "u": "w", "at": "2019-06-05 13:00:00", "shown": "a"},
]
MANY = [{"r": 1, "u": "u", "at": "2019-06-05 10:00:00", "shown": " ".join(f"i{n}-0" for n in range(1000))}]
CLICKS = [{"u": "u", "i": "c", "at": "2019-06-05 10:30:00"}, {"u": "v", "i": "a", "at": "2019-06-05 12:00:01"}]


CLICKED = "{expr: \"split_part(element, '-', 2) = '1'\"}"
CHECKS = "quality: {one_class: off, too_few: off}"


def published(
    spark: SparkSession, root: Path, shown: list[dict[str, Any]] = ELEMENTS, changes: dict[str, str] | None = None
) -> Made:
    """A day with some texts of the configuration replaced."""
    write_rows(root / "lists.json", shown)
    write_rows(root / "clicks.json", CLICKS)
    return made(spark, write_config(root, "c", OF_ROWS, changes), DAY, accept=())


@pytest.mark.thorough
def test_an_element_holds_its_label_beside_labels_of_actions(spark: SparkSession, tmp_path: Path) -> None:
    day = published(spark, tmp_path)
    assert day.manifest.accounting == {"impressions": 6, "samples": 5, "no_time": 0, "no_item": 1, "repeated": 0}
    expected = [(0, 0, 0), (0, 0, 0), (0, 1, 0), (1, 1, 0), (2, 0, 1)]
    assert day.values("position", "clicked", "bought") == expected
    assert day.manifest.labels["clicked"] == {"without_value": 0}
    assert day.manifest.label_mature


@pytest.mark.thorough
def test_a_label_of_the_row_may_be_a_number_with_a_mask_and_known_late(spark: SparkSession, tmp_path: Path) -> None:
    grade = "try_cast(split_part(element, '-', 2) as double) * 2.5"
    late = f'{{expr: "{grade}", dtype: float32, known_after: 36500d}}'
    day = published(spark, tmp_path, changes={CLICKED: late})
    assert day.values("clicked", "clicked__mask") == [(0.0, 0), (0.0, 1), (0.0, 1), (2.5, 1), (2.5, 1)]
    assert not day.manifest.label_mature


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("clicked", "message"),
    [
        (
            "{expr: \"try_cast(split_part(element, '-', 2) as int) * 3\"}",
            r"labels\.clicked\.expr: try_cast\(.*\) \* 3 is neither 0 nor 1 for 2 impressions; write a condition",
        ),
        (
            "{expr: \"split_part(element, '-', 2)\"}",
            r"labels\.clicked\.expr: split_part\(element, '-', 2\) is string, expected a condition or an integer",
        ),
    ],
)
def test_a_flag_that_is_neither_0_nor_1_is_refused(
    spark: SparkSession, tmp_path: Path, clicked: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        published(spark, tmp_path, changes={CLICKED: clicked})


@pytest.mark.thorough
def test_a_log_of_positives_only_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(GateRefused, match="have clicked = 1: a log of positives only, from which no model can learn"):
        published(spark, tmp_path, MANY, {CLICKED: "{expr: 'true'}", CHECKS: "quality: {too_few: off}"})


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        (
            "explode: {element: shown}",
            r"sources\.lists\.explode\.element: shown is string, expected a list: .*split\(shown, ' '\)",
        ),
        ("explode: {u: \"split(shown, ' ')\"}", r"sources\.lists\.explode: the source has a column 'u' already"),
    ],
)
def test_a_list_that_is_none_is_refused(spark: SparkSession, tmp_path: Path, lists: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        published(spark, tmp_path, changes={"explode: {element: \"split(shown, ' ')\"}": lists})
