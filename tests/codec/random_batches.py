"""Hypothesis strategies: contracts with batches that suit them, in all the forms that Arrow has for the same values."""

from __future__ import annotations

import decimal
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from ctr_samples.contract import ExampleContract, FeatureSpec

FLOAT32 = st.floats(width=32)
FLOAT64 = st.floats(width=64, min_value=-3e38, max_value=3e38) | st.sampled_from([float("nan"), float("inf")])
DECIMALS = st.decimals(min_value=-(10**9), max_value=10**9, places=4).map(
    lambda d: d.quantize(decimal.Decimal("0.0001"))
)


def whole(bits: int, signed: bool = True) -> st.SearchStrategy[int]:
    """Integers of a width, the borders of varint sizes among them."""
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    borders = [b for k in range(1, 10) for b in (2 ** (7 * k) - 1, 2 ** (7 * k)) if b <= high]
    return st.integers(low, high) | st.sampled_from([low, high, 0, *borders])


LEAVES: list[tuple[str, pa.DataType, st.SearchStrategy[Any]]] = [
    ("int64", pa.int64(), whole(64)),
    ("int64", pa.int32(), whole(32)),
    ("int64", pa.int16(), whole(16)),
    ("int64", pa.int8(), whole(8)),
    ("int64", pa.uint8(), whole(8, signed=False)),
    ("int64", pa.uint32(), whole(32, signed=False)),
    ("int64", pa.uint64(), whole(63, signed=False)),
    ("int64", pa.bool_(), st.booleans()),
    ("int64", pa.date32(), st.dates()),
    ("int64", pa.timestamp("us"), st.datetimes()),
    ("int64", pa.timestamp("ms", tz="Asia/Shanghai"), whole(40)),
    ("float32", pa.float32(), FLOAT32),
    ("float32", pa.float64(), FLOAT64),
    ("float32", pa.float16(), st.floats(width=16)),
    ("float32", pa.decimal128(18, 4), DECIMALS),
    ("bytes", pa.string(), st.text(max_size=20)),
    ("bytes", pa.large_string(), st.text(max_size=5)),
    ("bytes", pa.string_view(), st.text(max_size=20)),
    ("bytes", pa.binary(), st.binary(max_size=200)),
    ("bytes", pa.binary_view(), st.binary(max_size=20)),
    ("bytes", pa.dictionary(pa.int32(), pa.string()), st.sampled_from(["a", "bb", ""])),
]

DEFAULTS = {"int64": -7, "float32": 0.5, "bytes": "none"}
NAMES = st.text(min_size=1, max_size=6) | st.sampled_from(["a", "ab", "abc", "b", "é", "I1", "I10", "x" * 130])


@dataclass(frozen=True)
class Feature:
    """A feature with a column for it."""

    spec: FeatureSpec
    type: pa.DataType
    values: list[Any]


@st.composite
def features(draw: st.DrawFn, name: str, rows: int, *, sequence: bool) -> Feature:
    """One feature: a scalar, a list, a shape, a tensor in one value; with ``sequence`` a step of the first three."""
    dtype, leaf, leaves = draw(st.sampled_from(LEAVES))
    nulls = draw(st.sampled_from(["omit", "default", "fail"]))
    fill = DEFAULTS[dtype] if draw(st.booleans()) else None
    shape: tuple[int, ...] | None = draw(st.sampled_from([(), (), None, (3,), (1,), (0,), (2, 2)]))
    if sequence and shape is not None and len(shape) > 1:
        shape = (2,)
    encoding = (
        "list" if sequence or dtype == "bytes" else draw(st.sampled_from(["list", "list", "list", "tensor", "raw"]))
    )
    kind, values = leaf, leaves
    if shape != ():
        kind, values = _nested(draw, leaf, leaves | st.none() if fill is not None else leaves, shape)
    if sequence:
        kind, values = pa.list_(kind), st.lists(values, max_size=4)
    if nulls != "fail":
        values = values | st.none()
    spec = FeatureSpec(
        name,
        dtype,
        shape,
        nulls=nulls,
        default=DEFAULTS[dtype] if nulls == "default" else None,
        fill=fill,
        unit=draw(st.sampled_from(["D", "s", "ms", "us"])) if pa.types.is_temporal(leaf) else None,
        encoding=encoding,
        sequence=sequence,
    )
    return Feature(spec, kind, draw(st.lists(values, min_size=rows, max_size=rows)))


def _nested(
    draw: st.DrawFn, leaf: pa.DataType, leaves: st.SearchStrategy[Any], shape: tuple[int, ...] | None
) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
    form = draw(st.sampled_from(["list", "large", "fixed"]))
    if shape is None:
        kind = pa.large_list(leaf) if form == "large" else pa.list_(leaf)
        return kind, st.lists(leaves, max_size=5) | st.lists(leaves, min_size=60, max_size=70)
    kind, values = leaf, leaves
    flat = len(shape) > 1 and draw(st.booleans())
    for size in [shape[0] * shape[1]] if flat else reversed(shape):
        kind = {"list": pa.list_(kind), "large": pa.large_list(kind), "fixed": pa.list_(kind, size)}[form]
        values = st.lists(values, min_size=size, max_size=size)
    return kind, values


@st.composite
def samples(draw: st.DrawFn, record: str = "example") -> tuple[ExampleContract, pa.RecordBatch]:
    """A contract and a batch for it, which may be a slice of a larger one."""
    rows = draw(st.integers(0, 8))
    names = draw(st.lists(NAMES, max_size=6, unique=True))
    made = [draw(features(name, rows, sequence=record == "sequence_example" and draw(st.booleans()))) for name in names]
    contract = ExampleContract(tuple(f.spec for f in made), record)  # type: ignore[arg-type]
    return contract, batch_of(made, rows).slice(draw(st.integers(0, rows)))


def batch_of(made: list[Feature], rows: int) -> pa.RecordBatch:
    """The columns of all features."""
    if not made:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
    return pa.RecordBatch.from_arrays([pa.array(f.values, f.type) for f in made], [f.spec.name for f in made])
