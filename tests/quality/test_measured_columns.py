from __future__ import annotations

import json
import math
import pickle
from dataclasses import asdict

import numpy as np
import pyarrow as pa
import pytest

from ctr_samples.contract import FeatureSpec
from ctr_samples.quality.measure.merging import facts as facts_of
from ctr_samples.quality.measure.numbers import CHUNK, LONGEST, ColumnMeasures, ColumnMoments, Flat


def observed(*batches: pa.Array, default: float | str | None = None) -> ColumnMeasures:
    column = ColumnMeasures()
    for batch in batches:
        column.observe(batch, default)
    return column


def test_numbers_are_counted_exactly() -> None:
    column = observed(pa.array([3, 0, None, -2, 0, 7], pa.int64()))
    facts = column.moments
    assert (column.rows, column.nulls, facts.values, facts.zeros) == (6, 1, 5, 2)
    assert (facts.min, facts.max) == (-2, 7)
    assert facts.mean == pytest.approx(1.6)
    assert facts.std == pytest.approx(np.std([3, 0, -2, 0, 7]))


def test_nan_and_infinity_are_counted_and_leave_the_other_facts_alone() -> None:
    facts = observed(pa.array([1.0, math.nan, 3.0, math.inf, -math.inf], pa.float32())).moments
    assert (facts.values, facts.nan, facts.infinite, facts.finite) == (5, 1, 2, 2)
    assert (facts.min, facts.max, facts.mean) == (1.0, 3.0, 2.0)


def test_a_column_of_nothing_but_nan_has_no_least_value() -> None:
    found = facts_of(observed(pa.array([math.nan, math.nan])), FeatureSpec("x", "float32", ()))
    assert (found.min, found.max, found.std) == (None, None, None)


@pytest.mark.parametrize("kind", [pa.int8(), pa.int32(), pa.uint8(), pa.int64(), pa.float32(), pa.float64()])
def test_the_extremes_of_each_type_are_found_wherever_they_stand(kind: pa.DataType) -> None:
    numbers = np.full(1001, 5).astype(kind.to_pandas_dtype())
    for low, high in ((0, 1000), (1000, 0), (500, 501), (3, 996)):
        changed = numbers.copy()
        changed[low], changed[high] = 1, 99
        facts = observed(pa.array(changed, kind)).moments
        assert (facts.min, facts.max) == (1, 99)


def test_the_extremes_of_integers_are_exact_beyond_what_a_double_holds() -> None:
    facts = observed(pa.array([2**62 + 1, -(2**63), 2**63 - 1])).moments
    assert (facts.min, facts.max) == (-(2**63), 2**63 - 1)
    assert json.loads(json.dumps(facts.max)) == 2**63 - 1


def filled(column: pa.Array, label: list[int], default: float | str | None = None) -> list[list[int]]:
    """Rows without and with a value, of each those of both labels."""
    found = ColumnMeasures()
    found.look(column, np.array(label), default, as_numbers=True, as_values=False)
    return found.filled.tolist()


@pytest.mark.parametrize(
    ("column", "default"),
    [
        (pa.array([None, 1.0, 2.0, None]), None),
        (pa.array([math.nan, 1.0, 2.0, math.nan]), None),
        (pa.array([None, 1.0, 2.0, math.nan]), None),
        (pa.array([0.0, 1.0, 2.0, 0.0]), 0.0),
        (pa.array([0, 1, 2, 0]), 0),
        (pa.array([[], [1], [2, 3], []], pa.list_(pa.int64())), None),
        (pa.array([[0, 0], [1, 0], [0, 2], [0, 0]], pa.list_(pa.float32())), 0),
        (pa.array([None, [None, 1], [2], [None]], pa.list_(pa.int64())), None),
        (pa.array([b"none", b"a", b"b", b"none"]), "none"),
    ],
)
def test_rows_without_a_value_and_those_with_its_default_are_not_filled(
    column: pa.Array, default: float | str | None
) -> None:
    assert filled(column, [0, 1, 0, 0], default) == [[2, 0], [1, 1]]


def test_a_mean_far_from_zero_does_not_spoil_the_deviation() -> None:
    numbers = 1.5e9 + np.tile([0.0, 1.0], 3 * CHUNK)
    assert observed(pa.array(numbers)).moments.std == pytest.approx(0.5)


def test_merged_moments_are_those_of_all_numbers() -> None:
    numbers = np.random.default_rng(0).normal(5, 2, 10_000)
    whole, parts = ColumnMoments(), ColumnMoments()
    whole.observe(numbers)
    for part in np.split(numbers, [1, 17, 17, 6000]):
        alone = ColumnMoments()
        alone.observe(part)
        parts.merge(alone)
    assert (parts.values, parts.min, parts.max) == (whole.values, whole.min, whole.max)
    assert parts.mean == pytest.approx(whole.mean, rel=1e-12)
    assert parts.std == pytest.approx(numbers.std(), rel=1e-12)


@pytest.mark.parametrize(
    ("column", "values", "lengths", "nulls"),
    [
        (pa.array([[1, 2], None, [], [3]]), [1, 2, 3], [2, 0, 0, 1], 1),
        (pa.array([[1, None], [None], [3]]), [1, 3], [1, 0, 1], 0),
        (pa.array([[[1, 2], [3]], [], [[4], None]]), [1, 2, 3, 4], [3, 0, 1], 0),
        (pa.array([[9], [1, 2], None, [], [3]]).slice(1), [1, 2, 3], [2, 0, 0, 1], 1),
        (pa.array([[1, 2], [3, 4]], pa.list_(pa.int64(), 2)), [1, 2, 3, 4], [2, 2], 0),
        (pa.array([5, None, 6]), [5, 6], [1, 0, 1], 1),
        (pa.array([5, 6]), [5, 6], None, 0),
    ],
)
def test_lists_are_taken_apart(column: pa.Array, values: list[int], lengths: list[int] | None, nulls: int) -> None:
    flat = Flat.of(column)
    assert flat.values.to_pylist() == values
    assert (None if flat.lengths is None else flat.lengths.tolist()) == lengths
    assert flat.nulls == nulls


def test_lists_have_a_shortest_and_a_longest() -> None:
    column = observed(pa.array([[1, 2], [], [3]]), pa.array([[1, 2, 3]]))
    assert (column.shortest, column.longest, column.moments.values) == (0, 3, 6)


@pytest.mark.parametrize(
    ("column", "default", "rows"),
    [
        (pa.array([0, 1, 0]), 0, 2),
        (pa.array([[0.0, 0.0], [0.0, 1.0], [], [0.0, 0.0]], pa.list_(pa.float32())), 0.0, 2),
        (pa.array(["", "a", ""]), "", 2),
        (pa.array([b"none", b"a"]), "none", 1),
        (pa.array([None, 0]), 0, 1),
    ],
)
def test_rows_of_nothing_but_the_default_are_counted(column: pa.Array, default: float | str, rows: int) -> None:
    assert observed(column, default=default).defaults == rows


def looked_at(numbers: pa.Array, label: list[int] | None = None, **how: bool) -> ColumnMeasures:
    column = ColumnMeasures()
    column.look(numbers, None if label is None else np.array(label), **{"as_numbers": True, "as_values": False, **how})
    return column


def test_quantiles_of_few_numbers_are_exact() -> None:
    sketch = looked_at(pa.array([float(n) for n in range(101)])).quantiles.whole
    assert sketch.get_quantiles([0.0, 0.5, 1.0]) == [0.0, 50.0, 100.0]


def test_the_most_frequent_values_are_counted_with_their_positives() -> None:
    column = looked_at(pa.array(["a", "b", "a", "c"]), [1, 0, 0, 1], as_numbers=False, as_values=True)
    assert column.frequent.first() == [("a", 2, 1), ("b", 1, 0), ("c", 1, 1)]
    assert (column.frequent.seen, column.frequent.positives) == (4, 2)


def test_a_label_counts_for_each_value_of_a_list() -> None:
    column = looked_at(pa.array([[7, 8], [], [8]]), [1, 1, 0], as_numbers=False, as_values=True)
    assert column.frequent.first() == [(8, 2, 1), (7, 1, 1)]


def test_what_a_task_returns_is_read_back_as_it_was() -> None:
    column = observed(pa.array([[1, 2], None, [4]]), default=0)
    column.look(pa.array([1, 2, 4]), np.array([0, 1, 0]), as_numbers=True, as_values=True)
    again = pickle.loads(pickle.dumps(column))
    assert pickle.dumps(again) == pickle.dumps(column)
    assert again.quantiles.whole.get_quantiles([0.0, 0.5, 1.0]) == [1.0, 2.0, 4.0]
    assert again.frequent.first() == [(1, 1, 0), (2, 1, 1), (4, 1, 0)]


def test_columns_of_two_tasks_merge_to_that_of_all_rows() -> None:
    first, second = pa.array([5, None, 5, 6]), pa.array([6, 7])
    whole = observed(first, second)
    merged = observed(first)
    merged.merge(observed(second))
    np.testing.assert_equal(asdict(merged), asdict(whole))


@pytest.mark.parametrize("kind", [pa.binary(), pa.string(), pa.large_string()])
def test_of_a_long_text_only_the_beginning_is_kept_and_long_texts_are_told_apart(kind: pa.DataType) -> None:
    column = ColumnMeasures()
    texts = [b"x" * 1_000_000, b"x" * 999_999 + b"y", b"short", b"x" * 1_000_000]
    column.look(pa.array(texts, pa.binary()).cast(kind), None, as_numbers=False, as_values=True)
    counts = column.frequent.first()
    assert [often for _, often, _ in counts] == [2, 1, 1]
    assert counts[1][0] == "short"
    for long, _, _ in (counts[0], counts[2]):
        assert long.startswith("x" * LONGEST + "... (1,000,000 bytes, checksum ")
        assert len(long) < LONGEST + 50
