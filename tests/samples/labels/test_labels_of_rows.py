"""Labels that the impression's own row or its element of a list holds, beside labels of actions."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ctr_samples.errors import GateRefused, InputError
from tests.support.whole_runs import Made, made, write_config, write_rows

DAY = date(2019, 6, 5)
CONFIG = """
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
LISTS = [
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
    spark: SparkSession, root: Path, shown: list[dict[str, Any]] = LISTS, changes: dict[str, str] | None = None
) -> Made:
    """A day with some texts of the configuration replaced."""
    write_rows(root / "lists.json", shown)
    write_rows(root / "clicks.json", CLICKS)
    return made(spark, write_config(root, "c", CONFIG, changes), DAY, accept=())


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
