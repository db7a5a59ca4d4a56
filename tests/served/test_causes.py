"""A simulated service with known faults: the comparison names each of them, with its figure."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from ctr_samples.errors import InputError
from tests.served.served_day import SHOWN, START, Day
from tests.served.server import Faults, part_of

pytestmark = pytest.mark.thorough


def share(lines: list[dict[str, Any]], right: list[dict[str, Any]], name: str) -> float:
    return float(np.mean([a[name] != b[name] for a, b in zip(lines, right, strict=True)]))


def test_a_faultless_service_has_no_difference(spark: SparkSession, day: Day) -> None:
    found = day.compared(spark, day.served())
    assert found.coverage.matched == found.coverage.samples == SHOWN
    assert {name: one.differ for name, one in found.features.items()} == dict.fromkeys(found.features, 0)
    assert found.beyond == ()


def test_a_late_store_is_named_with_its_delay(spark: SparkSession, day: Day) -> None:
    lines = day.served(Faults(late={"user": timedelta(hours=3)}))
    found = day.compared(spark, lines, propose=True)
    assert {name for name, one in found.features.items() if one.differ} == {"age", "score", "fit", "product"}
    for name in ("age", "score", "fit", "product"):
        one = found.features[name]
        assert one.share == pytest.approx(share(lines, day.served(), name), abs=1e-9)
        assert one.causes[0].name == "late row", one.causes
        assert one.causes[0].share > 0.99
        assert "3h late" in one.causes[0].sentence
        assert one.unexplained is not None
        assert one.unexplained < 0.01
    (proposal,) = [one for one in found.proposals if one.view == "user"]
    assert (proposal.available_after, proposal.agreement) == ("3h", pytest.approx(1, abs=0.01))
    assert [one for one in found.proposals if one.view == "item"] == []


@pytest.mark.slow
def test_one_late_partition_is_named(spark: SparkSession, day: Day) -> None:
    lines = day.served(Faults(late_part={"user": (8, timedelta(days=1))}))
    age = day.compared(spark, lines).features["age"]
    assert (age.causes[0].name, age.causes[0].share > 0.99) == ("late row", True)
    assert "1d late" in age.causes[0].sentence
    assert "only for a part of the keys" in age.causes[0].sentence
    assert age.share == pytest.approx(np.mean([part_of(line["u"], 8) == 0 for line in lines]), abs=0.02)


@pytest.mark.slow
def test_failing_look_ups_are_named(spark: SparkSession, day: Day) -> None:
    found = day.compared(spark, day.served(Faults(failing={"item": 0.02})))
    price = found.features["price"]
    assert (price.causes[0].name, price.causes[0].share) == ("no row", 1.0)
    assert price.share == pytest.approx(0.02, abs=0.01)


def test_float16_another_unit_and_another_formula_are_told_apart(spark: SparkSession, day: Day) -> None:
    def wrong(line: dict[str, Any]) -> None:
        line["age"] = float(np.float16(line["age"]))
        line["score"] = line["score"] * 1000
        line["price"] = line["price"] ** 2

    found = day.compared(spark, day.served(Faults(), wrong)).features
    assert [found[name].causes[0].name for name in ("age", "score")] == ["precision", "unit"]
    assert "1000 times as large" in found["score"].causes[0].sentence
    assert found["price"].causes == ()
    assert found["price"].unexplained == 1.0


@pytest.mark.slow
def test_failing_look_ups_in_a_late_store_leave_its_delay_to_be_named(spark: SparkSession, day: Day) -> None:
    faults = Faults(late={"item": timedelta(minutes=30)}, failing={"item": 0.1})
    price = day.compared(spark, day.served(faults)).features["price"]
    assert [one.name for one in price.causes] == ["no row", "late row"]
    assert "30m late" in price.causes[1].sentence


@pytest.mark.slow
def test_a_clock_that_is_two_seconds_ahead_is_named(spark: SparkSession, day: Day) -> None:
    found = day.compared(spark, day.served(Faults(clock=timedelta(seconds=120)))).features["age"]
    assert found.causes[0].name == "early row"
    assert "2m earlier" in found.causes[0].sentence


@pytest.mark.slow
def test_faults_together_are_told_apart(spark: SparkSession, day: Day) -> None:
    faults = Faults(late={"user": timedelta(hours=3)}, failing={"user": 0.05}, lost=0.03, repeated=0.02)
    lines = day.served(faults, lambda line: line.update(age=float(np.float16(line["age"]))))
    found = day.compared(spark, lines)
    age = found.features["age"]
    assert {one.name for one in age.causes} == {"precision", "late row", "no row"}
    assert age.unexplained is not None
    assert age.unexplained < 0.01
    assert found.coverage.not_served / SHOWN == pytest.approx(0.03, abs=0.01)
    assert found.coverage.repeated / SHOWN == pytest.approx(0.02, abs=0.01)


def test_served_lines_without_a_sample_are_looked_up(spark: SparkSession, day: Day) -> None:
    lines = day.served()
    lines[0] = {**lines[0], "impression_id": 12345}
    coverage = day.compared(spark, lines).coverage
    assert (coverage.not_served, coverage.no_sample) == (1, 1)
    assert coverage.why_no_sample == {"not in the log of impressions": 1}


def test_ids_that_went_through_a_double_are_named(spark: SparkSession, day: Day) -> None:
    def rounded(line: dict[str, Any]) -> dict[str, Any]:
        return {**line, "impression_id": int(float(line["impression_id"]))}

    lines = day.served()
    coverage = day.compared(spark, [*map(rounded, lines[:7]), *lines[7:]]).coverage
    assert coverage.why_no_sample == {"rounded to 53 bits, as by a double; log ids as text": 7}
    with pytest.raises(InputError, match="They went through a double, which rounds them; log them as text"):
        day.compared(spark, [line for line in map(rounded, lines) if line not in lines])


@pytest.mark.slow
def test_late_counts_are_named_with_their_delay(spark: SparkSession, day: Day) -> None:
    def late(line: dict[str, Any]) -> None:
        line["shows_6h"] = day.shows(line["i"], (line["at"] - START).total_seconds() - 7200, 6)

    cause = day.compared(spark, day.served(change=late)).features["shows_6h"].causes[0]
    assert cause.name == "late row"
    assert cause.share > 0.97
    assert "2h late" in cause.sentence


@pytest.mark.slow
def test_yesterdays_vocabulary_is_named(spark: SparkSession, day: Day) -> None:
    found = day.compared(spark, day.served(change=lambda line: line.update(place={3: 3, 4: 2}[line["place"]])))
    cause = found.features["place"].causes[0]
    assert (cause.name, cause.share) == ("state", 1.0)
    assert "with version 1 of the fitted state, of 2019-06-03" in cause.sentence


@pytest.mark.slow
def test_the_definition_of_another_day_is_named(spark: SparkSession, day: Day) -> None:
    def old(line: dict[str, Any]) -> None:
        line["red"] = int(line["price"] > 0 and not line["red"])

    cause = day.compared(spark, day.served(change=old)).features["red"].causes[0]
    assert (cause.name, cause.share) == ("definition", 1.0)
    assert "as the samples of 2019-06-04 define it" in cause.sentence


@pytest.mark.slow
def test_failing_look_ups_in_a_static_table_are_named(spark: SparkSession, day: Day) -> None:
    lines = day.served(change=lambda line: line.update(home=line["home"] * (line["n"] % 10 > 0)))
    cause = day.compared(spark, lines).features["home"].causes[0]
    assert (cause.name, cause.share) == ("no row", 1.0)
    assert "as if `home` had no row" in cause.sentence
