"""Features of an earlier generation: those of the record with the same id, or none at all."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.records.write import shard_writer
from ctr_samples.samples.columnar.stages import Stage
from ctr_samples.samples.earlier import EarlierFeatures
from ctr_samples.shards import open_storage

CONTRACT = ExampleContract(
    (
        FeatureSpec("name", "bytes"),
        FeatureSpec("grid", "float32", (1, 2)),
        FeatureSpec("clicked", "int64", role="label", nulls="fail"),
        FeatureSpec("impression_id", "int64", role="key", nulls="fail"),
    )
)
TYPES = "name string, grid array<double>, clicked bigint, impression_id bigint, _split string"
WRITTEN = {"eval": [3, 4], "train": [1, 2, 5, 6, 7]}


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


def found(spark: SparkSession, earlier: EarlierFeatures, shown: list[tuple[str, int]]) -> list[tuple[object, ...]]:
    """Rows with labels of 1, and what is found for them."""
    rows = [(split, number, 1) for split, number in shown]
    frame = spark.createDataFrame(rows, "_split string, impression_id bigint, clicked bigint").coalesce(1)
    columns = ["cast(name as binary)", "grid", "clicked", "impression_id"]
    with_features = earlier.behind(Stage.of(frame)).each(_plain, StructType.fromDDL(TYPES)).rows()
    return [tuple(row) for row in with_features.selectExpr(*columns).collect()]


def _plain(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows whose columns have the types and the order that Spark expects."""
    flat = [
        row if row is None else [number for part in row for number in part] for row in rows.column("grid").to_pylist()
    ]
    names = [part.split()[0] for part in TYPES.split(", ")]
    columns = {name: rows.column(name) for name in names} | {"grid": pa.array(flat, pa.list_(pa.float64()))}
    columns["name"] = columns["name"].cast(pa.string(), safe=False)
    return pa.RecordBatch.from_pydict(columns)


SAME = [(split, number) for split, ids in WRITTEN.items() for number in ids]


def test_each_row_gets_the_features_of_its_record_and_keeps_its_label(
    spark: SparkSession, earlier: EarlierFeatures
) -> None:
    assert len(earlier.shards) > len(WRITTEN)
    assert found(spark, earlier, SAME) == [
        (bytearray(b"n\xff"), [1.5, 3.0], 1, 3),
        (bytearray(b"n4"), [2.0, 4.0], 1, 4),
        (bytearray(b"n1"), [0.5, 1.0], 1, 1),
        (None, [1.0, 2.0], 1, 2),
        (bytearray(b"n5"), None, 1, 5),
        (bytearray(b"n6"), [3.0, 6.0], 1, 6),
        (bytearray(b"n7"), [3.5, 7.0], 1, 7),
    ]


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("shown", "why"),
    [
        ([*SAME[:3], ("train", 9), *SAME[4:]], "it has other impressions"),
        ([*SAME[:2], *SAME[:1:-1]], "it has other impressions"),
        ([*SAME, ("train", 8)], "it lacks some of the impressions"),
        ([*SAME, ("zebra", 8)], "it lacks some of the impressions"),
        (SAME[:-1], "it has impressions that are missing now"),
        (SAME[2:], "it has impressions that are missing now"),
    ],
)
def test_other_rows_are_refused(
    spark: SparkSession, earlier: EarlierFeatures, shown: list[tuple[str, int]], why: str
) -> None:
    with pytest.raises(PythonException, match=f"ctr_samples.errors.UnusableFeatures: {why}"):
        found(spark, earlier, shown)
