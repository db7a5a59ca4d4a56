"""Batches of torch tensors, from data loaders too. `make test-recipes` runs this in an environment that has torch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ctr_samples.readers import Batch, Ragged, Sparse, iter_batches
from tests.support.kinds_of_columns import CONTRACTS, rows_for
from tests.support.small_days import published

torch: Any = pytest.importorskip("torch")


class Samples(torch.utils.data.IterableDataset):  # type: ignore[misc]
    """What each worker of a loader reads of a day."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def __iter__(self) -> Iterator[Batch]:
        worker = torch.utils.data.get_worker_info()
        return read(self.root, (worker.id, worker.num_workers) if worker else (0, 1))


def read(root: Path, shard: tuple[int, int] = (0, 1)) -> Iterator[Batch]:
    return iter_batches(root, date="2019-06-05", split="train", batch_size=32, shard=shard, as_="torch", threads=1)


def leaves(column: Any) -> list[Any]:
    """The arrays and tensors of a column."""
    if isinstance(column, Sparse):
        return [*leaves(column.indices), *leaves(column.values)]
    return [*leaves(column.values), column.row_splits] if isinstance(column, Ragged) else [column]


def publish(root: Path, layout: str) -> None:
    published(root, CONTRACTS[layout], lambda split, first: rows_for(CONTRACTS[layout], first, 50))


def test_columns_are_tensors_over_the_same_memory_and_texts_are_bytes(samples: Path) -> None:
    batch = next(read(samples))
    assert batch.features["vector"].shape == (32, 2)
    assert batch.labels["clicked"].dtype == torch.int64
    assert batch.features["name"][:2].tolist() == [b"n0", b"n1"]


@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true but no accelerator is found:UserWarning")
@pytest.mark.parametrize("layout", ["sequence", "sparse"])
def test_workers_hand_over_every_kind_of_column(layout: str, tmp_path: Path) -> None:
    publish(tmp_path, layout)
    loader = torch.utils.data.DataLoader(
        Samples(tmp_path), batch_size=None, num_workers=2, pin_memory=True, multiprocessing_context="forkserver"
    )
    expected = [batch for pair in zip(read(tmp_path, (0, 2)), read(tmp_path, (1, 2)), strict=True) for batch in pair]
    for batch, other in zip(loader, expected, strict=True):
        assert batch.features.keys() == other.features.keys()
        for name, column in batch.features.items():
            for one, two in zip(leaves(column), leaves(other.features[name]), strict=True):
                assert type(one) is type(two)
                np.testing.assert_array_equal(one, two)


def test_pinning_reaches_the_tensors_of_lists_and_passes_texts_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor + 1000)  # pinning itself needs an accelerator
    publish(tmp_path / "sequence", "sequence")
    features = next(read(tmp_path / "sequence")).features
    lists = {name: column for name, column in features.items() if isinstance(column, Ragged)}
    assert {"ids", "lists"} < lists.keys()
    for column in lists.values():
        for one, pinned in zip(leaves(column), leaves(column.pin_memory()), strict=True):
            assert pinned is one if one.dtype == object else torch.equal(pinned, one + 1000)
    publish(tmp_path / "sparse", "sparse")
    row = next(read(tmp_path / "sparse")).features["features"]
    assert all(
        torch.equal(*pair) for pair in zip(leaves(row.pin_memory()), [x + 1000 for x in leaves(row)], strict=True)
    )
