"""Arrays filled by decode kernels. The NumPy buffers grow on demand and become Arrow arrays without another copy."""

from __future__ import annotations

from collections.abc import Sequence
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
_NONE: npt.NDArray[np.int64] = np.empty(0, np.int64)


def arrow_type(spec: FeatureSpec) -> pa.DataType:
    """Return the Arrow type of a decoded feature: a scalar, a list of variable length, or nested fixed-size lists for a
    shape.
    """
    kind = VALUE_TYPES[spec.dtype]
    if spec.shape is None:
        kind = pa.list_(kind)
    for size in reversed(spec.shape or ()):
        kind = pa.list_(kind, size)
    return pa.list_(kind) if spec.sequence else kind


def _room(count: int, dtype: Any) -> npt.NDArray[Any]:
    """Allocate uninitialised memory from Arrow's pool.

    The memory is aligned to 64 bytes, so TensorFlow needs no copy. It is reused once free, since touching fresh pages
    costs as much as decoding into them.
    """
    width = np.dtype(dtype).itemsize
    return np.frombuffer(pa.allocate_buffer(max(1, count) * width), dtype)[:count]


def _larger(old: npt.NDArray[Any], count: int, used: int) -> npt.NDArray[Any]:
    new = _room(count, old.dtype)
    new[:used] = old[:used]
    return new


def _from_zero(count: int) -> npt.NDArray[np.int64]:
    """Allocate ``count`` offsets. The kernel writes all except the first, which is 0."""
    offsets = _room(count, np.int64)
    offsets[0] = 0
    return offsets


class WireLayout:
    """The kernel's description of a contract's features, independent of any records."""

    def __init__(self, specs: Sequence[FeatureSpec]) -> None:
        self.specs = specs
        names = [spec.name.encode() for spec in specs]
        prefixes = [b"\x0a" + varint(len(name)) + name for name in names]
        self._keys = np.frombuffer(KEY_PADDING.join(prefixes) + KEY_PADDING, np.uint8)
        self.fields = np.zeros((len(specs), Decoded.FIELDS), np.int64)
        place = self._keys.ctypes.data
        for fields, spec, name, prefix in zip(self.fields, specs, names, prefixes, strict=True):
            fields[Decoded.PREFIX], fields[Decoded.PREFIX_SIZE] = place, len(prefix)
            fields[Decoded.KEY], fields[Decoded.KEY_SIZE] = place + len(prefix) - len(name), len(name)
            fields[Decoded.KIND] = KINDS[_wire_type(spec)]
            count = _values_of(spec)
            fields[Decoded.COUNT] = -1 if count is None else count
            fields[Decoded.REQUIRED] = spec.nulls == "fail"
            fields[Decoded.SEQUENCE] = spec.sequence
            place += len(prefix) + len(KEY_PADDING)
        scalars = [spec for spec in specs if _is_number(spec)]
        self.scalars = [together for d in NUMPY_TYPES if (together := [spec for spec in scalars if spec.dtype == d])]


def _is_number(spec: FeatureSpec) -> bool:
    return spec.shape == () and not spec.sequence and spec.encoding == "list" and spec.dtype in NUMPY_TYPES


class WireArrays:
    """Decoded arrays of all features of a batch of records. ``columns`` is in wire order.

    ``scalars`` are stored as rows of one matrix per type; ``others`` holds the remaining features.
    """

    def __init__(self, layout: WireLayout, rows: int) -> None:
        self.fields = layout.fields.copy()
        valid = np.zeros((len(layout.specs), rows), np.uint8)
        self.fields[:, Decoded.VALID] = valid.ctypes.data + rows * np.arange(len(valid))
        matrices = [_room(len(specs) * rows, NUMPY_TYPES[specs[0].dtype]) for specs in layout.scalars]
        matrices = [m.reshape(len(specs), rows) for m, specs in zip(matrices, layout.scalars, strict=True)]
        places = {
            spec.name: place
            for specs, matrix in zip(layout.scalars, matrices, strict=True)
            for spec, place in zip(specs, matrix, strict=True)
        }
        self.columns = [
            WireArray(spec, fields, valid_rows, places.get(spec.name))
            for spec, fields, valid_rows in zip(layout.specs, self.fields, valid, strict=True)
        ]
        by_name = {column.spec.name: column for column in self.columns}
        self.scalars = [
            ([by_name[spec.name] for spec in specs], matrix)
            for specs, matrix in zip(layout.scalars, matrices, strict=True)
        ]
        self.others = [column for column in self.columns if column.spec.name not in places]


def _wire_type(spec: FeatureSpec) -> str:
    return "bytes" if spec.encoding != "list" else spec.dtype


def _values_of(spec: FeatureSpec) -> int | None:
    """Return the number of values per feature, or None if it varies."""
    return 1 if spec.encoding != "list" else spec.size


class WireArray:
    """The resizable arrays of one feature, and the feature's row in the kernel's column matrix."""

    def __init__(
        self,
        spec: FeatureSpec,
        fields: npt.NDArray[np.int64],
        valid: npt.NDArray[np.uint8],
        values: npt.NDArray[Any] | None,
    ) -> None:
        self.spec, self.fields, self.valid, self.rows = spec, fields, valid, len(valid)
        self.dtype = _wire_type(spec)
        self._steps = self._offsets = _NONE
        self.bytes: npt.NDArray[np.uint8] | None = None
        if values is not None:
            self.values = values
        else:
            self._make_room()
        self._point()

    def _make_room(self) -> None:
        count, rows = _values_of(self.spec), self.rows
        if self.spec.sequence:
            self._steps = _from_zero(rows + 1)
            self.fields[Decoded.STEPS] = self._steps.ctypes.data
        if self.spec.sequence or count is None:
            self._offsets = _from_zero((4 * rows + 16 if self.spec.sequence else rows) + 1)
            room = 4 * rows + 16
        else:
            room = rows * count
        if self.dtype == "bytes":
            self.values = _from_zero(room + 1)
            self.bytes = _room(16 * room, np.uint8)
        else:
            self.values = _room(room, NUMPY_TYPES[self.dtype])

    def _point(self) -> None:
        fields = self.fields
        if self.bytes is None:
            fields[Decoded.VALUES], fields[Decoded.VALUE_ROOM] = self.values.ctypes.data, self.values.size
        else:
            fields[Decoded.BYTE_OFFSETS], fields[Decoded.VALUE_ROOM] = self.values.ctypes.data, self.values.size - 1
            fields[Decoded.BYTES_AT], fields[Decoded.BYTE_ROOM] = self.bytes.ctypes.data, self.bytes.size
        if self._offsets.size:
            fields[Decoded.OFFSETS], fields[Decoded.STEP_ROOM] = self._offsets.ctypes.data, self._offsets.size - 1

    def grow(self, reason: int, needed: int, done: int) -> None:
        """Grow the array that the kernel ran out of after ``done`` rows. At least doubles it, so that copying has
        constant cost per value, and makes it large enough for all rows if they resemble the rows already read.
        """
        if 8 * done > self.rows:
            needed = needed * self.rows // done * 17 // 16
        if reason == NEED_BYTES:
            assert self.bytes is not None
            self.bytes = _larger(self.bytes, max(needed, 2 * self.bytes.size), int(self.fields[Decoded.BYTES_USED]))
        elif reason == NEED_STEPS:
            used = int(self.fields[Decoded.STEPS_USED]) + 1
            self._offsets = _larger(self._offsets, max(needed, 2 * self._offsets.size) + 1, used)
        else:
            used = int(self.fields[Decoded.USED]) + (self.bytes is not None)  # one more offset than values
            self.values = _larger(self.values, max(needed, 2 * self.values.size) + 1, used)
        self._point()

    @property
    def _features(self) -> int:
        return int(self.fields[Decoded.STEPS_USED]) if self.spec.sequence else self.rows

    @property
    def content(self) -> npt.NDArray[Any]:
        """All values or, for bytes, their concatenated content."""
        used = int(self.fields[Decoded.USED])
        return self.values[:used] if self.bytes is None else self.bytes[: int(self.fields[Decoded.BYTES_USED])]

    @property
    def value_offsets(self) -> npt.NDArray[np.int64]:
        """Start of each bytes value in ``content``, and the end of the last value."""
        return self.values[: int(self.fields[Decoded.USED]) + 1]

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        """Start of each feature's values if their number varies, and the end of the last feature."""
        return self._offsets[: self._features + 1]

    @property
    def steps(self) -> npt.NDArray[np.int64]:
        """Start of each row's features in a sequence, and the end of the last row."""
        return self._steps

    def to_arrow(self) -> pa.Array:
        """Convert to Arrow, null if the feature is absent. Raises ContractError if it needs 64-bit offsets."""
        mask = None if self.valid.all() else pa.py_buffer(np.packbits(self.valid, bitorder="little"))
        if self.spec.sequence:
            return self._list(self.steps, self._shaped(None), mask)
        return self._shaped(mask)

    def _shaped(self, mask: pa.Buffer | None) -> pa.Array:
        if self.spec.encoding != "list" or self.spec.shape == ():
            return self._values(mask)
        if self.spec.shape is None:
            return self._list(self.offsets, self._values(None), mask)
        return shaped(self._values(None), self.spec.shape, self._features, mask)

    def _values(self, mask: pa.Buffer | None) -> pa.Array:
        used, content = int(self.fields[Decoded.USED]), pa.py_buffer(self.content)
        if self.bytes is None:
            return pa.Array.from_buffers(VALUE_TYPES[self.dtype], used, [mask, content])
        return pa.Array.from_buffers(pa.binary(), used, [mask, self._narrow(self.value_offsets), content])

    def _list(self, offsets: npt.NDArray[np.int64], values: pa.Array, mask: pa.Buffer | None) -> pa.Array:
        buffers = [mask, self._narrow(offsets)]
        return pa.Array.from_buffers(pa.list_(values.type), len(offsets) - 1, buffers, children=[values])

    def _narrow(self, offsets: npt.NDArray[np.int64]) -> pa.Buffer:
        if offsets[-1] > OFFSET_LIMIT:
            raise ContractError(
                f"Feature {self.spec.name!r} has {offsets[-1]} values or bytes in one batch, more than an Arrow list can "
                f"hold ({OFFSET_LIMIT}); decode fewer records at a time."
            )
        return pa.py_buffer(offsets.astype(np.int32))
