"""libsvm and libfm text to sparse features: what TensorFlow reads back, and which lines are refused."""

from __future__ import annotations

import runpy
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import typer
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from ctr_samples.converters.libsvm import read_libsvm, size_of, taken_apart
from ctr_samples.errors import InputError, UsageError
from tests.support.project import PROJECT

pytestmark = pytest.mark.slow


with warnings.catch_warnings():  # its import warns about itself
    warnings.simplefilter("ignore")
    import tensorflow as tf

TextFile = Callable[[str], str]


@pytest.fixture
def text(tmp_path: Path) -> TextFile:
    """``text("1 1:2")`` makes a file and gives its path."""

    def make(content: str) -> str:
        path = tmp_path / "lines.txt"
        path.write_text(content)
        return str(path)

    return make


def test_lines_become_sparse_columns(spark: SparkSession, text: TextFile) -> None:
    path = text("# a header\n+1 1:0.5 3:-2e1 7:.25 # seven\n\n-1\t2:1.   3:+4\r\n 0 \n2.5 7:1e-3#close\n")
    rows = read_libsvm(spark, path)
    assert rows.schema.simpleString() == "struct<label:float,indices:array<bigint>,values:array<float>>"
    assert size_of(rows) == 7
    assert rows.collect() == [
        (1.0, [0, 2, 6], [0.5, -20.0, 0.25]),
        (-1.0, [1, 2], [1.0, 4.0]),
        (0.0, [], []),
        (2.5, [6], [pytest.approx(1e-3)]),
    ]
    rows = read_libsvm(spark, text("4 0:1.5 2:-7.9\n2 1:1e-5 2:2\n"), zero_based=True)
    assert [row["indices"] for row in rows.collect()] == [[0, 2], [1, 2]]
    assert size_of(rows) == 3
    many = "1 " + " ".join(f"{i}:{i}.5" for i in range(1, 20_001))
    rows = read_libsvm(spark, text(f"3 qid:7 1:1\n2 qid:12345678901\n1 2:1\n{many}\n"))
    assert rows.columns == ["label", "qid", "indices", "values"]
    *few, long = rows.collect()
    assert [(row["qid"], row["indices"]) for row in few] == [(7, [0]), (12345678901, []), (None, [1])]
    assert long["indices"] == list(range(20_000))
    assert long["values"][-1] == 20_000.5


MALFORMED = {
    "cat 1:1": "its label is 'cat'",
    "1,2 1:1": "its label is '1,2'",
    "nan 1:1": "its label is 'nan'",
    "1 1:": "'1:' is not index:value",
    "1 1:1 x:2": "'x:2' is not index:value",
    "1 1:2:3": "'1:2:3' is not index:value but field:index:value, the form of libffm, which is not read",
    "1 1:2:3:4": "'1:2:3:4' is not index:value",
    "1 1 2": "'1' is not index:value",
    "1 -1:2": "'-1:2' is not index:value",
    "1 1:inf": "'1:inf' is not index:value",
    "1 99999999999999999999:1": "'99999999999999999999:1' is not index:value",
    "1 qid:x 1:1": "'qid:x' is not qid:N",
    "1 1:1 qid:2": "'qid:2' is not index:value",
    "1 1:1e39": "it has a number that float32 cannot hold",
    "-1e39 1:1": "it has a number that float32 cannot hold",
    "1 0:1": "it has the index 0",
    "1 2:1 2:1": "it has an index twice",
    "1 3:1 2:1": "its indices do not ascend",
    "1 1:1 9:1": None,
}
REFUSED = [
    (
        "1 1:1 9:1\ncat 1:1\n0\n",
        "1 of 3 lines cannot be read, such as 'cat 1:1': its label is 'cat'; correct or remove them.",
    ),
    ("1 1:2:3\n", "the form of libffm, which is not read; leave the fields out."),
    ("1 0:1\n", "it has the index 0; libsvm counts from 1; if these count from 0, as libfm does, set zero_based."),
    ("1 1:1 10:1\n", "its largest index lies beyond the declared size of 9; correct or remove them."),
    ("1 " + "1:2 " * 100, "1:2 1:…': it has an index twice"),
    ("", "has nothing but comments; expected `label index:value ...`"),
    ("# nothing\n\n", "has nothing but comments"),
]


def test_a_malformed_line_is_refused_with_its_text(spark: SparkSession, text: TextFile, tmp_path: Path) -> None:
    lines = taken_apart(spark.createDataFrame([(line,) for line in MALFORMED], "value string"), 1)
    assert {row["line"]: row["problem"] for row in lines.collect()} == MALFORMED
    for content, problem in REFUSED:
        with pytest.raises(InputError) as raised:
            read_libsvm(spark, path := text(content), size=9)
        assert str(raised.value).startswith(path)
        assert problem in str(raised.value)
    with pytest.raises(InputError, match="has no feature in any line; declare `size`"):
        read_libsvm(spark, text("1\n0\n"))
    with pytest.raises(UsageError, match="size is 0; expected the number of features, at least 1"):
        read_libsvm(spark, text("1 1:1"), size=0)
    with pytest.raises(InputError, match="/nowhere cannot be read: Path does not exist"):
        read_libsvm(spark, "/nowhere")
    done = run_job("--input", path := text("1 [bold]:2\n"), "--output", str(tmp_path / "out"))
    assert done.exit_code == 3
    assert done.stderr == (
        f"error: {path}: 1 of 1 lines cannot be read, such as '1 [bold]:2': '[bold]:2' is not index:value; correct or "
        "remove them.\n"
    )
    assert not (tmp_path / "out").exists()


def run_job(*arguments: str) -> Result:
    """The job, called in this process, whose Spark session it takes."""
    app = typer.Typer()
    app.command()(runpy.run_path(str(PROJECT / "jobs/libsvm_to_tfrecord.py"))["libsvm"])
    return CliRunner().invoke(app, list(arguments))


def test_tensorflow_parses_what_the_job_writes_as_the_job_says(
    spark: SparkSession, text: TextFile, tmp_path: Path
) -> None:
    path = text("1 1:0.5 4:2\n0\n-1 0:7 3:-3 4:1e20\n")
    done = run_job("--input", path, "--output", str(tmp_path / "out"), "--zero-based", "--size", "6")
    assert done.exit_code == 0, done.stderr
    spec = {
        "label": tf.io.FixedLenFeature((), tf.float32),
        "x": tf.io.SparseFeature("indices", "values", tf.float32, 6),
    }
    (shard,) = (tmp_path / "out").glob("*.tfrecord")
    (batch,) = [tf.io.parse_example(records, spec) for records in tf.data.TFRecordDataset(str(shard)).batch(10)]
    assert batch["label"].numpy().tolist() == [1.0, 0.0, -1.0]
    assert batch["x"].indices.numpy().tolist() == [[0, 1], [0, 4], [2, 0], [2, 3], [2, 4]]
    assert np.array_equal(batch["x"].values, np.array([0.5, 2, 7, -3, 1e20], np.float32))
    assert batch["x"].dense_shape.numpy().tolist() == [3, 6]
    assert done.stdout == "tf.io.SparseFeature('indices', 'values', tf.float32, 6)\n"
    for line, mode, size in (
        ("1 9:1", "append", 9),
        ("1 4:1", "append", 9),
        ("1 12:1", "append", 12),
        ("1 4:1", "overwrite", 4),
    ):
        done = run_job("--input", text(line), "--output", str(tmp_path / "sizes"), "--mode", mode)
        assert done.stdout == f"tf.io.SparseFeature('indices', 'values', tf.float32, {size})\n"
        assert f"features: {size}" in done.stderr
