"""The codec against TensorFlow's own tools: ratios measured in one run, on one thread.

As tests they only check that both sides give the same; how fast a machine is, is not a matter of right or wrong.
"""

from __future__ import annotations

import importlib
import io
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ctr_samples.codec import ExampleDecoder, ExampleEncoder, RecordReader, RecordWriter, frame_offsets, machine_code
from ctr_samples.contract import ExampleContract, FeatureSpec
from tests.benchmarks.sample_sets import SAMPLES, dense_row
from tests.support.figures import Figures, Goal, at_least, in_turns, size

tf = pytest.importorskip("tensorflow")

ROWS = 4096
SLOW_ROWS = 512  # for what is a hundred times slower
ROUNDS = size("ROUNDS", 5, quick=2)


def one_feature(spec: FeatureSpec, value: Any) -> Any:
    values = value if isinstance(value, list) else [value]
    if spec.dtype == "float32":
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    if spec.dtype == "int64":
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))


def python_loop(contract: ExampleContract, rows: list[dict[str, Any]], path: Path) -> None:
    """What is usually written: one message object for each row. The rows are Python values already."""
    with tf.io.TFRecordWriter(str(path)) as writer:
        for row in rows:
            context = {f.name: one_feature(f, row[f.name]) for f in contract.features if not f.sequence}
            if contract.record == "example":
                message = tf.train.Example(features=tf.train.Features(feature=context))
            else:
                steps = {
                    f.name: tf.train.FeatureList(feature=[one_feature(f, step) for step in row[f.name]])
                    for f in contract.features
                    if f.sequence
                }
                message = tf.train.SequenceExample(
                    context=tf.train.Features(feature=context),
                    feature_lists=tf.train.FeatureLists(feature_list=steps),
                )
            writer.write(message.SerializeToString(deterministic=True))


@pytest.mark.parametrize(
    ("name", "goal"), [("dense", at_least(45)), ("wide", at_least(27)), ("text", None), ("sequence", None)]
)
def test_encoding_against_a_loop_over_examples(figures: Figures, name: str, goal: Goal | None, tmp_path: Path) -> None:
    contract, batch = SAMPLES[name](ROWS)
    encoder = ExampleEncoder(contract)
    encoded = encoder.encode(batch)
    few = batch.slice(0, SLOW_ROWS)
    few_as_python = [
        {n: v.encode() if isinstance(v, str) else [w.encode() for w in v] if n == "words" else v for n, v in r.items()}
        for r in few.to_pylist()
    ]
    seconds = in_turns(
        {
            "ours": lambda: encoder.encode(batch),
            "loop": lambda: python_loop(contract, few_as_python, tmp_path / "loop"),
        },
        ROUNDS,
    )
    assert (tmp_path / "loop").read_bytes() == encoded.records(0, SLOW_ROWS).tobytes()
    ours, loop = seconds["ours"] / ROWS, seconds["loop"] / SLOW_ROWS
    figures.add(f"encode {name}, speed vs. a loop over tf.train.Example", loop / ours, "x", goal)
    figures.add(f"encode {name}, a record", ours * 1e9, "ns")
    figures.add(f"encode {name}, throughput", encoded.buffer.size / ROWS / ours / 1e9, "GB/s")


@pytest.mark.parametrize(("name", "goal"), [("dense", at_least(3.5)), ("wide", at_least(7)), ("text", None)])
def test_encoding_against_tfx_bsl(figures: Figures, name: str, goal: Goal | None) -> None:
    try:
        coder = importlib.import_module("tfx_bsl.coders.example_coder")
    except ImportError:
        pytest.skip("tfx_bsl is not installed (pip install --no-deps tfx-bsl tensorflow-metadata)")
    contract, batch = SAMPLES[name](ROWS)
    encoder, other = ExampleEncoder(contract), coder.RecordBatchToExamplesEncoder()
    as_lists = pa.RecordBatch.from_arrays([_as_list(column) for column in batch.columns], names=batch.schema.names)
    parsed = tf.train.Example.FromString(other.encode(as_lists)[7])
    assert parsed == tf.train.Example.FromString(encoder.encode(batch).records(7, 8)[12:-4].tobytes())
    seconds = in_turns({"ours": lambda: encoder.encode(batch), "tfx_bsl": lambda: other.encode(as_lists)}, ROUNDS)
    ratio = seconds["tfx_bsl"] / seconds["ours"]
    figures.add(f"encode {name}, speed vs. tfx_bsl, which does not frame", ratio, "x", goal)


def _as_list(column: pa.Array) -> pa.Array:
    """tfx_bsl takes lists only, and bytes for text."""
    if column.type == pa.string():
        column = column.cast(pa.binary())
    if pa.types.is_list(column.type):
        return column.cast(pa.list_(pa.binary())) if column.type == pa.list_(pa.string()) else column
    fixed = pa.types.is_fixed_size_list(column.type)
    values, size = (column.values, column.type.list_size) if fixed else (column, 1)
    return pa.ListArray.from_arrays(pa.array(np.arange(len(column) + 1, dtype=np.int32) * size), values)


@pytest.mark.parametrize(("name", "goal"), [("dense", at_least(2)), ("wide", at_least(2)), ("text", None)])
def test_decoding_against_parse_example(figures: Figures, name: str, goal: Goal | None) -> None:
    """In a process of its own, since TensorFlow's number of threads is set once for each process."""
    program = (
        f"import json; from tests.benchmarks.test_codec import compare_decoding as c; print(json.dumps(c({name!r})))"
    )
    run = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    ours, theirs = np.array(json.loads(run.stdout))
    figures.add(f"decode {name}, speed vs. tf.io.parse_example", theirs / ours, "x", goal)
    figures.add(f"decode {name}", ROWS / ours / 1e6, "M records/s")


def compare_decoding(name: str) -> list[list[float]]:
    """Seconds of our decoder, checksums and Arrow included, and of tf.io.parse_example alone, both on one thread."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    contract, batch = SAMPLES[name](ROWS)
    encoded = ExampleEncoder(contract).encode(batch)
    decoder = ExampleDecoder(contract)
    data = encoded.buffer.tobytes()
    messages = tf.constant([data[a + 12 : b - 4] for a, b in itertools.pairwise(encoded.offsets.tolist())])
    types = {"int64": tf.int64, "float32": tf.float32, "bytes": tf.string}
    wanted = {
        f.name: tf.io.VarLenFeature(types[f.dtype])
        if f.shape is None
        else tf.io.FixedLenFeature(f.shape, types[f.dtype])
        for f in contract.features
    }
    parse = tf.function(lambda m: tf.io.parse_example(m, wanted))
    scalar = next(f.name for f in contract.features if f.shape == ())
    assert decoder.decode(encoded.buffer)[scalar].to_pylist() == parse(messages)[scalar].numpy().tolist()
    seconds = in_turns({"ours": lambda: decoder.decode(encoded.buffer), "theirs": lambda: parse(messages)}, ROUNDS)
    return [seconds["ours"].tolist(), seconds["theirs"].tolist()]


@pytest.mark.parametrize("name", ["dense", "wide"])
def test_writing_gzip_against_tensorflows_writer(figures: Figures, name: str, tmp_path: Path) -> None:
    contract, batch = SAMPLES[name](ROWS)
    encoded = ExampleEncoder(contract).encode(batch)
    messages = [bytes(m) for m in RecordReader(io.BytesIO(encoded.buffer)).messages()]
    options = tf.io.TFRecordOptions(compression_type="GZIP", compression_level=1)

    def write_theirs() -> None:
        with tf.io.TFRecordWriter(str(tmp_path / "theirs"), options) as writer:
            for message in messages:
                writer.write(message)

    def write_ours() -> None:
        with (tmp_path / "ours").open("wb") as file, RecordWriter(file, "gzip") as writer:
            writer.write(encoded)

    seconds = in_turns({"ours": write_ours, "theirs": write_theirs}, ROUNDS)
    with (tmp_path / "ours").open("rb") as mine, (tmp_path / "theirs").open("rb") as other:
        assert [bytes(m) for m in RecordReader(mine, "gzip").messages()] == messages
        assert sum(len(chunk) for chunk in RecordReader(other, "gzip")) == ROWS
    sizes = (tmp_path / "ours").stat().st_size / (tmp_path / "theirs").stat().st_size
    ratio = seconds["theirs"] / seconds["ours"]
    figures.add(f"gzip {name}, speed vs. TFRecordWriter at level 1", ratio, "x", at_least(3))
    figures.add(f"gzip {name}, size vs. TFRecordWriter", [sizes], "x")


def test_checking_frames(figures: Figures) -> None:
    contract, batch = dense_row(ROWS)
    encoded = ExampleEncoder(contract).encode(batch)
    seconds = in_turns({"check": lambda: frame_offsets(encoded.buffer), "copy": encoded.buffer.copy}, ROUNDS)
    figures.add("check all checksums, speed vs. copying the bytes", seconds["copy"] / seconds["check"], "x")
    figures.add("check all checksums", encoded.buffer.size / seconds["check"] / 1e9, "GB/s")


def test_a_new_process_is_ready_at_once(figures: Figures) -> None:
    """From nothing to the first encoded batch, against importing pyarrow, which every Spark worker does anyway."""
    machine_code.kernels()
    encode = (
        "import pyarrow as pa; from ctr_samples.codec import ExampleEncoder; "
        "from ctr_samples.contract import ExampleContract, FeatureSpec; "
        "ExampleEncoder(ExampleContract((FeatureSpec('a', 'int64'),))).encode(pa.record_batch({'a': [1]}))"
    )

    def run(program: str) -> None:
        subprocess.run([sys.executable, "-c", program], check=True)

    seconds = in_turns({"encode": lambda: run(encode), "import": lambda: run("import pyarrow.compute")}, ROUNDS)
    figures.add("start Python, import pyarrow", seconds["import"], "s")
    figures.add("start Python, import pyarrow and encode", seconds["encode"], "s")
    figures.add(
        "start Python, import pyarrow and encode, speed vs. the import alone",
        seconds["import"] / seconds["encode"],
        "x",
    )
