"""The order in which the sink takes samples."""

import pyarrow as pa
import pytest

from ctr_samples.samples.features import SHUFFLE
from ctr_samples.samples.sink import _in_order

FIRST = ("", -(2**63))


def rows(*places: int) -> pa.RecordBatch:
    return pa.record_batch({SHUFFLE: pa.array(places, pa.int64())})


def test_each_split_is_in_the_order_of_its_hashes() -> None:
    last = _in_order("eval", rows(-5, 3, 3), FIRST)
    last = _in_order("eval", rows(3, 9), last)
    assert _in_order("train", rows(-7, 8), last) == ("train", 8)


@pytest.mark.parametrize(
    ("split", "places"),
    [("train", (1, 0)), ("train", (-6, 2)), ("eval", (9, 10))],
    ids=["inside a batch", "between two batches", "a split comes again"],
)
def test_samples_out_of_their_order_are_refused(split: str, places: tuple[int, ...]) -> None:
    last = _in_order("train", rows(-8, -5), FIRST)
    with pytest.raises(RuntimeError, match="not in their final order"):
        _in_order(split, rows(*places), last)
