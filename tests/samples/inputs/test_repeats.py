"""Rows that repeat others, in a log without days and in the logs of several days."""

from __future__ import annotations

from collections.abc import Callable
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

Frame = Callable[..., DataFrame]


def source(**keys: Any) -> ColumnarSource:
    return ColumnarSource.model_validate({"format": "parquet", "path": "log", **keys})


LATE = [("a", 1, 3, "a3"), ("a", 1, 2, "a2"), ("a", 1, None, "late"), ("a", 2, 9, "other"), ("b", 1, 5, "b")]
BY_AT = {"unique": ["user", "n"], "unique_first": "at"}
OF_DAYS = [("e", f"2019-06-0{day}", f"{day}{copy}") for day in (1, 2, 3, 5, 7, 8) for copy in "ab"]
BY_ID = {"unique": "id", "unique_first": "name"}
IN_DAYS = f"id string, {LOG_DAY} date, name string"
CASES: dict[str, tuple[str, list[tuple[Any, ...]], dict[str, Any], list[str]]] = {
    "of rows with equal values the first counts": (
        "user string, n int, at int, name string",
        LATE,
        BY_AT,
        ["a2", "b", "other"],
    ),
    "in any order of lines": ("user string, n int, at int, name string", LATE[::-1], BY_AT, ["a2", "b", "other"]),
    "rows that lack a value, and malformed lines, are no repeats": (
        f"user string, n int, {MALFORMED} string, name string",
        [
            *[("a", None, None, "x")] * 2,
            *[(None, 1, None, "y")] * 2,
            ("a", 1, "a;1", "bad"),
            ("a", 1, None, "sound"),
            ("a", 1, "a;1", "bad"),
        ],
        {"unique": ["user", "n"]},
        ["bad", "bad", "sound", "x", "x", "y", "y"],
    ),
    "the logs of a day and of the day before are compared": (IN_DAYS, OF_DAYS, BY_ID, ["1a", "5a", "7a"]),
    "without the first day": (IN_DAYS, OF_DAYS[2:], BY_ID, ["2a", "5a", "7a"]),
    "from a day without a day before": (IN_DAYS, OF_DAYS[6:], BY_ID, ["5a", "7a"]),
    "rows of equal content are one": (
        "id double, m map<string, int>, name string",
        [(-0.0, {"x": 1}, "a"), (0.0, {"x": 1}, "a")],
        {"unique": "id"},
        ["a"],
    ),
}
"""Columns and rows, keys of the source, and the names of the rows that are no repeats."""


def test_rows_that_repeat_others_are_marked(frame: Frame) -> None:
    marked = []
    for what, (schema, rows, keys, _) in CASES.items():
        stays = with_repeats(frame(schema, rows), source(**keys), "sources.log").where(~F.col(IS_REPEAT))
        marked.append(stays.select(F.lit(what).alias("what"), "name"))
    found = reduce(DataFrame.union, marked).collect()
    assert {what: sorted(row.name for row in found if row.what == what) for what in CASES} == {
        what: names for what, (*_, names) in CASES.items()
    }


def test_a_source_without_unique_is_as_it_was(frame: Frame) -> None:
    rows = frame("id int", [(1,), (1,)])
    assert with_repeats(rows, source(), "sources.log") is rows


@pytest.mark.parametrize(("key", "text"), [("unique", "m"), ("unique_first", "m")])
def test_a_value_without_an_order_is_refused(frame: Frame, key: str, text: str) -> None:
    rows = frame("id int, m map<string, int>", [])
    with pytest.raises(InputError, match=f"sources.log.{key}: m is map<string,int>, expected a number, text or a time"):
        with_repeats(rows, source(**{"unique": "id", key: text}), "sources.log")
