from __future__ import annotations

import numpy as np
import pytest

from ctr_samples.quality.measure.numbers import (
    PRECISION,
    Registers,
    count_distinct,
    distinct_values,
    no_values,
)


def registers_of(numbers: np.ndarray) -> Registers:
    registers = no_values()
    count_distinct(registers, numbers.astype(np.int64).view(np.uint64))
    return registers


def scrambled(bits: np.ndarray) -> np.ndarray:
    """The finalizer of SplitMix64."""
    mixed = bits + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


@pytest.mark.parametrize("count", [0, 1, 2, 10, 100, 1000, 5000, 50_000, 1_000_000])
def test_few_values_are_counted_almost_exactly_and_many_within_three_standard_errors(count: int) -> None:
    error = 0.06 if count <= 100 else 3 * 0.033
    assert distinct_values(registers_of(np.arange(count) * 7 - 3)) == pytest.approx(count, rel=error)


def test_the_error_over_many_columns_is_the_one_that_is_promised() -> None:
    ratios = [distinct_values(registers_of(np.arange(20_000) + 10**9 * column)) / 20_000 for column in range(200)]
    assert np.mean(ratios) == pytest.approx(1, abs=0.01)
    assert np.std(ratios) == pytest.approx(0.033, rel=0.25)


def test_registers_are_those_of_the_definition() -> None:
    numbers = [int(n) for n in np.random.default_rng(3).integers(0, 1 << 63, 3000)]
    by_hand = [0] * (1 << PRECISION)
    for mixed in scrambled(np.array(numbers, np.uint64)).tolist():
        rest = (mixed << PRECISION) % (1 << 64) >> 11
        by_hand[mixed >> (64 - PRECISION)] = max(by_hand[mixed >> (64 - PRECISION)], 54 - rest.bit_length())
    assert registers_of(np.array(numbers)).tolist() == by_hand
