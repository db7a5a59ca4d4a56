"""Rows that repeat others, in a log without days and in the logs of several days."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ctr_samples.config import ColumnarSource
from ctr_samples.errors import InputError
from ctr_samples.samples.inputs.listing import LOG_DAY
from ctr_samples.samples.inputs.log_days import with_repeats
from ctr_samples.sparksql.expressions import IS_REPEAT, MALFORMED

Frame = Callable[..., DataFrame]


def source(**keys: Any) -> ColumnarSource:
    return ColumnarSource.model_validate({"format": "parquet", "path": "log", **keys})


def kept(rows: DataFrame, of: ColumnarSource) -> list[str]:
    marked = with_repeats(rows, of, "sources.log").where(~F.col(IS_REPEAT))
    return sorted(row["name"] for row in marked.collect())


def test_of_rows_with_equal_values_the_first_counts_in_any_order_of_lines(frame: Frame) -> None:
    rows = [("a", 1, 3, "a3"), ("a", 1, 2, "a2"), ("a", 1, None, "late"), ("a", 2, 9, "other"), ("b", 1, 5, "b")]
    of = source(unique=["user", "n"], unique_first="at")
    for some in (rows, rows[::-1]):
        assert kept(frame("user string, n int, at int, name string", some), of) == ["a2", "b", "other"]


def test_rows_that_lack_a_value_and_malformed_lines_are_no_repeats(frame: Frame) -> None:
    rows = [("a", None, None, "x"), ("a", None, None, "x"), (None, 1, None, "y"), (None, 1, None, "y")]
    rows += [("a", 1, "a;1", "bad"), ("a", 1, None, "sound"), ("a", 1, "a;1", "bad")]
    log = frame(f"user string, n int, {MALFORMED} string, name string", rows)
    assert kept(log, source(unique=["user", "n"])) == ["bad", "bad", "sound", "x", "x", "y", "y"]


def test_the_logs_of_a_day_and_of_the_day_before_are_compared(frame: Frame) -> None:
    days = [1, 2, 3, 5, 7, 8]
    rows = [("e", f"2019-06-0{day}", f"{day}{copy}") for day in days for copy in "ab"]
    log = frame(f"id string, {LOG_DAY} date, name string", rows)
    of = source(unique="id", unique_first="name")
    assert kept(log, of) == ["1a", "5a", "7a"]
    apart = log.where(F.col(LOG_DAY) >= "2019-06-02"), log.where(F.col(LOG_DAY) >= "2019-06-05")
    assert [kept(some, of) for some in apart] == [["2a", "5a", "7a"], ["5a", "7a"]]


def test_rows_of_equal_content_are_one(frame: Frame) -> None:
    log = frame("id double, m map<string, int>, name string", [(-0.0, {"x": 1}, "a"), (0.0, {"x": 1}, "a")])
    assert kept(log, source(unique="id")) == ["a"]


def test_a_source_without_unique_is_as_it_was(frame: Frame) -> None:
    rows = frame("id int", [(1,), (1,)])
    assert with_repeats(rows, source(), "sources.log") is rows


@pytest.mark.parametrize(("key", "text"), [("unique", "m"), ("unique_first", "m")])
def test_a_value_without_an_order_is_refused(frame: Frame, key: str, text: str) -> None:
    rows = frame("id int, m map<string, int>", [])
    with pytest.raises(InputError, match=f"sources.log.{key}: m is map<string,int>, expected a number, text or a time"):
        with_repeats(rows, source(**{"unique": "id", key: text}), "sources.log")
