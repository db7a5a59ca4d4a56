"""What is assembled online is byte for byte what the job wrote, for every kind of feature and every layout."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import xxhash
from pyspark.sql import SparkSession

from ctr_samples.codec import ExampleDecoder, RecordReader
from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.errors import EncodeError, InputError, UsageError
from ctr_samples.serving import Assembler, load_assembler
from ctr_samples.serving.declared import Declared
from ctr_samples.serving.hashing import MISSING, bucket_of, prefix_of, xxh64
from ctr_samples.serving.values import feature_of
from tests.serving.assemblers import small
from tests.serving.served_day import DAY, FEATURES, Served, publish
from tests.support.manifests import manifest

Record = tuple[bytes, dict[str, Any]]
LISTS = {"word_hot"}


def written(served: Served) -> list[Record]:
    """The message of each published record, and what it says."""
    decoder = ExampleDecoder(ExampleContract.from_dict(dict(served.manifest.contract)))
    records: list[Record] = []
    for shard in served.manifest.shards:
        with (served.root / shard.path).open("rb") as file:
            for chunk in RecordReader(file):
                messages = [bytes(chunk.records(n, n + 1)[12:-4]) for n in range(len(chunk))]
                records += zip(messages, decoder.decode(chunk.buffer).to_pylist(), strict=True)
    return records


def others(assembler: Assembler, row: Mapping[str, Any]) -> dict[str, Any]:
    return {f.name: row[f.name] for f in assembler.contract.features if f.role != "feature"}


@pytest.mark.slow  # each published set has features of every kind
@pytest.mark.parametrize("layout", FEATURES)
def test_every_sample_is_assembled_to_the_bytes_that_the_job_wrote(
    spark: SparkSession, tmp_path: Path, layout: str
) -> None:
    served = publish(spark, tmp_path, layout)
    assembler = load_assembler(str(served.root), date=str(DAY), lists=LISTS)
    matches = []
    for message, row in written(served):
        beside = others(assembler, row)
        users = [row["user"].decode()] if "user" in row else served.rows
        made = {(user, assembler.assemble(i, r, g | beside)) for user in users for i, r, g in [served.rows[user]]}
        matches.append({user for user, example in made if example == message})
    assert all(matches)
    assert len(set.union(*matches)) >= len(matches) > 40
    if layout == "columns":  # the others have neither all views nor SQL
        for _, rows, given in served.rows.values():
            assembler.check(rows, given)


FEW = {
    "price": {"from": "impression.price", "dtype": "float32"},
    "count": {"from": "impression.count", "dtype": "int64"},
    "city": {"from": "impression.city", "dtype": "int64", "hash_buckets": 9},
    "hour": {"from": "impression.at", "dtype": "int64", "date_part": "hour"},
    "words": {"from": "impression.words", "dtype": "int64", "hash_buckets": 9, "ragged": True},
    "hot": {"from": "impression.words", "dtype": "float32", "hash_buckets": 5, "multi_hot": True, "shape": [5]},
    "matrix": {"from": "impression.matrix", "dtype": "float32", "shape": [2, 2]},
    "tag": {"from": "item.tags", "at": "'a'", "dtype": "float32"},
    "sum_of": {"expr": "impression.price + 1", "dtype": "float32"},
}
ROW = {"price": 1.5, "count": 3, "city": "Oslo", "words": ["a"], "matrix": [[1.0, 2.0], [3.0, 4.0]]}
ROW |= {"at": datetime(2019, 6, 5, 10, tzinfo=UTC)}
ITEM = {"item": {"tags": {"a": 0.5}}}


def test_an_example_for_a_model_has_the_features_and_no_labels() -> None:
    import tensorflow as tf

    assembler = small(FEW, (FeatureSpec("clicked", "int64", role="label"),), lists={"hot"})
    names = set(tf.train.Example.FromString(assembler.assemble(ROW, ITEM, {"sum_of": 2.5})).features.feature)
    assert names == FEW.keys()


@pytest.mark.parametrize(
    ("impression", "rows", "given", "message"),
    [
        (
            {},
            {},
            {},
            r"features.sum_of: .* is SQL, which only the job evaluates; pass its value as `given={'sum_of': ...}`",
        ),
        ({"drop": "price"}, {}, {"sum_of": 1.0}, r"the row of 'impression' has no column 'price'; pass it, as None"),
        ({}, {"item": {"city": "Oslo"}}, {"sum_of": 1.0}, r"the row of 'item' has no column 'tags'"),
        (
            {"city": 1.5},
            {},
            {"sum_of": 1.0},
            r"features.city: found 1.5, expected text, an integer, a boolean or a date",
        ),
        ({"price": "9"}, {}, {"sum_of": 1.0}, r"features.price: found '9', expected a number"),
        ({"count": 1.5}, {}, {"sum_of": 1.0}, r"features.count: found 1.5, expected an integer or boolean"),
        ({"city": ["a"]}, {}, {"sum_of": 1.0}, r"features.city: found \['a'\]"),
        ({"words": "a"}, {}, {"sum_of": 1.0}, r"found 'a'"),
        ({"at": 12}, {}, {"sum_of": 1.0}, r"features.hour: found 12, expected a datetime"),
    ],
)
def test_rows_of_another_form_are_refused_by_name(
    impression: dict[str, Any], rows: dict[str, Any], given: dict[str, Any], message: str
) -> None:
    whole = {**ROW, **impression}
    whole.pop(whole.pop("drop", None), None)
    with pytest.raises(InputError, match=message):
        small(FEW, lists={"hot"}).assemble(whole, {**ITEM, **rows}, given)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"price": 1e39}, "'price' is 1e\\+39, which is not float32 of shape \\[\\]: float too large"),
        ({"count": 2**63}, "'count' .* does not fit into 64 bits"),
        ({"matrix": [[1.0, 2.0]]}, "'matrix' is"),
    ],
)
def test_values_that_no_record_holds_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(EncodeError, match=message):
        small(FEW, lists={"hot"}).assemble({**ROW, **change}, ITEM, {"sum_of": 1.0})


def test_a_multi_hot_list_must_be_named() -> None:
    with pytest.raises(InputError, match="expects a single value; create it with `lists={'hot'}`"):
        small(FEW).assemble(ROW, ITEM, {"sum_of": 1.0})


@pytest.mark.parametrize(("rows", "given", "name"), [({"itm": {}}, {}, "itm"), ({"item": {}}, {"sum": 1}, "sum")])
def test_names_that_the_configuration_does_not_have_are_found_by_a_check(
    rows: dict[str, Any], given: dict[str, Any], name: str
) -> None:
    with pytest.raises(UsageError, match=f"no view, history or feature '{name}'"):
        small(FEW, lists={"hot"}).check(rows, given)


def test_a_state_that_the_samples_were_not_made_with_is_refused() -> None:
    contract = ExampleContract((), state={"lineage": "l", "version": 1, "fingerprint": "f"})
    with pytest.raises(InputError, match="made with version 1 of the fitted state of lineage l, but none was given"):
        Assembler(manifest(contract, config={"features": {}}))


def test_ids_follow_the_release_that_made_the_contract() -> None:
    feature = Declared.of("city", {"from": "impression.city", "dtype": "int64", "hash_buckets": 10})
    now, before = feature_of(feature, {}, None, 0), feature_of(feature, {}, None, None)
    rows = [{"impression": {"city": f"city {n}"}} for n in range(3)]
    missing = {"impression": {"city": None}}
    assert [now(row) for row in rows] == [bucket_of(prefix_of("city"), [f"city {n}".encode()], 9) + 1 for n in range(3)]
    assert [before(row) for row in rows] == [bucket_of(prefix_of("city"), [f"city {n}".encode()], 10) for n in range(3)]
    assert (now(missing), before(missing)) == (0, bucket_of(prefix_of("city"), [MISSING], 10))


@pytest.mark.parametrize(
    ("data", "seed", "expected"),
    [
        # From the reference implementation's own tests and from Spark: SELECT xxhash64('a').
        (b"", 0, 0xEF46DB3751D8E999),
        (b"", 42, 0x98B1582B0977E704),
        (b"a", 0, 0xD24EC4F1A98C6E5B),
        (b"abc", 0, 0x44BC2CF5AD770999),
        (b"Nobody inspects the spammish repetition", 0, 0xFBCEA83C8A378BF1),
    ],
)
def test_the_hash_is_xxh64(data: bytes, seed: int, expected: int) -> None:
    assert xxh64(data, seed) == expected


def test_the_hash_is_xxh64_for_texts_of_every_length() -> None:
    texts = [f"{'é' * (n // 3)}{'x' * (n % 3)}".encode() for n in range(120)]
    assert [xxh64(text) for text in texts] == [xxhash.xxh64_intdigest(text, 42) for text in texts]


def test_a_part_of_a_time_is_that_of_the_zone_of_the_configuration() -> None:
    assembler = small({"hour": {"from": "impression.t", "date_part": "hour", "dtype": "int64"}})

    def hour(t: Any) -> int:
        return assembler.assemble({"t": t}, {})[-1]  # the one value of the one feature

    assert hour(datetime(2019, 6, 5, 18, 30, tzinfo=UTC)) == 0  # a quarter past midnight in Nepal
    assert hour(datetime(2019, 6, 5, 18, 30)) == 18  # without a zone it is a time there
    assert hour("2019-06-05 18:30:00") == 18
    assert hour("2019-06-05T18:30:00Z") == 0
