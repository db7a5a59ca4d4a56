"""Which share of a record each feature takes."""

from __future__ import annotations

import pyarrow as pa

from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.quality.measure.collecting import Collector, Wanted
from ctr_samples.quality.measure.merging import Measures
from ctr_samples.quality.measure.rows import WHOLE, bytes_of

CONTRACT = ExampleContract(
    (
        FeatureSpec("n", "int64"),
        FeatureSpec("vector", "float32", (100,)),
        FeatureSpec("clicked", "int64", role="label", nulls="fail"),
        FeatureSpec("impression_id", "int64", role="key", nulls="fail"),
    )
)


def rows(count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "n": pa.array([1] * count, pa.int64()),
            "vector": pa.array([[0.5] * 100] * count, pa.list_(pa.float32())),
            "clicked": pa.array([0] * count, pa.int64()),
            "impression_id": pa.array([7] * count, pa.int64()),
        }
    )


def test_a_feature_takes_what_it_adds_to_a_record() -> None:
    found = bytes_of(rows(1), CONTRACT)
    # A map entry: tag and length (2), "n" (3), the feature (2), its list (2), the packed value (3). So 12.
    assert found["n"] == 12
    # Entry 4, name 8, feature 3, list 3, packed floats 3 + 400, and a byte more for the length of the record.
    assert 420 <= found["vector"] <= 423
    assert found[WHOLE] > found["n"] + found["vector"]


def test_shares_are_those_of_all_tasks_and_none_for_joined_layouts() -> None:
    tasks = []
    for partition in (0, 1):
        collector = Collector(Wanted(CONTRACT, key="impression_id"), partition)
        collector.observe(rows(3), "train")
        tasks.append(collector.close())
    shares = {name: facts.share for name, facts in Measures.of(tasks).columns(CONTRACT, "feature").items()}
    one = bytes_of(rows(1), CONTRACT)
    assert shares == {"n": one["n"] / one[WHOLE], "vector": one["vector"] / one[WHOLE]}
    dense = ExampleContract((FeatureSpec("features", "float32", (2,)),), layout="dense")
    assert Measures().columns(dense, "feature")["features"].share is None
