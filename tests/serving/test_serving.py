"""What is assembled online is byte for byte what the job wrote, for every kind of feature and every layout."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ctr_samples.codec import ExampleDecoder, RecordReader
from ctr_samples.contract import ExampleContract
from ctr_samples.errors import EncodeError, InputError, UsageError
from ctr_samples.serving import Assembler, load_assembler
from ctr_samples.serving.declared import Declared
from ctr_samples.serving.hashing import MISSING, bucket_of, prefix_of, xxh64
from ctr_samples.serving.values import feature_of
from tests.serving.assemblers import small
from tests.serving.served_day import DAY, Served, publish

Record = tuple[bytes, dict[str, Any]]
LISTS = {"word_hot"}

pytestmark = pytest.mark.slow  # each published set has features of every kind


@pytest.fixture(scope="module")
def served(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Served:
    return publish(spark, tmp_path_factory.mktemp("served"), "columns")


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


def test_every_sample_is_assembled_to_the_bytes_that_the_job_wrote(served: Served) -> None:
    assembler = load_assembler(str(served.root), date=str(DAY), lists=LISTS)
    records = written(served)
    assert len(records) > 40
    for message, row in records:
        impression, rows, given = served.rows[row["user"].decode()]
        assembler.check(rows, given)
        assert assembler.assemble(impression, rows, given | others(assembler, row)) == message


@pytest.mark.parametrize("layout", ["dense", "sparse", "sequence", "legacy_121"])
def test_every_layout_is_assembled_too(spark: SparkSession, tmp_path: Path, layout: str) -> None:
    served = publish(spark, tmp_path, layout)
    assembler = load_assembler(str(served.root), date=str(DAY), lists=LISTS)
    matches = []
    for message, row in written(served):
        beside = others(assembler, row)
        made = {user: assembler.assemble(i, r, g | beside) for user, (i, r, g) in served.rows.items()}
        matches.append({user for user, example in made.items() if example == message})
    assert all(matches)
    assert len(set.union(*matches)) >= len(matches) > 40


def test_an_example_for_a_model_has_no_labels(served: Served) -> None:
    import tensorflow as tf

    assembler = load_assembler(str(served.root), date=str(DAY), lists=LISTS)
    impression, rows, given = served.rows["u5"]
    names = set(tf.train.Example.FromString(assembler.assemble(impression, rows, given)).features.feature)
    assert names <= set(assembler.contract.names("feature"))
    assert {"price", "cross", "top_keys"} <= names


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
            r"features.hashed: found 1.5, expected text, an integer, a boolean or a date",
        ),
        ({"price": "9"}, {}, {"sum_of": 1.0}, r"features.price: found '9', expected a number"),
        ({"count": 1.5}, {}, {"sum_of": 1.0}, r"features.count: found 1.5, expected an integer or boolean"),
        ({"city": ["a"]}, {}, {"sum_of": 1.0}, r"features.hashed: found \['a'\]"),
        ({"words": "a"}, {}, {"sum_of": 1.0}, r"found 'a'"),
        ({"impression_time": 12}, {}, {"sum_of": 1.0}, r"features.hour: found 12, expected a datetime"),
    ],
)
def test_rows_of_another_form_are_refused_by_name(
    served: Served, impression: dict[str, Any], rows: dict[str, Any], given: dict[str, Any], message: str
) -> None:
    assembler = load_assembler(str(served.root), date=str(DAY), lists=LISTS)
    whole = {**served.rows["u5"][0], **impression}
    whole.pop(whole.pop("drop", None), None)
    with pytest.raises(InputError, match=message):
        assembler.assemble(whole, {**served.rows["u5"][1], **rows}, given)


def test_values_that_no_record_holds_are_refused(served: Served) -> None:
    assembler = load_assembler(str(served.root), date=str(DAY), lists=LISTS)
    impression, rows, given = served.rows["u5"]
    for change, message in (
        (
            {"price": 1e39},
            "'[a-z_]+' is 1e\\+39, which is not float32 of shape \\[\\]: float too large",
        ),
        ({"count": 2**63}, "'count' .* does not fit into 64 bits"),
        ({"matrix": [[1.0, 2.0]]}, "'matrix' is"),
    ):
        with pytest.raises(EncodeError, match=message):
            assembler.assemble({**impression, **change}, rows, given)


def test_a_multi_hot_list_must_be_named(served: Served) -> None:
    assembler = load_assembler(str(served.root), date=str(DAY))
    impression, rows, given = served.rows["u5"]
    with pytest.raises(InputError, match="expects a single value; create it with `lists={'word_hot'}`"):
        assembler.assemble({**impression, "words": ["a"]}, rows, given)


def test_names_that_the_configuration_does_not_have_are_found_by_a_check(served: Served) -> None:
    assembler = load_assembler(str(served.root), date=str(DAY), lists=LISTS)
    with pytest.raises(UsageError, match="no view, history or feature 'itm'"):
        assembler.check({"itm": {}})
    with pytest.raises(UsageError, match="no view, history or feature 'sum'"):
        assembler.check({"item": {}}, {"sum": 1})


def test_a_state_that_the_samples_were_not_made_with_is_refused(served: Served) -> None:
    with pytest.raises(InputError, match="made with version 1 of the fitted state of lineage .*, but none was given"):
        Assembler(served.manifest)


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


def test_the_hash_is_sparks_for_texts_of_every_length(spark: SparkSession) -> None:
    texts = ["é" * (n // 3) + "x" * (n % 3) for n in range(120)]
    hashed = spark.createDataFrame([(t,) for t in texts], "t string").selectExpr(
        "xxhash64(concat_ws('\x1f', 'salt', t))"
    )
    buckets = [row[0] % 1_000_003 for row in hashed.collect()]
    assert [bucket_of(prefix_of("salt"), [t.encode()], 1_000_003) for t in texts] == buckets
    assert [xxh64(b"salt\x1f" + t.encode()) - row[0] for t, row in zip(texts, hashed.collect(), strict=True)] == [
        0 if row[0] >= 0 else 2**64 for row in hashed.collect()
    ]


def test_a_part_of_a_time_is_that_of_the_zone_of_the_configuration() -> None:
    assembler = small({"hour": {"from": "impression.t", "date_part": "hour", "dtype": "int64"}})

    def hour(t: Any) -> int:
        return assembler.assemble({"t": t}, {})[-1]  # the one value of the one feature

    assert hour(datetime(2019, 6, 5, 18, 30, tzinfo=UTC)) == 0  # a quarter past midnight in Nepal
    assert hour(datetime(2019, 6, 5, 18, 30)) == 18  # without a zone it is a time there
    assert hour("2019-06-05 18:30:00") == 18
    assert hour("2019-06-05T18:30:00Z") == 0
