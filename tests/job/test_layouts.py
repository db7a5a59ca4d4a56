"""Every layout of the output, read back by TensorFlow with nothing but contract.json."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from ctr_samples.config import load_config
from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.errors import ConfigError, EncodeError
from ctr_samples.job.fit import fit
from ctr_samples.samples.features.contracts import lay_out
from tests.job.three_nights import CONFIG, write_logs
from tests.support.whole_runs import made, write_config

pytestmark = pytest.mark.slow

DAY = date(2019, 6, 4)

WORDS = "  words: {from: impression.words, dtype: int64, vocabulary: cities, ragged: true}\n"


@pytest.fixture(scope="module")
def folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("layouts")
    write_logs(place / "logs")
    fit(spark, load_config(write_config(place, "nights", CONFIG)), date(2019, 6, 3))
    return place


def records_of(
    spark: SparkSession, folder: Path, layout: str, words: str = WORDS
) -> tuple[dict[str, Any], list[bytes], str]:
    """The parsed contract.json, the messages of the train split, and schema.pbtxt."""
    import tensorflow as tf

    changes = {"path: ROOT/out, partitions: 1": f"path: ROOT/OUT, partitions: 1, layout: {layout}", WORDS: words}
    day = made(spark, write_config(folder, layout, CONFIG, changes), DAY)
    files = [str(day.output / shard.path) for shard in day.manifest.of_split("train")]
    records = [bytes(record.numpy()) for record in tf.data.TFRecordDataset(files)]
    contract, schema = ((day.directory / name).read_text() for name in ("contract.json", "schema.pbtxt"))
    return json.loads(contract), records, schema


def parsing_specs(contract: dict[str, Any]) -> dict[str, Any]:
    """What a user writes who does not have this package."""
    import tensorflow as tf

    specs = {}
    for name, said in contract["parse"].items():
        arguments = {k: v for k, v in said.items() if k not in ("kind", "decode", "decoded_dtype", "decoded_shape")}
        arguments["dtype"] = tf.as_dtype(arguments["dtype"])
        specs[name] = getattr(tf.io, said["kind"])(**arguments)
    return specs


def test_columns_read_back_with_the_specs_of_contract_json(spark: SparkSession, folder: Path) -> None:
    import tensorflow as tf

    contract, records, schema = records_of(spark, folder, "columns")
    parsed = tf.io.parse_example(records, parsing_specs(contract))
    order = np.argsort(parsed["price"].numpy())
    # Lund is 4, Oslo 3, and Kiel, which had no id yet, 2.
    assert parsed["city"].numpy()[order].tolist() == [4, 4, 4, 2, 2, 3]
    assert [parsed["words"].to_list()[i] for i in order] == [[], [4], [4, 4], [], [], []]
    assert parsed["price_bucket"].numpy()[order].tolist() == [1, 1, 2, 2, 2, 2]
    assert parsed["clicked"].numpy()[order].tolist() == [1, 0, 0, 0, 0, 0]
    assert "int_domain { min: 0 max: 7 is_categorical: true }" in schema


def test_dense_is_one_vector_ready_for_a_matrix_model(spark: SparkSession, folder: Path) -> None:
    import tensorflow as tf

    contract, records, schema = records_of(spark, folder, "dense", words="")
    parsed = tf.io.parse_example(records, parsing_specs(contract))
    rows = parsed["features"].numpy()
    assert rows.shape == (6, 3)
    assert [(part["name"], part["start"], part["size"]) for part in contract["parts"]] == [
        ("city", 0, 1),
        ("price", 1, 1),
        ("price_bucket", 2, 1),
    ]
    ordered = rows[np.argsort(rows[:, 1])]
    assert ordered[:, 0].tolist() == [4, 4, 4, 2, 2, 3]
    assert ordered[:, 2].tolist() == [1, 1, 2, 2, 2, 2]
    assert "shape { dim { size: 3 } }" in schema


def test_sparse_reads_back_as_a_sparse_tensor(spark: SparkSession, folder: Path) -> None:
    import tensorflow as tf

    contract, records, schema = records_of(spark, folder, "sparse")
    parsed = tf.io.parse_example(records, parsing_specs(contract))
    rows = tf.sparse.to_dense(parsed["features"]).numpy()
    # city: 8 ids; price: 1 number; price_bucket: 3 ids; words: 8 ids.
    assert rows.shape == (6, 20)
    ordered = rows[np.argsort(rows[:, 8])]
    assert [np.flatnonzero(row[:8]).tolist() for row in ordered] == [[4], [4], [4], [2], [2], [3]]
    assert [np.flatnonzero(row[9:12]).tolist() for row in ordered] == [[1], [1], [2], [2], [2], [2]]
    assert [np.flatnonzero(row[12:]).tolist() for row in ordered] == [[], [4], [4], [], [], []]
    assert set(ordered[:, 12:].ravel()) == {0.0, 1.0}
    assert "sparse_feature {" in schema


def test_a_sequence_example_has_its_lists_as_feature_lists(spark: SparkSession, folder: Path) -> None:
    import tensorflow as tf

    contract, records, _ = records_of(spark, folder, "sequence")
    message = tf.train.SequenceExample.FromString(records[0])
    assert set(message.feature_lists.feature_list) == {"words"}
    specs = parsing_specs(contract)
    sequence = {"words": specs.pop("words")}
    found = []
    for record in records:
        context, lists = tf.io.parse_single_sequence_example(record, specs, sequence)
        found.append((float(context["price"]), lists["words"].numpy().tolist()))
    assert [words for _, words in sorted(found)] == [[], [4], [4, 4], [], [], []]


VECTOR = "  words: {expr: 'transform(sequence(1, 118), i -> double(i))', dtype: float32, shape: [118]}\n"


@pytest.mark.parametrize(
    ("layout", "changes", "message"),
    [
        ("dense", {}, "features.words: has lists of any length, so it cannot be part of the `dense` layout"),
        ("legacy_121", {WORDS: ""}, "`legacy_121` needs 121 numbers, but the features have 3"),
        ("sequence", {WORDS: ""}, "`sequence` needs a feature with `ragged: true`"),
        ("dense", {WORDS: "  words: {from: impression.city, dtype: string}\n"}, "features.words: is not a number"),
        (
            "columns",
            {"vocabulary: cities}": "vocabulary: citys}"},
            "there is no vocabulary 'citys'; did you mean 'cities'?",
        ),
        (
            "columns",
            {WORDS: "  words: {cross: [city, prise_bucket], dtype: int64, hash_buckets: 9}\n"},
            "there is no other feature 'prise_bucket'; did you mean 'price_bucket'?",
        ),
        (
            "columns",
            {WORDS: "  words: {cross: [city, price], dtype: int64, hash_buckets: 9}\n"},
            "'price' is not a single integer or text; bucketise numbers with `boundaries` first",
        ),
        (
            "legacy_121",
            {WORDS: VECTOR, "window: 1h": "window: 1h, value: price, reduce: sum"},
            "`legacy_121` records hold one label of `reduce: any`",
        ),
        (
            "legacy_121",
            {WORDS: VECTOR.replace("words:", "label:")},
            "features.label: is what the `legacy_121` layout calls the label; rename it",
        ),
        ("columns", {"fitted: ": "#fitted: "}, "needs fitted state; set `path`, where it is kept"),
    ],
)
def test_what_a_layout_cannot_hold_is_refused_before_anything_is_read(
    tmp_path: Path, layout: str, changes: dict[str, str], message: str
) -> None:
    with_layout = {"partitions: 1": f"partitions: 1, layout: {layout}", **changes}
    with pytest.raises(ConfigError) as caught:
        load_config(write_config(tmp_path, "nights", CONFIG, with_layout))
    assert message in str(caught.value)


def laid(layout: str, rows: list[tuple[Any, ...]]) -> list[Any]:
    """Rows of two numbers and a matrix of 2 x 2 in a layout that joins them."""
    contract = ExampleContract(
        (
            FeatureSpec("id", "int64", nulls="fail", buckets=3),
            FeatureSpec("pair", "float32", (2,), nulls="fail"),
            FeatureSpec("matrix", "float32", (2, 2), nulls="fail"),
            FeatureSpec("last", "float32", nulls="fail"),
        )
    )
    numbers = pa.list_(pa.float64())
    kinds = {"id": pa.int64(), "pair": numbers, "matrix": pa.list_(numbers), "last": pa.float64()}
    columns = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), kinds.values(), strict=True)]
    joined = lay_out(dict(zip(kinds, columns, strict=True)), contract, layout)
    return [list(row.values()) for row in pa.RecordBatch.from_pydict(joined).to_pylist()]


MATRIX = [[1.0, 0.0], [0.0, 4.0]]


def test_a_matrix_has_its_places_in_row_major_order() -> None:
    assert laid("dense", [(2, [5.0, 6.0], MATRIX, 7.0)]) == [[[2, 5, 6, 1, 0, 0, 4, 7]]]
    assert laid("sparse", [(2, [5.0, 0.0], MATRIX, 7.0)]) == [[[2, 3, 5, 8, 9], [1, 5, 1, 4, 7]]]


@pytest.mark.parametrize("layout", ["dense", "sparse"])
@pytest.mark.parametrize(
    ("row", "message"),
    [
        ((2, [5.0, 6.0, 8.0], MATRIX, 7.0), "features.pair: found 3 values, expected 2"),
        ((2, [5.0, None], MATRIX, 7.0), "features.pair: found a null inside the list; set `fill`"),
        ((2, [5.0, 6.0], [[1.0], [2.0]], 7.0), "features.matrix: found 2 values, expected 4"),
        ((2, None, MATRIX, 7.0), "features.pair: found no value, which its `nulls: fail` forbids"),
        ((None, [5.0, 6.0], MATRIX, 7.0), "features.id: found no value, which its `nulls: fail` forbids"),
    ],
)
def test_a_value_that_would_move_the_others_out_of_their_places_ends_the_run(
    layout: str, row: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(EncodeError, match=message):
        laid(layout, [row])
