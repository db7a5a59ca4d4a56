"""Lists as dense tensors with masks, for frameworks without ragged inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.readers import load_dataset
from tests.support.small_days import published

pytestmark = pytest.mark.thorough

CONTRACT = ExampleContract(
    (
        FeatureSpec("ids", "int64", None, nulls="fail", buckets=9),
        FeatureSpec("words", "bytes", None, nulls="fail"),
        FeatureSpec("number", "float32", nulls="fail"),
        FeatureSpec("clicked", "int64", role="label", nulls="fail"),
        FeatureSpec("impression_id", "int64", role="key", nulls="fail"),
    )
)


def rows(first: int) -> pa.RecordBatch:
    """Fifty rows whose lists have 0, 1, 2, 0, ... values; those of the first ten are empty."""
    lengths = [0 if n < first + 10 else n % 3 for n in range(first, first + 50)]
    return pa.RecordBatch.from_pydict(
        {
            "ids": pa.array([[5] * length for length in lengths], pa.list_(pa.int64())),
            "words": pa.array([["w"] * length for length in lengths], pa.list_(pa.string())),
            "number": pa.array([1.5] * 50, pa.float32()),
            "clicked": pa.array([0] * 50, pa.int64()),
            "impression_id": pa.array(range(first, first + 50), pa.int64()),
        }
    )


@pytest.mark.parametrize("engine", ["native", "tensorflow"])
def test_lists_are_filled_up_to_the_longest_of_the_batch_beside_a_mask(tmp_path: Path, engine: Any) -> None:
    published(tmp_path, CONTRACT, lambda split, first: rows(first))
    dataset = load_dataset(tmp_path, date="2019-06-05", split="train", batch_size=10, engine=engine, pad=True)
    batches = [features for features, _ in dataset]
    assert set(batches[0]) == {"ids", "ids__mask", "words", "words__mask", "number"}
    assert [batches[0][name].shape for name in ("ids", "ids__mask", "number")] == [(10, 0), (10, 0), (10,)]
    second = batches[1]
    assert second["ids"].numpy().tolist()[:3] == [[5, 0], [5, 5], [0, 0]]
    assert second["ids__mask"].numpy().tolist()[:3] == [[1, 0], [1, 1], [0, 0]]
    assert second["words"].numpy().tolist()[:2] == [[b"w", b""], [b"w", b"w"]]
    assert second["words__mask"].dtype == "float32"
    assert dataset.element_spec[0]["ids"].shape.rank == 2
