"""Keys of several columns, as Arrow makes them beside impressions."""

from __future__ import annotations

import pyarrow as pa

from ctr_samples.samples.views.as_of.joining import key_among


def test_a_key_of_three_columns_has_each_of_them() -> None:
    rows = [("a", "bc", "d"), ("a", "bc", "e"), ("ab", "c", "d"), ("a", "b", "cd"), ("a", None, "d")]
    shown = pa.array([dict(zip(("user", "item", "place"), row, strict=True)) for row in rows])
    keys = key_among(pa.table({"impression": shown}), ["user", "item", "place"])
    assert keys.to_pylist() == ["1:a2:bcd", "1:a2:bce", "2:ab1:cd", "1:a1:bcd", None]
