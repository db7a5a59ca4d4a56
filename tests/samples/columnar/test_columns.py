from __future__ import annotations

import numpy as np
import pytest

from ctr_samples.samples.columnar.columns import Integers, in_order

_LEAST, _GREATEST = -(2**63), 2**63 - 1


def test_rows_are_sorted_by_the_first_column_then_by_the_next() -> None:
    assert in_order([np.array([1, 0, 1, 0]), np.array([5, 7, -3, 2])]).tolist() == [3, 1, 2, 0]


def test_equal_rows_keep_their_order() -> None:
    assert in_order([np.array([1, 0] * 3), np.array([4, 4] * 3)]).tolist() == [1, 3, 5, 0, 2, 4]


def test_columns_that_do_not_fit_in_one_number_decide_between_rows_whose_first_bits_are_equal() -> None:
    hashes = np.array([_GREATEST, _LEAST, 1, 0, 0])
    assert in_order([np.array([3, 3, 3, 3, 2]), hashes, np.arange(5)]).tolist() == [4, 1, 3, 2, 0]


def test_no_rows_are_in_order() -> None:
    nothing = np.empty(0, np.int64)
    assert in_order([nothing, nothing]).tolist() == []


@pytest.mark.parametrize("seed", range(20))
def test_any_columns_are_sorted_as_by_one_sort_of_each(seed: int) -> None:
    chance = np.random.default_rng(seed)
    ranges = [(0, 2), (-3, 3), (0, 2**40), (_LEAST, _GREATEST), (_GREATEST - 1, _GREATEST), (_LEAST, _LEAST + 2)]

    def column() -> Integers:
        low, high = ranges[chance.integers(len(ranges))]
        some = chance.integers(low, high, 7, endpoint=True)
        return some[chance.integers(0, 7, 500)]  # few values, so that rows are equal

    keys = [column() for _ in range(chance.integers(1, 6))]
    keys.append(chance.integers(0, 2, 500).astype(np.bool_))
    assert in_order(keys).tolist() == np.lexsort(keys[::-1]).tolist()
