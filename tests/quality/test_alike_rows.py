from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.quality.measure.rows import Alike

ROWS = ExampleContract(
    (FeatureSpec("ids", "int64", ()), FeatureSpec("vectors", "float32", None), FeatureSpec("names", "bytes", ()))
)


def kinds(ids: list[int], vectors: list[list[float]], names: list[str]) -> list[int]:
    """How often each kind of row occurs, by its digest."""
    rows = pa.record_batch({"ids": ids, "vectors": vectors, "names": names})
    return [often for often, _ in Alike.of(rows, ROWS, np.zeros(len(ids))).counts.values()]


def of_ids(ids: np.ndarray | list[int], label: np.ndarray) -> Alike:
    contract = ExampleContract((FeatureSpec("id", "int64", ()),))
    return Alike.of(pa.record_batch({"id": ids}), contract, label)


def test_equal_rows_have_equal_digests_wherever_they_stand() -> None:
    assert sorted(kinds([1, 2, 1], [[1.0, 2.0], [3.0], [1.0, 2.0]], ["a", "b", "a"])) == [1, 2]


def test_rows_that_differ_anywhere_have_different_digests() -> None:
    found = kinds(
        [1, 2, 1, 1, 1, 1, 0],
        [[1.0, 2.0], [1.0, 2.0], [2.0, 1.0], [1.0, 2.0], [1.0], [1.0, 2.0, 0.0], [1.0, 2.0]],
        ["a", "a", "a", "b", "a", "a", "a"],
    )
    assert found == [1] * 7


def test_a_missing_value_is_not_the_default_that_stands_for_it() -> None:
    contract = ExampleContract((FeatureSpec("a", "int64", (), nulls="default", default=0),))
    assert Alike.of(pa.record_batch({"a": [None, 0]}), contract, np.zeros(2)).shares() == (0.0, 0.0)


def test_a_list_that_ends_is_not_one_that_goes_on_in_the_next_column() -> None:
    contract = ExampleContract((FeatureSpec("a", "int64", None), FeatureSpec("b", "int64", None)))
    found = Alike.of(pa.record_batch({"a": [[1, 2], [1]], "b": [[3], [2, 3]]}), contract, np.zeros(2))
    assert len(found.counts) == 2


def test_shares_of_twins_and_of_conflicts() -> None:
    ids, label = [1, 1, 2, 2, 3], np.array([0, 1, 0, 0, 1])
    found = of_ids(ids, label)
    assert found.looked_at == 5
    assert found.shares() == (4 / 5, 2 / 5)
    assert Alike().shares() == (0.0, 0.0)


def merged(parts: Iterable[Alike]) -> Alike:
    whole = Alike()
    for part in parts:
        whole.merge(part)
    return whole


def test_twins_in_different_tasks_are_found() -> None:
    parts = [of_ids([n, 100], np.array([n % 2, 0])) for n in range(3)]
    assert merged(parts).shares() == (0.5, 0.0)


def test_the_smallest_digests_tell_the_share_of_all_rows() -> None:
    ids = np.concatenate([np.arange(40_000), np.arange(10_000)])  # 20,000 of 50,000 have a twin
    np.random.default_rng(2).shuffle(ids)
    parts = [of_ids(part, np.zeros(len(part))) for part in np.split(ids, 5)]
    identical, conflicting = merged(parts).shares()
    assert abs(identical - 0.4) < 0.06
    assert conflicting == 0
