"""Reference engine: builds the same records one by one with tf.train.Example and tf.io.TFRecordWriter.

Small, slow and independent of the kernels. Serves as the oracle of the tests, and as ``engine: tensorflow``. The only
module here that uses TensorFlow, which it imports when an encoder is created.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Mapping
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ctr_samples.codec.encoder import EncodedBatch
from ctr_samples.codec.frames import frame_offsets
from ctr_samples.codec.kernel_columns import is_list
from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.errors import ContractError, EncodeError

PER_DAY = {"D": 1, "s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


class ReferenceEncoder:
    """A drop-in replacement for ``ExampleEncoder`` that writes the same bytes, about fifty times slower."""

    def __init__(self, contract: ExampleContract) -> None:
        import tensorflow as tf

        self.contract = contract
        self._tf = tf

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.contract,)

    def encode(self, batch: pa.RecordBatch) -> EncodedBatch:
        """Encode every row via a temporary file. Raises EncodeError and ContractError like ``ExampleEncoder``."""
        with tempfile.TemporaryDirectory(prefix="ctr-samples-") as folder:
            path = Path(folder) / "records"
            with self._tf.io.TFRecordWriter(str(path)) as writer:
                for message in self.messages(batch):
                    writer.write(message)
            buffer = np.fromfile(path, np.uint8)
        return EncodedBatch(buffer, frame_offsets(buffer))

    def messages(self, batch: pa.RecordBatch) -> Iterator[bytes]:
        """Yield the message of each row."""
        build = {"example": self._example, "sequence_example": self._sequence_example, "byte_array": self._byte_array}
        names = {f.name for f in self.contract.features}
        for row in range(batch.num_rows):
            parts: dict[str, Any] = {}
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                parts.update(_split(name, column[row], names))
            if parts.keys() != names:
                raise ContractError(
                    f"The batch gives {sorted(parts)}, the contract has {sorted(names)}; make them agree."
                )
            yield build[self.contract.record](parts, row)

    def _example(self, parts: Mapping[str, Any], row: int) -> bytes:
        train = self._tf.train
        example = train.Example(features=train.Features(feature=self._features(parts, row, sequence=False)))
        return bytes(example.SerializeToString(deterministic=True))

    def _sequence_example(self, parts: Mapping[str, Any], row: int) -> bytes:
        train = self._tf.train
        example = train.SequenceExample(
            context=train.Features(feature=self._features(parts, row, sequence=False)),
            feature_lists=train.FeatureLists(feature_list=self._features(parts, row, sequence=True)),
        )
        return bytes(example.SerializeToString(deterministic=True))

    def _byte_array(self, parts: Mapping[str, Any], row: int) -> bytes:
        (spec,) = self.contract.features
        value = _filled(spec, parts[spec.name], row)
        if value is None:
            raise EncodeError(f"Feature {spec.name!r}, row {row}: null in a byte_array record; filter the row.")
        return _wire_value(spec, value, row)  # type: ignore[no-any-return]

    def _features(self, parts: Mapping[str, Any], row: int, *, sequence: bool) -> dict[str, Any]:
        features = {}
        for spec in self.contract.features:
            if spec.sequence != sequence:
                continue
            value = _filled(spec, parts[spec.name], row)
            if value is None:
                continue
            if sequence:
                steps = [self._feature(spec, _values(spec, step, row)) for step in value]
                features[spec.name] = self._tf.train.FeatureList(feature=steps)
            else:
                features[spec.name] = self._feature(spec, _values(spec, value, row))
        return features

    def _feature(self, spec: FeatureSpec, values: list[Any]) -> Any:
        train = self._tf.train
        if spec.encoding != "list":
            array = np.array(values, spec.dtype).reshape(spec.shape or (() if spec.shape == () else -1))
            packed = array.tobytes() if spec.encoding == "raw" else self._tf.io.serialize_tensor(array).numpy()
            return train.Feature(bytes_list=train.BytesList(value=[packed]))
        if spec.dtype == "int64":
            return train.Feature(int64_list=train.Int64List(value=values))
        if spec.dtype == "float32":
            return train.Feature(float_list=train.FloatList(value=values))
        return train.Feature(bytes_list=train.BytesList(value=values))


def _split(name: str, scalar: Any, names: set[str]) -> Iterator[tuple[str, Any]]:
    """Yield a value, or the parts of a struct, map, vector or nested list, under their names in the contract."""
    kind = scalar.type
    value = _python(scalar)
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_struct(kind) and [f.name for f in kind] == ["type", "size", "indices", "values"]:
        yield from _vector(name, value, names)
    elif name in names:
        yield name, value
    elif pa.types.is_struct(kind):
        for i in range(kind.num_fields):
            field = kind.field(i)
            child = pa.scalar(None, field.type) if value is None else scalar[field.name]
            yield from _split(f"{name}.{field.name}", child, names)
    elif pa.types.is_map(kind):
        yield f"{name}.keys", None if value is None else [key for key, _ in value]
        yield f"{name}.values", None if value is None else [item for _, item in value]
    elif f"{name}.values" in names:
        yield f"{name}.values", None if value is None else [item for inner in value for item in inner]
        yield f"{name}.row_lengths", None if value is None else [len(inner) for inner in value]
    else:
        yield name, value


def _vector(name: str, value: dict[str, Any] | None, names: set[str]) -> Iterator[tuple[str, Any]]:
    if value is None:
        places, values, size = None, None, 0
    elif value["type"] == 0:
        places, values, size = value["indices"], value["values"], value["size"]
    else:
        places, values, size = list(range(len(value["values"]))), value["values"], len(value["values"])
    if name not in names:
        yield f"{name}.indices", places
        yield f"{name}.values", values
    elif values is None or places is None:
        yield name, None
    else:
        by_place = dict(zip(places, values, strict=True))
        yield name, [by_place.get(i, 0.0) for i in range(size)]


class _Ticks(int):
    """A timestamp as a count of ``unit`` since 1970."""

    unit = "us"


def _python(scalar: Any) -> Any:
    """Like ``as_py``, but returns timestamps as counts: Python's datetime lacks nanoseconds and ends in 9999."""
    kind = scalar.type
    if pa.types.is_dictionary(kind):
        return _python(pa.scalar(scalar.as_py(), kind.value_type))
    if scalar.is_valid and pa.types.is_timestamp(kind):
        ticks = _Ticks(scalar.value)
        ticks.unit = kind.unit
        return ticks
    if scalar.is_valid and is_list(kind):
        return [_python(item) for item in scalar]
    return scalar.as_py()


def _filled(spec: FeatureSpec, value: Any, row: int) -> Any:
    """Apply the null policy to a value. None means that the key is omitted."""
    if value is not None:
        return value
    if spec.nulls == "fail":
        raise EncodeError(f"Feature {spec.name!r}, row {row}: null, which its `nulls: fail` forbids; filter the row.")
    if spec.nulls == "omit":
        return None
    if spec.sequence and spec.shape is None:
        return [[spec.default]]
    if spec.sequence:
        return [[spec.default] * (spec.size or 0)] if spec.shape else [spec.default]
    if spec.shape == ():
        return spec.default
    return [spec.default] * (1 if spec.size is None else spec.size)


def _values(spec: FeatureSpec, value: Any, row: int) -> list[Any]:
    """Flatten the values of one feature and check their number."""
    flat = list(_flat(value))
    if spec.size is not None and len(flat) != spec.size:
        raise EncodeError(f"Feature {spec.name!r}, row {row}: {len(flat)} values, its shape needs {spec.size}.")
    return [_wire_value(spec, spec.fill if item is None else item, row) for item in flat]


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, list | np.ndarray):
        for item in value:
            yield from _flat(item)
    else:
        yield value


def _wire_value(spec: FeatureSpec, value: Any, row: int) -> Any:
    """Convert one value to the type that protobuf expects."""
    where = f"Feature {spec.name!r}, row {row}: the value {value!r}"
    if value is None:
        raise EncodeError(f"{where} is a null inside a list; declare `fill` or remove it.")
    if spec.dtype == "bytes":
        return value.encode() if isinstance(value, str) else bytes(value)
    if spec.dtype == "int64":
        number = _ticks(spec, value)
        if not -(2**63) <= number < 2**63:
            raise EncodeError(f"{where} does not fit into int64.")
        return number
    if spec.dtype == "float64":
        if not spec.nonfinite and not math.isfinite(value):
            raise EncodeError(f"{where} is not finite.")
        return float(value)
    with np.errstate(over="ignore"):
        narrow = float(np.float32(float(value) if isinstance(value, Decimal) else value))
    if math.isinf(narrow) and math.isfinite(value):
        raise EncodeError(f"{where} becomes infinite as float32.")
    if not spec.nonfinite and not math.isfinite(narrow):
        raise EncodeError(f"{where} is not finite.")
    return narrow


def _ticks(spec: FeatureSpec, value: Any) -> int:
    """Convert a date or timestamp to the contract's unit, rounding down. Other numbers are unchanged."""
    if isinstance(value, _Ticks):
        return int(value) * PER_DAY[str(spec.unit)] // PER_DAY[value.unit]
    if isinstance(value, date):
        return (value - date(1970, 1, 1)).days * PER_DAY[str(spec.unit)]
    return int(value)
