"""The order in which the sink takes samples, and how many at a time."""

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.samples.features import SHUFFLE
from ctr_samples.samples.sink import _in_order, limit_batches
from ctr_samples.sparksql.session import run_session

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


@pytest.mark.parametrize(
    ("feature", "rows", "size"),
    [
        (FeatureSpec("vector", "float32", (100_000,)), "10", str(2**31 - 1)),
        (FeatureSpec("vector", "float32", (8,)), "10000", str(2**31 - 1)),
        (FeatureSpec("vector", "float32", (5 * 10**8,)), "1", str(2**31 - 1)),
        (FeatureSpec("words", "bytes"), "10000", "8388608"),
        (FeatureSpec("ids", "int64", None), "10000", "8388608"),
        (FeatureSpec("ids", "int64", (3,), sequence=True), "10000", "8388608"),
    ],
)
def test_rows_limit_a_batch_where_the_contract_limits_a_row(
    spark: SparkSession, feature: FeatureSpec, rows: str, size: str
) -> None:
    session = run_session(spark, "UTC")
    limit_batches(session, ExampleContract((FeatureSpec("y", "float32", role="label"), feature)))
    limits = ("spark.sql.execution.arrow.maxRecordsPerBatch", "spark.sql.execution.arrow.maxBytesPerBatch")
    assert [session.conf.get(limit) for limit in limits] == [rows, size]
