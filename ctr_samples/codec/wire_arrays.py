"""Arrays that decode kernels fill: NumPy buffers that grow on demand and become Arrow arrays without another copy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ctr_samples.codec.kernel_columns import shaped
from ctr_samples.codec.layout import BYTES, FLOAT, INT64, KEY_PADDING, NEED_BYTES, NEED_STEPS, Decoded
from ctr_samples.codec.tensors import varint
from ctr_samples.contract import FeatureSpec
from ctr_samples.errors import ContractError

KINDS = {"int64": INT64, "float32": FLOAT, "bytes": BYTES}
VALUE_TYPES = {"int64": pa.int64(), "float32": pa.float32(), "float64": pa.float64(), "bytes": pa.binary()}
NUMPY_TYPES = {"int64": np.int64, "float32": np.float32}
OFFSET_LIMIT = 2**31 - 1


def arrow_type(spec: FeatureSpec) -> pa.DataType:
    """What a feature decodes to: a scalar, list<...> for any length, nested fixed-size lists for a shape."""
    kind = VALUE_TYPES[spec.dtype]
    if spec.shape is None:
        kind = pa.list_(kind)
    for size in reversed(spec.shape or ()):
        kind = pa.list_(kind, size)
    return pa.list_(kind) if spec.sequence else kind


def _room(count: int, dtype: Any) -> npt.NDArray[Any]:
    """Memory of Arrow's pool: aligned to 64 bytes, which TensorFlow takes without a copy, and reused once it is free,
    while fresh pages cost as much as decoding into them. Its content is undefined."""
    return np.frombuffer(pa.allocate_buffer(count * np.dtype(dtype).itemsize), dtype, count)


def _larger(old: npt.NDArray[Any], count: int, used: int) -> npt.NDArray[Any]:
    new = _room(count, old.dtype)
    new[:used] = old[:used]
    return new


class WireArray:
    """The growing arrays of one feature, and its row of the kernel's column matrix."""

    def __init__(self, spec: FeatureSpec, fields: npt.NDArray[np.int64], rows: int) -> None:
        self.spec, self.fields, self.rows = spec, fields, rows
        packed = spec.encoding != "list"
        self.dtype = "bytes" if packed else spec.dtype
        self.count = 1 if packed else spec.size
        name = spec.name.encode()
        self.prefix = np.frombuffer(b"\x0a" + varint(len(name)) + name + KEY_PADDING, np.uint8)
        self.valid = np.zeros(rows, np.uint8)
        self.steps = np.zeros(rows + 1, np.int64) if spec.sequence else None
        features = 4 * rows + 16 if spec.sequence else rows
        fixed = self.count is not None and not spec.sequence
        self.offsets = None if fixed else np.zeros(features + 1, np.int64)
        # A misfit may have one value more than it should before it is noticed; others grow on demand.
        room = rows * (self.count or 0) + 16 if fixed else 4 * rows + 16
        self.bytes: npt.NDArray[np.uint8] | None = None
        if self.dtype == "bytes":
            self.values: npt.NDArray[Any] = np.zeros(room + 1, np.int64)
            self.bytes = _room(16 * room, np.uint8)
        else:
            self.values = _room(room, NUMPY_TYPES[self.dtype])
        self._describe(fields)

    def _describe(self, fields: npt.NDArray[np.int64]) -> None:
        spec = self.spec
        prefix, size, name = self.prefix.ctypes.data, self.prefix.size - len(KEY_PADDING), len(spec.name.encode())
        fields[Decoded.PREFIX], fields[Decoded.PREFIX_SIZE] = prefix, size
        fields[Decoded.KEY], fields[Decoded.KEY_SIZE] = prefix + size - name, name
        fields[Decoded.KIND] = KINDS[self.dtype]
        fields[Decoded.COUNT] = -1 if self.count is None else self.count
        fields[Decoded.REQUIRED] = spec.nulls == "fail"
        fields[Decoded.SEQUENCE] = spec.sequence
        fields[Decoded.VALID] = self.valid.ctypes.data
        fields[Decoded.STEPS] = 0 if self.steps is None else self.steps.ctypes.data
        self._point(fields)

    def _point(self, fields: npt.NDArray[np.int64]) -> None:
        if self.bytes is None:
            fields[Decoded.VALUES], fields[Decoded.VALUE_ROOM] = self.values.ctypes.data, self.values.size
        else:
            fields[Decoded.BYTE_OFFSETS], fields[Decoded.VALUE_ROOM] = self.values.ctypes.data, self.values.size - 1
            fields[Decoded.BYTES_AT], fields[Decoded.BYTE_ROOM] = self.bytes.ctypes.data, self.bytes.size
        if self.offsets is not None:
            fields[Decoded.OFFSETS], fields[Decoded.STEP_ROOM] = self.offsets.ctypes.data, self.offsets.size - 1

    def grow(self, reason: int, needed: int, done: int) -> None:
        """Make room as the kernel asked when it had read ``done`` rows; at least twofold, so that copying costs a constant
        for each value, and enough for all rows if they are like those read."""
        if 8 * done > self.rows:
            needed = needed * self.rows // done * 17 // 16
        if reason == NEED_BYTES:
            assert self.bytes is not None
            self.bytes = _larger(self.bytes, max(needed, 2 * self.bytes.size), int(self.fields[Decoded.BYTES_USED]))
        elif reason == NEED_STEPS:
            assert self.offsets is not None
            self.offsets.resize(max(needed, 2 * self.offsets.size) + 1, refcheck=False)
        else:
            used = int(self.fields[Decoded.USED]) + (self.bytes is not None)  # offsets are one more than values
            self.values = _larger(self.values, max(needed, 2 * self.values.size) + 1, used)
        self._point(self.fields)

    def to_arrow(self) -> pa.Array:
        """The finished array, null where the feature was absent. ContractError if it needs 64-bit offsets."""
        mask = None if self.valid.all() else pa.py_buffer(np.packbits(self.valid, bitorder="little"))
        used = int(self.fields[Decoded.USED])
        if self.spec.sequence:
            assert self.steps is not None
            inner = self._shaped(int(self.fields[Decoded.STEPS_USED]), used, None)
            return self._list(self.steps, self.rows, inner, mask)
        return self._shaped(self.rows, used, mask)

    def _shaped(self, features: int, used: int, mask: pa.Buffer | None) -> pa.Array:
        if self.spec.encoding != "list" or self.spec.shape == ():
            return self._values(used, mask)
        values = self._values(used, None)
        if self.spec.shape is None:
            return self._list(self.offsets, features, values, mask)
        return shaped(values, self.spec.shape, features, mask)

    def _values(self, used: int, mask: pa.Buffer | None) -> pa.Array:
        if self.bytes is None:
            return pa.Array.from_buffers(VALUE_TYPES[self.dtype], used, [mask, pa.py_buffer(self.values)])
        offsets = self._narrow(self.values[: used + 1])
        content = self.bytes[: int(self.fields[Decoded.BYTES_USED])]
        return pa.Array.from_buffers(pa.binary(), used, [mask, offsets, pa.py_buffer(content)])

    def _list(
        self, offsets: npt.NDArray[np.int64] | None, length: int, values: pa.Array, mask: pa.Buffer | None
    ) -> pa.Array:
        assert offsets is not None
        buffers = [mask, self._narrow(offsets[: length + 1])]
        return pa.Array.from_buffers(pa.list_(values.type), length, buffers, children=[values])

    def _narrow(self, offsets: npt.NDArray[np.int64]) -> pa.Buffer:
        if offsets[-1] > OFFSET_LIMIT:
            raise ContractError(
                f"Feature {self.spec.name!r} has {offsets[-1]} values or bytes in one batch, more than an Arrow list can "
                f"hold ({OFFSET_LIMIT}); decode fewer records at a time."
            )
        return pa.py_buffer(offsets.astype(np.int32))
