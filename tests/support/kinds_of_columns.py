"""Contracts with every kind of column that a sample set can have, and rows for them."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa

from ctr_samples.contract import ExampleContract, FeatureSpec, Part

LABELS = (
    FeatureSpec("clicked", "int64", role="label", nulls="fail"),
    FeatureSpec("paid", "float32", role="label", nulls="fail"),
    FeatureSpec("paid__mask", "int64", role="mask", nulls="fail"),
    FeatureSpec("sample_weight", "float32", role="weight", nulls="fail"),
    FeatureSpec("impression_id", "int64", role="key", nulls="fail"),
)
FEATURES = (
    FeatureSpec("number", "float32"),
    FeatureSpec("vector", "float32", (3,)),
    FeatureSpec("matrix", "float32", (2, 2), nulls="fail"),
    FeatureSpec("id", "int64", nulls="default", default=7),
    FeatureSpec("text", "bytes"),
    FeatureSpec("texts", "bytes", (2,)),
    FeatureSpec("words", "bytes", None),
    FeatureSpec("ids", "int64", None),
    FeatureSpec("floats", "float32", None, nulls="fail"),
    FeatureSpec("raw", "float64", (3,), encoding="raw", nulls="fail"),
    FeatureSpec("raw_or_not", "int64", (3,), encoding="raw"),
    FeatureSpec("tensor", "float32", (2, 2), encoding="tensor"),
)
STEPS = (
    FeatureSpec("clicks", "int64", (), sequence=True),
    FeatureSpec("vectors", "float32", (2,), sequence=True),
    FeatureSpec("lists", "int64", None, sequence=True),
    FeatureSpec("names", "bytes", (), sequence=True),
)
CONTRACTS = {
    "columns": ExampleContract((*FEATURES, *LABELS)),
    "sequence": ExampleContract((*FEATURES, *STEPS, *LABELS), "sequence_example", layout="sequence"),
    "sparse": ExampleContract(
        (
            FeatureSpec("indices", "int64", None, nulls="fail", buckets=30),
            FeatureSpec("values", "float32", None, nulls="fail"),
            *LABELS,
        ),
        layout="sparse",
        parts=(Part("a", 0, 10), Part("b", 10, 20)),
    ),
    "legacy_121": ExampleContract(
        (
            FeatureSpec("feature", "float64", (121,), encoding="raw", nulls="fail"),
            FeatureSpec("label", "int64", role="label", nulls="fail"),
        ),
        layout="legacy_121",
        parts=(Part("all", 0, 121),),
    ),
}


def rows_for(contract: ExampleContract, first: int, count: int) -> pa.RecordBatch:
    """Rows whose values follow from their numbers."""
    columns = {}
    for spec in contract.features:
        drawn = [_value(spec, i) for i in range(first, first + count)]
        kind = {"int64": pa.int64(), "float32": pa.float32(), "float64": pa.float64(), "bytes": pa.binary()}[spec.dtype]
        for _ in range(_levels(spec)):
            kind = pa.list_(kind)
        columns[spec.name] = pa.array(drawn, kind)
    return pa.RecordBatch.from_pydict(columns)


def _levels(spec: FeatureSpec) -> int:
    return spec.sequence + (1 if spec.shape is None else len(spec.shape))


def _value(spec: FeatureSpec, i: int) -> Any:
    one = random.Random(f"{spec.name} {i}")
    if spec.name in ("clicked", "paid", "paid__mask", "label"):
        return i % 2
    if spec.role == "weight":
        return i % 4 + 0.5
    if spec.name == "impression_id":
        return i
    if spec.name == "indices":
        return sorted(random.Random(i).sample(range(30), i % 5))
    if spec.name == "values":
        return [float(one.randrange(1, 9)) for _ in range(i % 5)]
    if spec.nulls != "fail" and not spec.sequence and i % 7 == 3:
        return None
    if spec.sequence:
        return [_of_shape(spec, spec.shape, one) for _ in range(i % 4)]
    return _of_shape(spec, spec.shape, one)


def _of_shape(spec: FeatureSpec, shape: tuple[int, ...] | None, one: random.Random) -> Any:
    if shape is None:
        return [_of_shape(spec, (), one) for _ in range(one.randrange(4))]
    if shape:
        return [_of_shape(spec, shape[1:], one) for _ in range(shape[0])]
    draws: dict[str, Any] = {
        "int64": one.randrange(-(2**40), 2**40),
        "float32": one.randrange(-1000, 1000) / 8,
        "float64": one.random(),
        "bytes": b"x" * one.randrange(20),
    }
    return draws[spec.dtype]
