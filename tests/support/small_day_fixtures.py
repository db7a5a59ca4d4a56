"""Two small published sample sets."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.small_days import CONTRACT, WEIGHTED, published, rows


@pytest.fixture(scope="session")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """400 train and 100 eval samples of 2019-06-05; a sample is clicked when its number is positive, with exceptions."""
    root = tmp_path_factory.mktemp("samples")
    published(root, CONTRACT, lambda split, first: rows(first, 50))
    return root


@pytest.fixture(scope="session")
def weighted_samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, but that two thirds of the negatives of train were left out; and with the reading time, which has a mask."""
    root = tmp_path_factory.mktemp("weighted")

    def kept(split: str, first: int) -> pa.RecordBatch:
        batch = rows(first, 50)
        clicked, ids = (batch.column(name).to_pylist() for name in ("clicked", "impression_id"))
        down_sampled = [split == "train" and not click for click in clicked]
        batch = batch.append_column("sample_weight", pa.array([3.0 if d else 1.0 for d in down_sampled], pa.float32()))
        batch = batch.append_column("read_ms", pa.array([100.0 * c for c in clicked], pa.float32()))
        batch = batch.append_column("read_ms__mask", pa.array(clicked, pa.int64()))
        return batch.filter(pa.array([not d or i % 3 == 0 for d, i in zip(down_sampled, ids, strict=True)]))

    published(root, WEIGHTED, kept, sampling={"rate": 1 / 3})
    return root
