from __future__ import annotations

import math

import numpy as np
import pytest

from ctr_samples.quality import drift


def points(values: list[float], below: list[float]) -> dict[str, list[float]]:
    return {"at": values, "below": below}


def test_equal_distributions_have_no_divergence_and_disjoint_ones_one_bit() -> None:
    half = np.array([0.5, 0.5, 0.0, 0.0])
    assert drift.jensen_shannon(half, half) == 0
    assert drift.jensen_shannon(half, half[::-1]) == pytest.approx(1)


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
    assert p[-1] > 0.49
    assert drift.jensen_shannon(*drift.binned(points([1000.0, 2000.0], [0.5, 1.0]), before)) == pytest.approx(1)


def test_a_constant_is_compared_like_any_distribution() -> None:
    same, other = points([3.0], [1.0]), points([4.0], [1.0])
    assert drift.jensen_shannon(*drift.binned(same, same)) == 0
    assert drift.jensen_shannon(*drift.binned(other, same)) == pytest.approx(1)


def test_values_are_matched_by_name_and_the_rest_counts_as_one() -> None:
    now = [{"value": "a", "share": 0.5}, {"value": "c", "share": 0.2}]
    before = [{"value": "a", "share": 0.6}, {"value": "b", "share": 0.4}]
    p, q = drift.by_value(now, before)
    assert p.tolist() == pytest.approx([0.5, 0.0, 0.2, 0.3])
    assert q.tolist() == pytest.approx([0.6, 0.4, 0.0, 0.0])
    assert drift.l_infinity(p, q) == pytest.approx(0.4)
