"""Features of an earlier generation: those of the record with the same id, or none at all."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pyarrow as pa
import pytest

from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.errors import UnusableFeatures
from ctr_samples.records.write import shard_writer
from ctr_samples.samples.earlier import EarlierFeatures
from ctr_samples.samples.features.row import SPLITS
from ctr_samples.shards import open_storage
from tests.support.stages import stage_of, table

CONTRACT = ExampleContract(
    (
        FeatureSpec("name", "bytes"),
        FeatureSpec("grid", "float32", (1, 2)),
        FeatureSpec("clicked", "int64", role="label", nulls="fail"),
        FeatureSpec("impression_id", "int64", role="key", nulls="fail"),
    )
)
WRITTEN = {"eval": [3, 4], "train": [1, 2, 5, 6, 7]}


@pytest.fixture(autouse=True)
def first_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    task = SimpleNamespace(partitionId=lambda: 0)
    monkeypatch.setattr("ctr_samples.samples.earlier.current_task", lambda: task)


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> EarlierFeatures:
    """Shards of a few records each; the labels are 0, and some names are missing."""
    storage = open_storage(tmp_path_factory.mktemp("earlier"))
    with shard_writer(storage, "data", CONTRACT, shard_size=100) as writer:
        for split, ids in WRITTEN.items():
            columns = {
                "name": pa.array([None if n == 2 else b"n\xff" if n == 3 else b"n%d" % n for n in ids], pa.binary()),
                "grid": pa.array([None if n == 5 else [n / 2, n] for n in ids], pa.list_(pa.float64())),
                "clicked": pa.array([0] * len(ids)),
                "impression_id": pa.array(ids),
            }
            writer.write(pa.RecordBatch.from_pydict(columns), split)
    return EarlierFeatures(storage, writer.close().shards, CONTRACT)


def found(earlier: EarlierFeatures, shown: list[tuple[str, int]], size: int | None = None) -> list[tuple[object, ...]]:
    """Rows with labels of 1, and what is found for them, in the task of a partition, in batches of a size."""
    of_splits = [(SPLITS.index(split), number, 1) for split, number in shown]
    rows = table("_split tinyint, impression_id bigint, clicked bigint", of_splits)
    samples = earlier.behind(stage_of(rows)).task(iter)(rows.combine_chunks().to_batches(size))
    columns = ("name", "grid", "clicked", "impression_id")
    return [tuple(row[name] for name in columns) for batch in samples for row in batch.to_pylist()]


SAME = [(split, number) for split, ids in WRITTEN.items() for number in ids]


def test_each_row_gets_the_features_of_its_record_and_keeps_its_label(earlier: EarlierFeatures) -> None:
    assert len(earlier.shards) > len(WRITTEN)
    assert found(earlier, SAME) == [
        (b"n\xff", [[1.5, 3.0]], 1, 3),
        (b"n4", [[2.0, 4.0]], 1, 4),
        (b"n1", [[0.5, 1.0]], 1, 1),
        (None, [[1.0, 2.0]], 1, 2),
        (b"n5", None, 1, 5),
        (b"n6", [[3.0, 6.0]], 1, 6),
        (b"n7", [[3.5, 7.0]], 1, 7),
    ]


@pytest.mark.parametrize(
    ("shown", "why"),
    [
        ([*SAME[:3], ("train", 9), *SAME[4:]], "it has other impressions"),
        ([*SAME[:2], *SAME[:1:-1]], "it has other impressions"),
        ([*SAME, ("train", 8)], "it lacks some of the impressions"),
        ([*SAME, ("test", 8)], "it lacks some of the impressions"),
        (SAME[:-1], "it has impressions that are missing now"),
        (SAME[2:], "it has impressions that are missing now"),
    ],
)
def test_other_rows_are_refused(earlier: EarlierFeatures, shown: list[tuple[str, int]], why: str) -> None:
    with pytest.raises(UnusableFeatures, match=why):
        found(earlier, shown)


@pytest.mark.parametrize("size", [1, 2, None])
def test_of_few_rows_each_finds_its_record_and_other_records_are_passed_over(
    earlier: EarlierFeatures, size: int | None
) -> None:
    few, shown = replace(earlier, few=True), [SAME[1], *SAME[2:4], SAME[6]]
    assert [row[3] for row in found(few, shown, size)] == [4, 1, 2, 7]
    with pytest.raises(UnusableFeatures, match="it lacks some of the impressions"):
        found(few, [*shown, ("train", 9)], size)
