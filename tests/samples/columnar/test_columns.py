from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctr_samples.samples.columnar import columns
from ctr_samples.samples.columnar.columns import Integers, Picked, in_order, joint, mixed, plain, usual

_LEAST, _GREATEST = -(2**63), 2**63 - 1


def test_columns_that_do_not_fit_in_one_number_decide_between_rows_whose_first_bits_are_equal() -> None:
    hashes = np.array([_GREATEST, _LEAST, 1, 0, 0])
    assert in_order([np.array([3, 3, 3, 3, 2]), hashes, np.arange(5)]).tolist() == [4, 1, 3, 2, 0]


def test_numbers_are_mixed_as_the_generator_does_from_the_seed_zero() -> None:
    states = (np.arange(3, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)).view(np.int64)
    first = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]  # of SplitMix64
    assert mixed(states).view(np.uint64).tolist() == first


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
    assert in_order([key[:0] for key in keys]).tolist() == []


_LEAVES = [
    (pa.string(), [pa.large_string(), pa.string_view(), pa.string()]),
    (pa.binary(), [pa.large_binary(), pa.binary_view(), pa.binary()]),
    (pa.int64(), [pa.int64()]),
]


@st.composite
def two_types(draw: st.DrawFn, depth: int = 0) -> tuple[pa.DataType, pa.DataType]:
    """A type of 32-bit offsets, and the same type with other offsets in some of its parts."""
    shape = draw(st.sampled_from(["leaf", "leaf", "list", "struct", "map"] if depth < 3 else ["leaf"]))
    if shape == "leaf":
        kind, others = draw(st.sampled_from(_LEAVES))
        return kind, draw(st.sampled_from(others))
    kind, other = draw(two_types(depth=depth + 1))
    if shape == "list":
        return pa.list_(kind), draw(st.sampled_from([pa.list_, pa.large_list]))(other)
    if shape == "struct":
        return pa.struct([("a", kind), ("n", pa.int32())]), pa.struct([("a", other), ("n", pa.int32())])
    key = draw(st.sampled_from([pa.string(), pa.large_string()]))
    return pa.map_(pa.string(), kind), pa.map_(key, other)


def value_of(kind: pa.DataType, number: int) -> Any:
    if number % 5 == 0:
        return None
    if pa.types.is_list(kind):
        return [value_of(kind.value_type, n) for n in range(number, number + number % 3)]
    if pa.types.is_struct(kind):
        return {"a": value_of(kind.field(0).type, number + 1), "n": number}
    if pa.types.is_map(kind):
        return [(f"key {n}", value_of(kind.item_type, n)) for n in range(number, number + number % 3)]
    return number if pa.types.is_integer(kind) else f"{number} ü" if pa.types.is_string(kind) else b"\xff%d" % number


@given(two_types(), st.integers(0, 12))
def test_batches_of_large_types_and_views_become_those_of_32_bit_offsets(
    types: tuple[pa.DataType, pa.DataType], count: int
) -> None:
    kind, other = types
    array = pa.array([value_of(kind, n) for n in range(count)], kind)
    as_given = pa.RecordBatch.from_arrays([array.cast(other)], ["x"])
    (found,) = usual([as_given])
    assert found.equals(pa.RecordBatch.from_arrays([array], ["x"]))


def test_a_batch_with_more_text_than_32_bits_count_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "MOST_BYTES", 100)
    texts = pa.array(["x" * 30] * 7, pa.large_string())
    found = list(usual([pa.RecordBatch.from_arrays([texts], ["x"])]))
    assert len(found) > 2
    assert all(rows.schema.field("x").type == pa.string() for rows in found)
    assert [text for rows in found for text in rows["x"].to_pylist()] == texts.to_pylist()


@pytest.mark.parametrize("kind", [pa.string(), pa.binary()])
def test_rows_of_a_column_with_more_bytes_than_32_bits_count_are_picked_all_the_same(
    kind: pa.DataType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns, "MOST_BYTES", 100)
    column = pa.chunked_array([pa.array([letter * 60, None], kind) for letter in "abc"])
    picked = Picked.of(column)
    assert picked.column.type != kind
    places = np.array([4, 0, 1, 4])
    shared = pa.RecordBatch.from_arrays([picked.shared(places)], ["x"])
    for found in (picked.take(places), plain(shared).column("x")):
        assert found.equals(pa.array(["c" * 60, "a" * 60, None, "c" * 60], kind))


@pytest.mark.parametrize("large", [9, 2**40])
def test_codes_of_several_columns_are_joined_and_a_missing_one_stays_missing_whatever_their_size(large: int) -> None:
    codes = [np.array([large, -1, 5, large, large]), np.array([large, 1, 1, large, 0]), np.array([1, 1, 1, 1, 1])]
    first, missing, second, again, third = joint(codes).tolist()
    assert missing == -1
    assert first == again
    assert len({first, second, third, -1}) == 4
