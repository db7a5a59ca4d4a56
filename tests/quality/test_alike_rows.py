from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from ctr_samples.quality.measure.rows import Alike, digests


def columns(ids: list[int], vectors: list[list[float]], names: list[str]) -> list[pa.Array]:
    return [pa.array(ids), pa.array(vectors), pa.array(names)]


def test_equal_rows_have_equal_digests_wherever_they_stand() -> None:
    there = digests(columns([1, 2, 1], [[1.0, 2.0], [3.0], [1.0, 2.0]], ["a", "b", "a"]))
    alone = digests(columns([1], [[1.0, 2.0]], ["a"]))
    assert there[0] == there[2] == alone[0]
    assert there[1] != there[0]


def test_rows_that_differ_anywhere_have_different_digests() -> None:
    rows = columns(
        [1, 2, 1, 1, 1, 1, 0],
        [[1.0, 2.0], [1.0, 2.0], [2.0, 1.0], [1.0, 2.0], [1.0], [1.0, 2.0, 0.0], [1.0, 2.0]],
        ["a", "a", "a", "b", "a", "a", "a"],
    )
    assert len(set(digests(rows).tolist())) == 7


def test_a_list_that_ends_is_not_one_that_goes_on_in_the_next_column() -> None:
    one = digests([pa.array([[1, 2]]), pa.array([[3]])])
    other = digests([pa.array([[1]]), pa.array([[2, 3]])])
    assert one[0] != other[0]


def test_shares_of_twins_and_of_conflicts() -> None:
    ids, label = [1, 1, 2, 2, 3], np.array([0, 1, 0, 0, 1])
    found = Alike.of([pa.array(ids)], label)
    assert found.looked_at == 5
    assert found.shares() == (4 / 5, 2 / 5)


def test_no_rows_have_no_twins() -> None:
    assert Alike().shares() == (0.0, 0.0)


def merged(parts: Iterable[Alike]) -> Alike:
    whole = Alike()
    for part in parts:
        whole.merge(part)
    return whole


def test_twins_in_different_tasks_are_found() -> None:
    parts = [Alike.of([pa.array([n, 100])], np.array([n % 2, 0])) for n in range(3)]
    assert merged(parts).shares() == (0.5, 0.0)


def test_the_smallest_digests_tell_the_share_of_all_rows() -> None:
    ids = np.concatenate([np.arange(40_000), np.arange(10_000)])  # 20,000 of 50,000 have a twin
    np.random.default_rng(2).shuffle(ids)
    parts = [Alike.of([pa.array(part)], np.zeros(len(part))) for part in np.split(ids, 5)]
    identical, conflicting = merged(parts).shares()
    assert abs(identical - 0.4) < 0.06
    assert conflicting == 0
