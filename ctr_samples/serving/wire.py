"""Encode a message in protobuf's wire format, byte for byte as the codec does; docs/wire-format.md is the
specification.

For a single row, the overhead of calling the codec's kernels would dominate. This module takes about a microsecond per
feature.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from operator import index
from typing import Any

from ctr_samples.codec.plan import in_wire_order
from ctr_samples.codec.tensors import tensor_prefix, varint
from ctr_samples.contract import ExampleContract, FeatureSpec, Part
from ctr_samples.errors import EncodeError, InputError
from ctr_samples.serving.declared import Declared

Write = Callable[[Any], bytes]

_SMALL = [varint(n) for n in range(1 << 14)]
_LOW = [bytes([n & 0x7F | 0x80, n >> 7 | 0x80]) for n in range(1 << 14)]
"""Varint bytes for the lowest 14 bits of a longer number."""

_LISTS = {"bytes": b"\x0a", "float32": b"\x12", "int64": b"\x1a"}
_FORMATS = {"int64": "q", "float32": "f", "float64": "d"}
_WHOLE = 1 << 64


class MessageWriter:
    """Encodes messages according to a contract."""

    def __init__(self, contract: ExampleContract) -> None:
        ordered = in_wire_order(contract)
        self._context = [(spec, _writer(spec)) for spec in ordered if not spec.sequence]
        self._lists = [(spec, _steps_writer(spec)) for spec in ordered if spec.sequence]
        self._sequence = contract.record == "sequence_example"

    def write(self, values: Mapping[str, Any]) -> bytes:
        """Return the message, omitting features whose value is missing or None. Raises EncodeError for a value that
        breaks the contract.
        """
        context = _message(b"\x0a", self._context, values)
        return context + _message(b"\x12", self._lists, values) if self._sequence else context


def _message(tag: bytes, writers: list[tuple[FeatureSpec, Write]], values: Mapping[str, Any]) -> bytes:
    parts = []
    for spec, write in writers:
        value = values.get(spec.name)
        if value is None:
            continue
        try:
            parts.append(write(value))
        except (struct.error, OverflowError, TypeError, ValueError) as error:
            shape = None if spec.shape is None else list(spec.shape)
            raise EncodeError(
                f"Feature {spec.name!r} is {value!r}, which is not {spec.dtype} of shape {shape}: {error}."
            ) from None
    body = b"".join(parts)
    return tag + _size(len(body)) + body


def _size(number: int) -> bytes:
    return _SMALL[number] if number < 1 << 14 else varint(number)


def _sized(content: bytes) -> bytes:
    return _size(len(content)) + content


def _int64(value: int) -> bytes:
    if 0 <= value < 1 << 14:
        return _SMALL[value]
    if not -(1 << 63) <= value < 1 << 63:
        raise OverflowError("it does not fit into 64 bits")
    rest = value if value >= 0 else index(value) + _WHOLE
    low = _LOW[rest & 0x3FFF]
    rest >>= 14
    while rest >= 1 << 14:
        low += _LOW[rest & 0x3FFF]
        rest >>= 14
    return low + _SMALL[rest]


def _writer(spec: FeatureSpec) -> Write:
    """Return a function that encodes a value, or the values of a list, as an entry of the feature map."""
    key = b"\x0a" + _sized(spec.name.encode()) + b"\x12"
    feature = _feature(spec)

    def write(value: Any) -> bytes:
        return b"\x0a" + _sized(key + _sized(feature(value)))

    return _fixed_floats(spec, key) or _one_integer(spec, key) or write


def _one_integer(spec: FeatureSpec, key: bytes) -> Write | None:
    """Return a writer for single integers with ten possible prefixes, one per varint length, or None for other
    features.
    """
    if spec.dtype != "int64" or spec.shape != () or spec.encoding != "list":
        return None
    heads = []
    for size in range(11):
        feature = b"\x1a" + _sized(b"\x0a" + _sized(bytes(size)))
        entry = b"\x0a" + _sized(key + _sized(feature))
        heads.append(entry[: len(entry) - size])

    def write(value: Any) -> bytes:
        number = _int64(value)
        return heads[len(number)] + number

    return write


def _fixed_floats(spec: FeatureSpec, key: bytes) -> Write | None:
    """Return a writer for a fixed number of floats, which has a fixed prefix, or None for other features."""
    if spec.dtype != "float32" or not spec.size or spec.encoding != "list":
        return None
    size, pack = spec.size, struct.Struct(f"<{spec.size}f").pack
    feature = b"\x12" + _sized(b"\x0a" + _sized(pack(*[0.0] * size)))
    entry = b"\x0a" + _sized(key + _sized(feature))
    head = entry[: len(entry) - 4 * size]
    if spec.shape == ():
        return lambda value: head + pack(value)
    return lambda value: head + pack(*flattened(value))


def _feature(spec: FeatureSpec) -> Write:
    if spec.encoding != "list":
        return _packed(spec)
    kind = _LISTS[spec.dtype]
    content = {"bytes": _texts, "float32": _floats, "int64": _integers}[spec.dtype]
    count = spec.size

    def write(value: Any) -> bytes:
        values = flattened(value) if isinstance(value, list | tuple) else [value]
        if count is not None and len(values) != count:
            raise ValueError(f"it has {len(values)} values")
        return kind + _sized(content(values))

    return write


def _texts(values: list[Any]) -> bytes:
    return b"".join([b"\x0a" + _sized(v.encode() if isinstance(v, str) else v) for v in values])


def _floats(values: list[Any]) -> bytes:
    return b"\x0a" + _sized(struct.pack(f"<{len(values)}f", *values)) if values else b""


def _integers(values: list[Any]) -> bytes:
    return b"\x0a" + _sized(b"".join([_SMALL[v] if 0 <= v < 1 << 14 else _int64(v) for v in values])) if values else b""


def _packed(spec: FeatureSpec) -> Write:
    """Return a writer for values packed into a bytes value, as a TensorProto or raw."""
    code = _FORMATS[spec.dtype]

    def write(value: Any) -> bytes:
        values = flattened(value) if isinstance(value, list | tuple) else [value]
        if spec.size is not None and len(values) != spec.size:
            raise ValueError(f"it has {len(values)} values")
        prefix = tensor_prefix(spec, len(values)) if spec.encoding == "tensor" else b""
        return b"\x0a" + _sized(b"\x0a" + _sized(prefix + struct.pack(f"<{len(values)}{code}", *values)))

    return write


def _steps_writer(spec: FeatureSpec) -> Write:
    """Return a writer for a FeatureList, with one feature per step."""
    key = b"\x0a" + _sized(spec.name.encode()) + b"\x12"
    feature = _feature(spec)

    def write(value: Any) -> bytes:
        steps = b"".join([b"\x0a" + _sized(feature(step)) for step in value])
        return b"\x0a" + _sized(key + _sized(steps))

    return write


Join = Callable[[Mapping[str, Any]], dict[str, Any]]


def layout_of(contract: ExampleContract, features: Sequence[Declared]) -> Join:
    """Return a function that maps the values of declared features to the features in the record."""
    by_name = {feature.name: feature for feature in features}
    parts = [(by_name[part.name], part) for part in contract.parts]
    if contract.layout in ("columns", "sequence"):
        return dict
    if contract.layout == "sparse":
        return lambda made: _sparse(made, parts)
    (joined,) = contract.names("feature")
    return lambda made: {joined: [x for feature, part in parts for x in _numbers(made[feature.name], part)]}


def flattened(value: Any) -> list[Any]:
    """Flatten nested lists."""
    if not value or not isinstance(value[0], list | tuple):
        return value  # type: ignore[no-any-return]
    return flattened([item for items in value for item in items])


def _numbers(value: Any, part: Part) -> list[Any]:
    """Return exactly as many numbers as the part has.

    Raises InputError for any other count, which would shift later parts.
    """
    numbers = flattened(value) if isinstance(value, list) else [value]
    if len(numbers) != part.size:
        raise InputError(f"features.{part.name}: found {len(numbers)} values, expected {part.size}; set `pad: true`.")
    if None in numbers:
        raise InputError(f"features.{part.name}: found a null inside the list; set `fill`.")
    return numbers


def _sparse(made: Mapping[str, Any], parts: Sequence[tuple[Declared, Part]]) -> dict[str, Any]:
    """Return the indices and values of non-zero entries. Includes each id of a list once, without padding."""
    places: list[int] = []
    values: list[float] = []
    for feature, part in parts:
        value = made[feature.name]
        if feature.is_id:
            ids = sorted(set(value) - {0}) if isinstance(value, list) else [value]
            places += [part.start + i for i in ids]
            values += [1.0] * len(ids)
        else:
            nonzero = [(part.start + i, float(x)) for i, x in enumerate(_numbers(value, part)) if x != 0]
            places += [index for index, _ in nonzero]
            values += [x for _, x in nonzero]
    return {"indices": places, "values": values}
