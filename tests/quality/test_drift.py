from __future__ import annotations

import math

import numpy as np
import pytest

from ctr_samples.quality import drift
from ctr_samples.quality.feature_facts import Curve, TopValue


def points(values: list[float], below: list[float], under: list[float] | None = None) -> Curve:
    """By default what lies between two values is all on the upper one."""
    return Curve(tuple(values), (0.0, *below[:-1]) if under is None else tuple(under), tuple(below))


def test_a_divergence_worked_out_by_hand() -> None:
    # p = (1, 0), q = (1/2, 1/2), m = (3/4, 1/4): (log2(4/3) + (log2(2/3) + log2(2)) / 2) / 2.
    by_hand = (math.log2(4 / 3) + (math.log2(2 / 3) + 1) / 2) / 2
    assert drift.jensen_shannon(np.array([1.0, 0.0]), np.array([0.5, 0.5])) == pytest.approx(by_hand)


def test_the_stability_index_worked_out_by_hand() -> None:
    p, q = np.array([0.6, 0.4]), np.array([0.5, 0.5])
    assert drift.stability_index(p, q) == pytest.approx(0.1 * math.log(1.2) - 0.1 * math.log(0.8))


def test_values_that_are_rare_on_both_sides_count_together() -> None:
    p = np.array([0.9, *[0.001] * 100])
    q = np.array([0.9, *[0.0] * 50, *[0.002] * 50])
    assert drift.stability_index(p, q) == pytest.approx(0)


def test_bins_hold_a_twentieth_each_and_one_value_that_is_more_has_its_own() -> None:
    before = points([0.0, 1.0, 2.0], [0.7, 0.8, 1.0])
    p, q = drift.binned(points([0.0, 1.0, 2.0], [0.1, 0.2, 1.0]), before)
    assert q.tolist() == pytest.approx([0.7, 0.1, 0.2, 0.0])
    assert p.tolist() == pytest.approx([0.1, 0.1, 0.8, 0.0])


def test_what_lies_above_all_that_was_seen_before_has_a_bin() -> None:
    before = points([0.0, 1.0], [0.5, 1.0])
    p, _ = drift.binned(points([0.0, 1000.0], [0.5, 1.0]), before)
    assert p[-2:].tolist() == pytest.approx([0.5, 0.0])


SHAPES = {
    "zeros and some prices": points([0.0, 5.0, 20.0, 99.0], [0.96, 0.98, 0.99, 1.0]),
    "all below zero": points([-99.0, -20.0, -5.0], [0.3, 0.6, 1.0]),
    "nothing but 0": points([0.0], [1.0]),
    "nothing but -5": points([-5.0], [1.0]),
    "two far apart": points([-1e9, 1e9], [0.5, 1.0]),
    "evenly": points([float(n) for n in range(101)], [n / 100 for n in range(101)], [n / 100 for n in range(101)]),
    "evenly above": points([n + 200.0 for n in range(101)], [n / 100 for n in range(101)]),
}


@pytest.mark.parametrize("one", SHAPES)
@pytest.mark.parametrize("other", SHAPES)
def test_drift_is_the_same_in_both_directions_and_0_for_equals(one: str, other: str) -> None:
    there, back = (drift.jensen_shannon(*drift.binned(SHAPES[a], SHAPES[b])) for a, b in ((one, other), (other, one)))
    assert there == pytest.approx(back)
    assert (there == pytest.approx(0)) == (one == other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("zeros and some prices", "all below zero"),
        ("nothing but 0", "nothing but -5"),
        ("evenly", "evenly above"),
        ("evenly", "all below zero"),
        ("evenly", "two far apart"),
        ("two far apart", "zeros and some prices"),
    ],
)
def test_distributions_that_share_no_value_are_one_bit_apart_wherever_they_lie(one: str, other: str) -> None:
    assert drift.jensen_shannon(*drift.binned(SHAPES[one], SHAPES[other])) == pytest.approx(1)


def test_the_sizes_of_a_feature_are_those_of_its_values_other_than_0() -> None:
    mostly_nothing = points([-4.0, -2.0, 0.0, 1.0, 3.0], [0.05, 0.1, 0.8, 0.9, 1.0])
    assert drift.sizes(mostly_nothing) == [1.0, 2.0, 3.0]
    assert drift.sizes(points([0.0, 9.0], [0.97, 1.0])) is None


def test_values_are_matched_by_name_and_the_rest_counts_as_one() -> None:
    now = [TopValue("a", 0.5, 0.1), TopValue("c", 0.2, 0.1)]
    before = [TopValue("a", 0.6, 0.1), TopValue("b", 0.4, 0.1)]
    p, q = drift.by_value(now, before)
    assert p.tolist() == pytest.approx([0.5, 0.0, 0.2, 0.3])
    assert q.tolist() == pytest.approx([0.6, 0.4, 0.0, 0.0])
    assert drift.l_infinity(p, q) == pytest.approx(0.4)


def test_a_value_of_many_rows_is_not_spread_over_those_between_it_and_the_one_before() -> None:
    # The same numbers, of which two sketches kept different ones: 1.9 only one of them.
    now = points([0.0, 1.0, 2.0, 3.0], [0.1, 0.5, 0.9, 1.0], [0.0, 0.49, 0.51, 0.99])
    before = points([0.0, 1.0, 1.9, 2.0, 3.0], [0.1, 0.5, 0.51, 0.9, 1.0], [0.0, 0.49, 0.51, 0.51, 0.99])
    assert drift.jensen_shannon(*drift.binned(now, before)) < 0.001
    assert drift.jensen_shannon(*drift.binned(before, now)) < 0.001


def test_sketches_of_one_sample_hardly_drift_apart_whatever_they_keep() -> None:
    from datasketches import kll_doubles_sketch

    from ctr_samples.quality.measure.merging import cdf

    random = np.random.default_rng(3)
    # Half the numbers repeat, as weights that add up do.
    numbers = np.where(random.random(20_000) < 0.5, random.geometric(0.3, 20_000), random.gamma(2, 2, 20_000))
    apart = []
    for _ in range(100):
        sketches = [kll_doubles_sketch(200) for _ in range(2)]
        for sketch in sketches:
            sketch.update(numbers)
        apart.append(drift.jensen_shannon(*drift.binned(*map(cdf, sketches))))
    assert max(apart) < 0.03
