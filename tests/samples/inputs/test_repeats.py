"""Rows that repeat others, in a log without days and in the logs of several days."""

from __future__ import annotations

from functools import reduce
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ctr_samples.config import ColumnarSource
from ctr_samples.errors import InputError
from ctr_samples.samples.inputs.listing import LOG_DAY
from ctr_samples.samples.inputs.log_days import with_repeats
from ctr_samples.sparksql.expressions import IS_REPEAT, MALFORMED
from tests.support.literal_frames import Frame


def source(**keys: Any) -> ColumnarSource:
    return ColumnarSource.model_validate({"format": "parquet", "path": "log", **keys})


Case = tuple[list[tuple[Any, ...]], list[str]]
LATE = [("a", 1, 3, "a3"), ("a", 1, 2, "a2"), ("a", 1, None, "late"), ("a", 2, 9, "other"), ("b", 1, 5, "b")]
OF_DAYS = [("e", 1, at, f"{day}{'ab'[at]}", f"2019-06-0{day}") for day in (1, 2, 3, 5, 7, 8) for at in (0, 1)]
CASES: dict[str, Case] = {
    "of rows with equal values the first counts": (LATE, ["a2", "b", "other"]),
    "in any order of lines": (LATE[::-1], ["a2", "b", "other"]),
    "rows that lack a value, and malformed lines, are no repeats": (
        [
            *[("a", None, None, "x")] * 2,
            *[(None, 1, None, "y")] * 2,
            ("a", 1, None, "bad", None, "a;1"),
            ("a", 1, None, "sound"),
            ("a", 1, None, "bad", None, "a;1"),
        ],
        ["bad", "bad", "sound", "x", "x", "y", "y"],
    ),
    "the logs of a day and of the day before are compared": (OF_DAYS, ["1a", "5a", "7a"]),
    "without the first day": (OF_DAYS[2:], ["2a", "5a", "7a"]),
    "from a day without a day before": (OF_DAYS[6:], ["5a", "7a"]),
}
"""Rows of (user, n, time, name, day of the log, malformed text), and the names of the rows that are no repeats."""


def test_rows_that_repeat_others_are_marked(frame: Frame) -> None:
    schema = f"what string, user string, n int, at int, name string, {LOG_DAY} date, {MALFORMED} string"
    rows = [(what, *row, *[None] * (6 - len(row))) for what, (some, _) in CASES.items() for row in some]
    by_at = source(unique=["what", "user", "n"], unique_first="at")
    equal = frame(
        "what string, id double, m map<string, int>, name string",
        [("equal content", zero, {"x": 1}, "a") for zero in (-0.0, 0.0)],
    )
    marked = [
        with_repeats(frame(schema, rows), by_at, "sources.log"),
        with_repeats(equal, source(unique="id"), "sources.log"),
    ]
    stays = reduce(DataFrame.union, [each.where(~F.col(IS_REPEAT)).select("what", "name") for each in marked]).collect()
    assert {what: sorted(row.name for row in stays if row.what == what) for what in (*CASES, "equal content")} == {
        **{what: names for what, (_, names) in CASES.items()},
        "equal content": ["a"],
    }


def test_a_source_without_unique_is_as_it_was(frame: Frame) -> None:
    rows = frame("id int", [(1,), (1,)])
    assert with_repeats(rows, source(), "sources.log") is rows


@pytest.mark.parametrize(("key", "text"), [("unique", "m"), ("unique_first", "m")])
def test_a_value_without_an_order_is_refused(frame: Frame, key: str, text: str) -> None:
    rows = frame("id int, m map<string, int>", [])
    with pytest.raises(InputError, match=f"sources.log.{key}: m is map<string,int>, expected a number, text or a time"):
        with_repeats(rows, source(**{"unique": "id", key: text}), "sources.log")
