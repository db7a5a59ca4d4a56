"""When two values are equal, near or different."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ctr_samples.contract import FeatureSpec
from ctr_samples.errors import InputError
from ctr_samples.served.columns import Column, Tolerance, compared
from ctr_samples.served.log import plain

FLOAT, INTEGER, TEXT = FeatureSpec("x", "float32"), FeatureSpec("x", "int64"), FeatureSpec("x", "bytes")
VECTOR, LIST = FeatureSpec("x", "float32", (2,)), FeatureSpec("x", "int64", None)
LARGE = 2**60


def column(spec: FeatureSpec, *values: Any) -> Column:
    return Column.of(plain(pa.array(list(values)), spec, "x"), spec)


@pytest.mark.parametrize(
    ("spec", "mine", "theirs", "verdict"),
    [
        (FLOAT, 0.1, 0.1, "equal"),
        (FLOAT, 0.1, float(np.float32(0.1)), "equal"),
        (FLOAT, 1.0, float(np.nextafter(np.float32(1), np.float32(2))), "near"),
        (FLOAT, 1.0, 1.001, "different"),
        (FLOAT, 0.0, -0.0, "equal"),
        (FLOAT, float("nan"), float("nan"), "equal"),
        (FLOAT, float("inf"), float("inf"), "equal"),
        (FLOAT, float("inf"), 1.0, "different"),
        (FLOAT, None, None, "equal"),
        (FLOAT, 0.0, None, "different"),
        (FLOAT, 2.0, "2.0", "equal"),
        (FLOAT, 1.0, True, "equal"),
        (INTEGER, 3, 3.0, "equal"),
        (INTEGER, 3, 3.5, "different"),
        (INTEGER, LARGE, LARGE + 1, "different"),
        (INTEGER, LARGE, str(LARGE), "equal"),
        (TEXT, "ann", b"ann", "equal"),
        (TEXT, "ann", "bob", "different"),
        (TEXT, "7", 7, "equal"),
        (VECTOR, [1.0, 2.0], [1, 2], "equal"),
        (VECTOR, [1.0, 2.0], [1.0, 2.5], "different"),
        (VECTOR, [1.0, 2.0], [1.0], "different"),
        (LIST, [], [], "equal"),
        (LIST, [1, 2], [2, 1], "different"),
        (LIST, [1, 2], [1, 2, 3], "different"),
        (LIST, None, [], "different"),
    ],
)
def test_two_values_compare(spec: FeatureSpec, mine: Any, theirs: Any, verdict: str) -> None:
    found = compared(column(spec, mine), column(spec, theirs), Tolerance())
    assert ("equal" if found.equal[0] else "near" if found.near[0] else "different") == verdict


@pytest.mark.parametrize(("mine", "theirs"), [(1.0, 1.05), (-3.0, -3.09)])
def test_a_declared_tolerance_makes_numbers_near(mine: float, theirs: float) -> None:
    assert compared(column(FLOAT, mine), column(FLOAT, theirs), Tolerance(0.1)).near[0]
    assert not compared(column(FLOAT, mine), column(FLOAT, theirs), Tolerance(0.01)).agree[0]


@pytest.mark.parametrize(
    ("spec", "mine", "theirs", "is_equal"),
    [
        (FLOAT, float("nan"), None, True),
        (FLOAT, float("inf"), None, False),
        (FLOAT, 1.0, None, False),
        (FLOAT, None, float("nan"), False),
        (VECTOR, [float("nan"), 1.0], None, False),
        (VECTOR, [float("nan"), 1.0], [None, 1.0], True),
    ],
)
def test_null_in_a_table_stands_for_nan(spec: FeatureSpec, mine: Any, theirs: Any, is_equal: bool) -> None:
    found = compared(column(spec, mine), column(spec, theirs), Tolerance(null_is_nan=True))
    assert found.equal[0] == is_equal
    if theirs is None:
        assert not compared(column(spec, mine), column(spec, theirs), Tolerance()).equal[0], "tf.Examples have NaN"


def test_rows_are_taken_in_any_order() -> None:
    taken = column(LIST, [1], [2, 3], None, []).take(np.array([3, 1, 1, 2]))
    assert compared(taken, column(LIST, [], [2, 3], [2, 3], None), Tolerance()).equal.all()


def test_matrices_are_compared_element_by_element() -> None:
    spec = FeatureSpec("x", "float32", (2, 2))
    mine = Column.of(pa.array([[[1.0, 2.0], [3.0, 4.0]]], pa.list_(pa.list_(pa.float32(), 2), 2)), spec)
    assert compared(mine, Column.of(pa.array([[1.0, 2.0, 3.0, 4.0]]), spec), Tolerance()).equal[0]


def test_words_for_a_number_are_refused() -> None:
    with pytest.raises(InputError, match="x is string; expected numbers, as the samples have them"):
        column(FLOAT, "old")
