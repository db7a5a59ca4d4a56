"""A simulated service with known faults: the comparison names each of them, with its figure."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from ctr_samples.contract import FeatureSpec
from ctr_samples.served.causes import Sought, causes_of
from ctr_samples.served.columns import Column, Pairs, Tolerance, compared
from tests.served.served_day import SHOWN, START, Day
from tests.served.server import Faults, part_of

IDS = [1_500_000_000 + n for n in range(800)]
AGES = [18 + 72 * (n * 377 % 787) / 787 for n in range(800)]


@pytest.mark.parametrize(
    ("dtype", "change", "cause", "words"),
    [
        ("int64", lambda n, x: None if n % 4 == 0 else x, "no value", "without a value"),
        ("int64", lambda n, x: x + 1, "shift", "+1 apart"),
        ("int64", lambda n, x: x + n % 5 + 1, None, ""),
        ("float32", lambda n, x: float(np.float16(x)), "precision", "as float16"),
        ("float32", lambda n, x: x * 1000, "unit", "1000 times as large"),
        ("float32", lambda n, x: x**2, None, ""),
    ],
    ids=["nothing", "shift", "noise", "half precision", "unit", "formula"],
)
def test_forms_of_values_are_told_apart(
    dtype: Any, change: Callable[[int, Any], Any], cause: str | None, words: str
) -> None:
    spec, mine = FeatureSpec("x", dtype), IDS if dtype == "int64" else AGES
    theirs = [change(n, x) for n, x in enumerate(mine)]
    offline, served = (Column.of(pa.array(values), spec) for values in (mine, theirs))
    pairs = Pairs(offline, served, ~compared(offline, served, Tolerance()).agree)
    looked_at, causes, rest = causes_of(Sought("x", pairs, np.ones(800, np.bool_), Tolerance(), {}, ()))
    assert looked_at == pairs.differ.sum() > 0
    assert [one.name for one in causes] == ([] if cause is None else [cause])
    assert all(words in one.sentence for one in causes)
    assert rest == (1 if cause is None else 0)


@pytest.mark.slow
def test_each_fault_is_named_where_it_is(spark: SparkSession, day: Day) -> None:
    def wrong(line: dict[str, Any]) -> None:
        line["red"] = int(line["price"] > 0 and not line["red"])
        line["price"] *= line["n"] % 50 > 0
        line["shows_6h"] = day.shows(line["i"], (line["at"] - START).total_seconds() - 7200, 6)
        line["place"] = {3: 3, 4: 2}[line["place"]]
        line["home"] *= line["n"] % 10 > 0

    lines = day.served(Faults(late_part={"user": (8, timedelta(days=1))}), wrong)
    found = day.compared(spark, lines).features
    for name, cause, least, words in (
        ("age", "late row", 0.99, "1d late in"),
        ("age", "late row", 0.99, "only for a part of the keys"),
        ("price", "no row", 1, "as if `item` had no row"),
        ("shows_6h", "late row", 0.97, "2h late in"),
        ("place", "state", 1, "with version 1 of the fitted state, of 2019-06-03"),
        ("red", "definition", 1, "as the samples of 2019-06-04 define it"),
        ("home", "no row", 1, "as if `home` had no row"),
    ):
        first = found[name].causes[0]
        assert (first.name, first.share >= least, words in first.sentence) == (cause, True, True), first
    assert found["price"].share == pytest.approx(0.02, abs=0.01)
    assert found["age"].share == pytest.approx(np.mean([part_of(one["u"], 8) == 0 for one in lines]), abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("faults", "half", "name", "causes", "words"),
    [
        (
            Faults(late={"item": timedelta(minutes=30)}, failing={"item": 0.1}),
            False, "price", ["no row", "late row"], "30m late in",
        ),
        (Faults(clock=timedelta(seconds=120)), False, "age", ["early row"], "2m earlier"),
        (
            Faults(late={"user": timedelta(hours=3)}, failing={"user": 0.05}, lost=0.03, repeated=0.02),
            True, "age", ["precision", "late row", "no row"], "3h late in",
        ),
    ],
    ids=["late and failing", "clock", "late, failing and rounded"],
)  # fmt: skip
def test_faults_together_are_told_apart(
    spark: SparkSession, day: Day, faults: Faults, half: bool, name: str, causes: list[str], words: str
) -> None:
    found = day.compared(
        spark, day.served(faults, lambda line: half and line.update(age=float(np.float16(line["age"]))))
    )
    one = found.features[name]
    assert [cause.name for cause in one.causes] == causes
    assert words in " ".join(cause.sentence for cause in one.causes)
    assert one.unexplained is not None
    assert one.unexplained < 0.01
    assert found.coverage.not_served / SHOWN == pytest.approx(faults.lost, abs=0.01)
    assert found.coverage.repeated / SHOWN == pytest.approx(faults.repeated, abs=0.01)


@pytest.mark.thorough
def test_served_lines_without_a_sample_are_looked_up(spark: SparkSession, day: Day) -> None:
    lines = day.served()
    for line in lines[:7]:
        line["impression_id"] = int(float(line["impression_id"]))
    lines[7]["impression_id"] = 12345
    coverage = day.compared(spark, lines).coverage
    assert (coverage.not_served, coverage.no_sample) == (8, 8)
    rounded = "rounded to 53 bits, as by a double; log ids as text"
    assert coverage.why_no_sample == {rounded: 7, "not in the log of impressions": 1}
