"""What a later generation says of the labels that flipped since the one before. No Spark: shards and arrays only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.job import manifest_facts as versions
from ctr_samples.job.manifest_facts import flips_since
from ctr_samples.records.write import shard_writer
from ctr_samples.shards import Manifest, Shard, Storage, open_storage
from tests.support.manifests import manifest as small_manifest

CLICKED = FeatureSpec("clicked", "int64", role="label", nulls="fail")
READ = FeatureSpec("read_ms", "float32", role="label", nulls="fail")
MASK = FeatureSpec("read_ms__mask", "int64", role="mask", nulls="fail")
KEY = FeatureSpec("impression_id", "int64", role="key", nulls="fail")
FEATURE = FeatureSpec("price", "float32", (2,))
CONTRACT = ExampleContract((FEATURE, CLICKED, READ, MASK, KEY))

Sample = tuple[int, int, float | None]
"""Impression, clicked, milliseconds read."""

BEFORE: list[Sample] = [(2**62 + 1, 0, None), (-5, 1, 10.0), (7, 0, 20.0), (8, 1, None), (9, 0, 0.0)]
AFTER: list[Sample] = [
    (7, 1, 25.0), (-5, 1, 10.0), (2**62 + 1, 1, 3.0), (9, 0, None), (2**62 + 2, 1, 1.0), (3, 0, None)
]  # fmt: skip


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(tmp_path)


def written(
    storage: Storage, run: str, samples: Iterable[Sample], contract: ExampleContract = CONTRACT, size: int = 2
) -> tuple[Shard, ...]:
    """Shards of two samples each."""
    rows = [
        {"clicked": c, "read_ms": ms or 0.0, "read_ms__mask": int(ms is not None), "impression_id": n, "price": [0, 1]}
        for n, c, ms in samples
    ]
    types = {"price": pa.list_(pa.float32(), 2), "read_ms": pa.float32()}
    schema = pa.schema([(f.name, types.get(f.name, pa.int64())) for f in contract.features])
    shards: list[Shard] = []
    for partition, first in enumerate(range(0, len(rows), size)):
        with shard_writer(storage, f"dt=2019-06-05/data/{run}", contract, partition=partition) as writer:
            writer.write(pa.RecordBatch.from_pylist(rows[first : first + size], schema), "train")
        shards += writer.close().shards
    return tuple(shards)


def manifest(shards: tuple[Shard, ...]) -> Manifest:
    return small_manifest(CONTRACT, generation=4, shards=shards, label_mature=False)


def test_labels_that_flipped_and_impressions_that_came_or_went_are_counted_against_the_generation_before(
    storage: Storage,
) -> None:
    before = manifest(written(storage, "20190606T020000-aaaaaaaa", BEFORE))
    after = written(storage, "20190607T020000-bbbbbbbb", AFTER)
    assert flips_since(before, storage, after, CONTRACT) == {
        "clicked": {"flipped_to_1": 2, "flipped_to_0": 0, "new": 2, "gone": 1, "against": 4},
        "read_ms": {"flipped_to_1": 1, "flipped_to_0": 1, "changed": 1, "new": 2, "gone": 1, "against": 4},
    }
    final = flips_since(replace(before, label_mature=True), storage, after, CONTRACT, final=True)
    assert (final["clicked"]["flipped_to_1"], final["clicked"]["final"]) == (2, True)
    assert flips_since(None, storage, after, CONTRACT) == {}
    same = written(storage, "20190607T020000-cccccccc", BEFORE[::-1], size=3)
    nothing = {"flipped_to_1": 0, "flipped_to_0": 0, "new": 0, "gone": 0, "against": 4}
    assert flips_since(before, storage, same, CONTRACT) == {"clicked": nothing, "read_ms": {**nothing, "changed": 0}}


@pytest.mark.parametrize(("old", "new", "came", "went"), [([], BEFORE, 5, 0), (BEFORE, [], 0, 5)])
def test_a_generation_without_samples_is_compared_too(
    storage: Storage, old: list[Sample], new: list[Sample], came: int, went: int
) -> None:
    before = manifest(written(storage, "20190606T020000-aaaaaaaa", old))
    found = flips_since(before, storage, written(storage, "20190607T020000-bbbbbbbb", new), CONTRACT)
    assert found["clicked"] == {"flipped_to_1": 0, "flipped_to_0": 0, "new": came, "gone": went, "against": 4}


def test_features_may_differ_but_labels_may_not(storage: Storage) -> None:
    before = manifest(written(storage, "20190606T020000-aaaaaaaa", BEFORE))
    fewer = ExampleContract((CLICKED, READ, MASK, KEY))
    other = ExampleContract((FEATURE, replace(CLICKED, name="bought"), READ, MASK, KEY))
    after = written(storage, "20190607T020000-bbbbbbbb", AFTER, fewer)
    assert flips_since(before, storage, after, fewer)["clicked"]["flipped_to_1"] == 2
    assert flips_since(before, storage, after, other) == {}


def test_too_many_samples_are_not_compared_and_that_is_said(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "MOST_COMPARED", 5)
    before = manifest(written(storage, "20190606T020000-aaaaaaaa", BEFORE))
    after = written(storage, "20190607T020000-bbbbbbbb", AFTER)
    why = "6 samples are more than the 5 that are compared"
    assert flips_since(before, storage, after, CONTRACT)["clicked"] == {"against": 4, "not_compared": why}


def test_old_shards_that_are_gone_are_said_and_do_not_stop_the_run(storage: Storage) -> None:
    shards = written(storage, "20190606T020000-aaaaaaaa", BEFORE)
    place = Path(storage.locate(shards[1].path))
    place.unlink()
    found = flips_since(manifest(shards), storage, shards[:1], CONTRACT)
    why = f"{place} is missing, though the manifest lists it; restore it, or run again."
    assert found == {name: {"against": 4, "not_compared": why} for name in ("clicked", "read_ms")}
