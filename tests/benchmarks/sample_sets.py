"""Samples of several shapes, as many rows as a benchmark wants."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ctr_samples.contract import ExampleContract, FeatureSpec

Sample = tuple[ExampleContract, pa.RecordBatch]


def lists(values: np.ndarray, lengths: np.ndarray) -> pa.Array:
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values[: offsets[-1]]))


def dense_row(rows: int) -> Sample:
    """121 floats, 3 ids and a history of 0 to 19 ids."""
    choice = np.random.default_rng(0)
    columns = {
        "article_vector": pa.FixedSizeListArray.from_arrays(
            pa.array(choice.standard_normal(121 * rows).astype(np.float32)), 121
        ),
        "user_id": pa.array(choice.integers(0, 2**40, rows)),
        "article_id": pa.array(choice.integers(0, 2**20, rows)),
        "channel_id": pa.array(choice.integers(0, 25, rows)),
        "history": lists(choice.integers(0, 2**20, 20 * rows), choice.integers(0, 20, rows)),
    }
    specs = [FeatureSpec("article_vector", "float32", (121,)), FeatureSpec("history", "int64", None)]
    specs += [FeatureSpec(name, "int64") for name in ("user_id", "article_id", "channel_id")]
    return ExampleContract(tuple(specs)), pa.RecordBatch.from_pydict(columns)


def wide_row(rows: int) -> Sample:
    """13 floats, 26 integers and 3 lists of 20 ids."""
    choice = np.random.default_rng(1)
    columns: dict[str, pa.Array] = {}
    for i in range(13):
        columns[f"I{i + 1}"] = pa.array(choice.standard_normal(rows).astype(np.float32))
    for i in range(26):
        columns[f"C{i + 1}"] = pa.array(choice.integers(0, 2**20, rows))
    for i in range(3):
        columns[f"L{i + 1}"] = lists(choice.integers(0, 2**20, 20 * rows), np.full(rows, 20))
    specs = [
        FeatureSpec(name, "float32" if name[0] == "I" else "int64", None if name[0] == "L" else ()) for name in columns
    ]
    return ExampleContract(tuple(specs)), pa.RecordBatch.from_pydict(columns)


def text_row(rows: int) -> Sample:
    """12 strings of 5 to 40 characters and a list of 10 words."""
    choice = np.random.default_rng(2)
    words = np.array(["x" * n for n in range(5, 41)])
    columns = {f"text_{i}": pa.array(words[choice.integers(0, len(words), rows)]) for i in range(12)}
    columns["words"] = lists(words[choice.integers(0, len(words), 10 * rows)], np.full(rows, 10))
    specs = [FeatureSpec(name, "bytes", None if name == "words" else ()) for name in columns]
    return ExampleContract(tuple(specs)), pa.RecordBatch.from_pydict(columns)


def sequence_row(rows: int) -> Sample:
    """A user id, 10 steps of an id and 10 steps of 8 floats."""
    choice = np.random.default_rng(3)
    floats = lists(choice.standard_normal(80 * rows).astype(np.float32), np.full(10 * rows, 8))
    columns = {
        "user_id": pa.array(choice.integers(0, 2**40, rows)),
        "clicked_id": lists(choice.integers(0, 2**20, 10 * rows), np.full(rows, 10)),
        "clicked_vector": pa.ListArray.from_arrays(pa.array(np.arange(rows + 1, dtype=np.int32) * 10), floats),
    }
    specs = (
        FeatureSpec("user_id", "int64"),
        FeatureSpec("clicked_id", "int64", (), sequence=True),
        FeatureSpec("clicked_vector", "float32", None, sequence=True),
    )
    return ExampleContract(specs, "sequence_example"), pa.RecordBatch.from_pydict(columns)


SAMPLES = {"dense": dense_row, "wide": wide_row, "text": text_row, "sequence": sequence_row}
