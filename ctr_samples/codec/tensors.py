"""Tensors as single bytes values: raw little-endian (tf.io.decode_raw) or TensorProto (tf.io.parse_tensor)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ctr_samples.codec.kernel_columns import WireColumn, offsets_of, shaped
from ctr_samples.contract import FeatureSpec
from ctr_samples.errors import DamagedFile

TENSOR_TYPES = {"float32": 1, "float64": 2, "int64": 9}
"""Enum values of tensorflow.DataType."""

_NUMPY: dict[str, np.dtype[Any]] = {"float32": np.dtype("<f4"), "float64": np.dtype("<f8"), "int64": np.dtype("<i8")}


def pack_tensors(wire: WireColumn, spec: FeatureSpec, rows: int) -> WireColumn:
    """Pack the values of each row into one bytes value."""
    width = wire.values.type.bit_width // 8
    counts = np.diff(wire.offsets) if wire.offsets is not None else np.full(rows, wire.stride, np.int64)
    limits = offsets_of(counts * width)
    data = pa.py_buffer(wire.fixed_buffer())
    raw = pa.Array.from_buffers(pa.large_binary(), rows, [None, pa.py_buffer(limits), data])
    if spec.encoding == "raw":
        return WireColumn(raw, stride=1)
    sizes, which = np.unique(counts, return_inverse=True)
    prefixes = pa.array([tensor_prefix(spec, int(n)) for n in sizes], pa.large_binary())
    separator = pa.scalar(b"", pa.large_binary())
    return WireColumn(pc.binary_join_element_wise(prefixes.take(pa.array(which)), raw, separator), stride=1)


def tensor_prefix(spec: FeatureSpec, count: int) -> bytes:
    """Return the bytes of a TensorProto of ``count`` values, up to its content."""
    width = _NUMPY[spec.dtype].itemsize
    dimensions = (count,) if spec.shape is None else spec.shape
    shape = b"".join(_field(0x12, b"\x08" + varint(n) if n else b"") for n in dimensions)
    content = b"\x22" + varint(count * width) if count else b""
    return b"\x08" + varint(TENSOR_TYPES[spec.dtype]) + _field(0x12, shape) + content


def _field(tag: int, content: bytes) -> bytes:
    return bytes([tag]) + varint(len(content)) + content


def varint(number: int) -> bytes:
    """Encode a non-negative number as a protobuf varint."""
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def unpack_tensors(array: pa.Array, spec: FeatureSpec) -> pa.Array:
    """Unpack the result of :func:`pack_tensors` to (nested) lists. Raises DamagedFile for bytes of any other form."""
    width = _NUMPY[spec.dtype].itemsize
    lengths = pc.fill_null(pc.binary_length(array), 0).to_numpy().astype(np.int64)
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    prefixes = {int(n): _prefix_of(spec, int(n), width) for n in np.unique(lengths[valid])}
    pieces = []
    for row, value in enumerate(array):
        if not valid[row]:
            continue
        content = value.as_py()
        prefix = prefixes[len(content)]
        if not content.startswith(prefix):
            raise _not_a_tensor(spec, row)
        pieces.append(content[len(prefix) :])
    counts = np.zeros(len(array), np.int64)
    counts[valid] = [len(p) // width for p in pieces]
    values = np.frombuffer(b"".join(pieces), _NUMPY[spec.dtype])
    return _as_lists(values, counts, spec, valid)


def _prefix_of(spec: FeatureSpec, length: int, width: int) -> bytes:
    """Return the prefix of a packed tensor of ``length`` bytes."""
    if spec.encoding == "raw":
        count = length // width
        prefix = b""
    else:
        # A prefix takes at least six bytes; its varint lengths add a few more, depending on the count.
        candidates = range(max(0, length // width - 8), length // width + 1)
        fitting = [n for n in candidates if len(tensor_prefix(spec, n)) + n * width == length]
        count = fitting[0] if fitting else -1
        prefix = tensor_prefix(spec, count) if fitting else b""
    if len(prefix) + count * width != length or (spec.size is not None and count != spec.size):
        raise DamagedFile(
            f"Feature {spec.name!r} holds {length} bytes, which are not a tensor of {spec.dtype} with shape {spec.shape} "
            f"in the encoding {spec.encoding!r}; read with the contract the file was written with."
        )
    return prefix


def _not_a_tensor(spec: FeatureSpec, row: int) -> DamagedFile:
    return DamagedFile(
        f"Feature {spec.name!r} of record {row} is not a TensorProto of {spec.dtype} with shape {spec.shape}; read "
        "with the contract the file was written with."
    )


def _as_lists(
    values: npt.NDArray[Any], counts: npt.NDArray[np.int64], spec: FeatureSpec, valid: npt.NDArray[np.bool_]
) -> pa.Array:
    """Build lists, nested fixed-size lists or scalars as declared in the contract, null for rows that are not
    ``valid``.
    """
    mask = pa.py_buffer(np.packbits(valid, bitorder="little"))
    if spec.size is None:
        buffers = [mask, pa.py_buffer(offsets_of(counts).astype(np.int32))]
        child = pa.array(values)
        return pa.Array.from_buffers(pa.list_(child.type), len(counts), buffers, children=[child])
    padded = np.zeros((len(counts), spec.size), values.dtype)
    padded[valid] = values.reshape(-1, spec.size) if spec.size else 0
    if spec.shape == ():
        return pa.array(padded.ravel(), mask=~valid)
    return shaped(pa.array(padded.ravel()), spec.shape or (), len(counts), mask)
