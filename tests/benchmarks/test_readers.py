"""Reading published samples for training, against TensorFlow's own pipeline: ratios measured in one run, on the same cores.

As tests they only check that all sides give the same.
"""

from __future__ import annotations

import random
import subprocess
import sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.readers import iter_batches, load_dataset
from ctr_samples.records.write import shard_writer
from ctr_samples.serving import Assembler
from ctr_samples.shards import open_storage, publish
from tests.benchmarks.sample_sets import SAMPLES
from tests.support.figures import Figures, Goal, at_least, at_most, in_turns, size
from tests.support.manifests import DAY, RUN, manifest

tf = pytest.importorskip("tensorflow")

ROWS = size("READ_ROWS", 1 << 18, quick=1 << 15)
ROUNDS = size("ROUNDS", 5, quick=2)
BATCH = 4096
EPOCHS = 4
"""Passes over the files in one measurement, so that the start of a pipeline does not count."""
SLOW_ROWS = 4096


def publish_day(root: Path, name: str) -> tuple[ExampleContract, list[str]]:
    """ROWS samples of one of the kinds of rows of the codec's benchmarks, with a label, in shards of 16 MiB; and the shards."""
    made, rows = SAMPLES[name](1 << 15)
    rows = rows.append_column("clicked", pa.array([int(i % 10 == 0) for i in range(1 << 15)]))
    contract = ExampleContract((*made.features, FeatureSpec("clicked", "int64", role="label", nulls="fail")))
    storage = open_storage(root)
    writer = shard_writer(storage, f"dt={DAY}/data/{RUN}", contract, shard_size=16 << 20)
    for first in range(0, ROWS, 1 << 15):
        writer.write(rows.slice(0, min(1 << 15, ROWS - first)), "train")
    shards = writer.close().shards
    publish(storage, manifest(contract, name=name, shards=shards))
    return contract, [storage.locate(shard.path) for shard in shards]


def parsing_specs(contract: ExampleContract, lists: Any = tf.io.RaggedFeature) -> dict[str, Any]:
    types = {"int64": tf.int64, "float32": tf.float32}
    return {
        f.name: lists(types[f.dtype]) if f.shape is None else tf.io.FixedLenFeature(f.shape, types[f.dtype])
        for f in contract.features
    }


def in_batches(files: list[str], specs: dict[str, Any]) -> Any:
    """What TensorFlow's guide to performance ends with: files one after the other, whole batches parsed in parallel."""
    return parsed(tf.data.TFRecordDataset(files).batch(BATCH), specs)


def read_in_parallel(files: list[str], specs: dict[str, Any]) -> Any:
    """The same, with several files at once: each record passes from thread to thread, which costs more than it saves."""
    return parsed(tf.data.TFRecordDataset(files, num_parallel_reads=tf.data.AUTOTUNE).batch(BATCH), specs)


def interleaved(files: list[str], specs: dict[str, Any]) -> Any:
    """The fastest that is known: several files at once, whole batches of each. The order is left to chance, and the last
    batch of each file is smaller."""
    batches = tf.data.Dataset.from_tensor_slices(files).interleave(
        lambda file: tf.data.TFRecordDataset(file).batch(BATCH),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=False,
    )
    return parsed(batches, specs, in_order=False)


def parsed(batches: Any, specs: dict[str, Any], *, in_order: bool = True) -> Any:
    examples = batches.map(
        lambda r: tf.io.parse_example(r, specs), num_parallel_calls=tf.data.AUTOTUNE, deterministic=in_order
    )
    return examples.prefetch(tf.data.AUTOTUNE)


def one_by_one(files: list[str], specs: dict[str, Any], rows: int) -> Any:
    """What most tutorials begin with."""
    records = tf.data.TFRecordDataset(files).take(rows)
    return records.map(lambda r: tf.io.parse_single_example(r, specs)).shuffle(1000).batch(BATCH)


def drained(dataset: Any) -> int:
    """Iterate over all batches."""
    return sum(1 for _ in dataset)


@pytest.mark.parametrize(("name", "arrays_goal"), [("dense", at_least(8)), ("wide", at_least(4))])
def test_the_native_reader_against_tensorflows_pipelines(
    figures: Figures, name: str, arrays_goal: Goal, tmp_path: Path
) -> None:
    contract, files = publish_day(tmp_path, name)
    specs, alone = parsing_specs(contract), parsing_specs(contract, tf.io.VarLenFeature)
    reading: dict[str, Any] = {"date": DAY, "split": "train", "batch_size": BATCH, "epochs": EPOCHS}
    mine = load_dataset(str(tmp_path), **reading)
    shuffled = load_dataset(str(tmp_path), shuffle=True, **reading)
    features, labels = next(iter(mine))
    for key, expected in next(iter(in_batches(files, specs))).items():
        column = labels if key == "clicked" else features[key]
        flat, expected_flat = (getattr(c, "flat_values", c) for c in (column, expected))
        assert tf.reduce_all(tf.equal(flat, expected_flat))
    ours = {
        "native": lambda: drained(mine),
        "native, shuffled": lambda: drained(shuffled),
        "iter_batches": lambda: drained(iter_batches(str(tmp_path), **reading)),
        "iter_batches, shuffled": lambda: drained(iter_batches(str(tmp_path), shuffle=True, **reading)),
    }
    theirs = {
        "parse_example": in_batches,
        "num_parallel_reads": read_in_parallel,
        "interleave": interleaved,
    }
    pipelines = {what: make(files * EPOCHS, specs) for what, make in theirs.items()}
    seconds = in_turns(ours | {what: partial(drained, pipeline) for what, pipeline in pipelines.items()}, ROUNDS)
    (single,) = in_turns({"single": lambda: drained(one_by_one(files, alone, SLOW_ROWS))}, ROUNDS).values()
    records = EPOCHS * ROWS
    fastest = np.minimum.reduce([seconds[what] for what in theirs])
    for what in ours:
        goal = arrays_goal if what.startswith("iter") else at_least(3)
        figures.add(f"{name}, {what}, speed vs. the fastest pipeline", fastest / seconds[what], "x", goal)
    tutorial = single / SLOW_ROWS * records
    figures.add(f"{name}, native, speed vs. parse_single_example", tutorial / seconds["native"], "x", at_least(50))
    for what, some in seconds.items():
        figures.add(f"{name}, {what}, a batch", some / records * BATCH * 1e3, "ms")


FIRST_BATCH = """
import sys, time, tensorflow
began = time.perf_counter()
from ctr_samples.readers import load_dataset
dataset = load_dataset(sys.argv[1], date="2019-06-05", split="train", batch_size=4096)
next(iter(dataset))
print(time.perf_counter() - began)
"""


def test_the_first_batch_is_there_within_a_second_of_opening(figures: Figures, tmp_path: Path) -> None:
    publish_day(tmp_path, "wide")
    command = [sys.executable, "-c", FIRST_BATCH, str(tmp_path)]
    seconds = [float(subprocess.run(command, capture_output=True, text=True, check=True).stdout) for _ in range(ROUNDS)]
    figures.add("wide, first batch after import tensorflow", seconds, "s", at_most(1))


DRAIN = """
import sys
from ctr_samples.readers import iter_batches
batches = iter_batches(sys.argv[1], date="2019-06-05", split="train", batch_size=4096, shuffle=True, epochs=int(sys.argv[2]))
for _ in batches:
    pass
(line,) = [line for line in open("/proc/self/status") if line.startswith("VmHWM")]
print(int(line.split()[1]) / 1024)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells a process its peak")
def test_memory_does_not_grow_with_what_is_read(figures: Figures, tmp_path: Path) -> None:
    publish_day(tmp_path, "dense")
    size_mib = sum(file.stat().st_size for file in tmp_path.rglob("*.tfrecord")) / 2**20
    for epochs in (1, 5):
        command = [sys.executable, "-c", DRAIN, str(tmp_path), str(epochs)]
        peaks = [
            float(subprocess.run(command, capture_output=True, text=True, check=True).stdout) for _ in range(ROUNDS)
        ]
        figures.add(f"peak memory after {epochs * size_mib:.0f} MiB of records", peaks, "MiB")


def assembler_of(features: dict[str, Any], specs: list[FeatureSpec]) -> Assembler:
    config = {"timezone": "Asia/Shanghai", "features": features, "views": {"item": {}, "user": {}}}
    return Assembler(manifest(ExampleContract(tuple(specs)), config=config))


def served_rows(name: str) -> tuple[Assembler, dict[str, Any], dict[str, Any]]:
    """The rows of an impression for a vector of 100, weights of 25 tags, ids and a history; or for the wide row."""
    one = random.Random(1)
    impression = {"user": "u1234567", "article": 141437, "impression_time": datetime(2019, 6, 5, tzinfo=UTC)}
    hashed = {"dtype": "int64", "hash_buckets": 1 << 20}
    if name == "dense":
        features: dict[str, Any] = {
            "vector": {"from": "item.vector", "dtype": "float32", "shape": [100]},
            "weights": {"from": "user.weights", "dtype": "float32", "top_k": 10, "shape": [10]},
            "channel": {"from": "item.channel", "dtype": "int64"},
            "user": {"from": "impression.user", **hashed},
            "article": {"from": "impression.article", **hashed},
            "hour": {"from": "impression.impression_time", "date_part": "hour", "dtype": "int64"},
            "history": {"from": "user.history", "shape": [20], **hashed},
        }
        item = {"vector": [one.random() for _ in range(100)], "channel": 7}
        user: dict[str, Any] = {"weights": {str(i): one.random() for i in range(25)}}
        user["history"] = [one.randrange(1 << 40) for _ in range(15)]
    else:
        numbers = {
            f"I{i}": {"from": f"item.I{i}", "dtype": "float32", "clip": [0, 100], "log1p": True} for i in range(13)
        }
        lists = {f"L{i}": {"from": f"user.L{i}", "dtype": "int64", "ragged": True} for i in range(3)}
        features = {**numbers, **{f"C{i}": {"from": f"user.C{i}", **hashed} for i in range(26)}, **lists}
        item = {f"I{i}": one.random() * 20 for i in range(13)}
        user = {f"C{i}": f"{one.randrange(1 << 32):08x}" for i in range(26)}
        user.update({f"L{i}": [one.randrange(1 << 20) for _ in range(20)] for i in range(3)})
    specs = [
        FeatureSpec(f, said["dtype"], None if said.get("ragged") else tuple(said.get("shape", ())))
        for f, said in features.items()
    ]
    return assembler_of(features, specs), impression, {"item": item, "user": user}


@pytest.mark.parametrize("name", ["dense", "wide"])
def test_an_example_is_assembled_online(figures: Figures, name: str) -> None:
    assembler, impression, rows = served_rows(name)
    message = tf.train.Example.FromString(assembler.assemble(impression, rows))
    assert len(message.features.feature) == len(assembler.contract.features)
    (seconds,) = in_turns({"assemble": lambda: assembler.assemble(impression, rows)}, ROUNDS).values()
    figures.add(f"assemble {name}, an example", seconds * 1e6, "µs", at_most(100))
