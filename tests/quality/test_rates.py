"""Rates by the values of a column: counted by tasks, merged, and shown with intervals."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.quality.measure.collecting import Collector, Wanted
from ctr_samples.quality.measure.merging import SHOWN_VALUES, Measures
from ctr_samples.quality.measure.rows import MOST_VALUES, ValueCounts
from ctr_samples.quality.metrics import ValueRate
from ctr_samples.quality.report.contents import interval

CONTRACT = ExampleContract(
    (FeatureSpec("price", "float32", nulls="fail"), FeatureSpec("clicked", "int64", role="label", nulls="fail"))
)


def rates(*tasks: list[tuple[str | None, int, str]]) -> tuple[ValueRate, ...]:
    """The rates of tasks, each with values, labels and splits."""
    wanted, returned = Wanted(CONTRACT, "clicked", by={"arm": "_by arm"}), []
    for number, rows in enumerate(tasks):
        collector = Collector(wanted, number)
        for value, clicked, split in rows:
            price = pa.array([0.5], pa.float32())
            row = {"price": price, "clicked": [clicked], "_by arm": pa.array([value], pa.string())}
            collector.observe(pa.record_batch(row), split)
        returned.append(collector.close())
    found = Measures.of(returned).click_rate("clicked", hours=False)
    assert found is not None
    return found.by_column["arm"]


def test_samples_and_positives_are_counted_by_value_over_all_tasks_and_splits() -> None:
    one = [("a", 1, "train"), ("b", 0, "train"), (None, 1, "eval")]
    other = [("a", 0, "eval"), ("a", 1, "train"), ("b", 1, "train")]
    assert rates(one, other) == (ValueRate(3, 2, "a"), ValueRate(2, 1, "b"), ValueRate(1, 1, None))


def test_values_beyond_the_most_frequent_are_counted_together() -> None:
    rows = [(f"v{number:03}", 1, "train") for number in range(SHOWN_VALUES + 3)] + [("often", 0, "train")] * 2
    found = rates(rows)
    assert found[0] == ValueRate(2, 0, "often")
    assert found[-1] == ValueRate(4, 4, None, others=True)
    assert len(found) == SHOWN_VALUES + 1


def test_a_task_tells_a_thousand_values_apart_and_loses_no_sample() -> None:
    counts = ValueCounts()
    counts.observe(pa.array([str(n) for n in range(MOST_VALUES + 20)]), np.ones(MOST_VALUES + 20, np.int64))
    assert len(counts.values) == MOST_VALUES
    assert counts.others == [20, 20]


def test_long_values_and_those_that_are_not_utf_8_are_counted_by_what_can_be_shown() -> None:
    counts = ValueCounts()
    texts = pa.array([b"x" * 500, b"x" * 499 + b"y", b"\xff", None]).view(pa.string())
    counts.observe(texts, np.array([1, 0, 1, 0]))
    assert sorted(map(len, filter(None, counts.values))) == [4, 290, 290]
    assert counts.values["\\xff"] == [1, 1]


@pytest.mark.parametrize(
    ("positives", "samples", "expected"),
    [(0, 10, (0.0, 0.2775)), (5, 10, (0.2366, 0.7634)), (10, 10, (0.7225, 1.0)), (38, 10_000, (0.00277, 0.00521))],
)
def test_the_interval_is_that_of_wilson(positives: int, samples: int, expected: tuple[float, float]) -> None:
    assert interval(positives, samples) == pytest.approx(expected, abs=6e-5)
