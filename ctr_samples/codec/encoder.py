"""Encode Arrow batches as framed TFRecord bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ctr_samples.codec.kernel_columns import WireColumn
from ctr_samples.codec.layout import (
    BLOCK,
    BYTES,
    FLOAT,
    FOOTER,
    HEADER,
    INT64,
    KEY_PADDING,
    SLACK,
    Encoded,
)
from ctr_samples.codec.machine_code import kernels
from ctr_samples.codec.plan import EncodePlan, check_record_type, plan_encoding
from ctr_samples.codec.tensors import varint
from ctr_samples.contract import ExampleContract
from ctr_samples.errors import EncodeError

KINDS = {pa.int64(): INT64, pa.float32(): FLOAT, pa.large_binary(): BYTES}
CONTEXT, FEATURE_LISTS = 0x0A, 0x12  # fields 1 and 2 of the message; Example has the first only

TYPICAL_VARINT = 4
"""Bytes reserved for each int64. The buffer grows if that is too little."""


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """Framed records, concatenated in ``buffer`` (uint8). Record i, including its two checksums, is
    ``buffer[offsets[i]:offsets[i + 1]]``. ``offsets`` is int64[rows + 1].
    """

    buffer: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def records(self, first: int, stop: int) -> memoryview:
        """Return the bytes of records ``first`` to ``stop`` (exclusive), without a copy."""
        return self.buffer.data[self.offsets[first] : self.offsets[stop]]

    def slice(self, first: int, stop: int) -> EncodedBatch:
        """Return the records ``first`` to ``stop`` (exclusive), without a copy of their bytes."""
        offsets = self.offsets[first : stop + 1]
        return EncodedBatch(self.buffer[offsets[0] : offsets[-1]], offsets - offsets[0])


class ExampleEncoder:
    """Encodes batches as framed records of the contract's type: Example, SequenceExample or ByteArray.

    Runs on executors, once per batch. The only state kept between batches is the plan for the last schema, so several
    threads may share an encoder. Releases the GIL while it writes records. Pickles as its contract.
    """

    def __init__(self, contract: ExampleContract) -> None:
        check_record_type(contract)
        self.contract = contract
        self._planned: tuple[pa.Schema, EncodePlan] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.contract,)

    def encode(self, batch: pa.RecordBatch) -> EncodedBatch:
        """Encode every row of ``batch``, in order.

        Raises ContractError if the columns do not match the contract, and EncodeError for a value that breaks it.
        """
        plan = self._plan(batch.schema)
        columns = plan.wire_columns(batch)
        if self.contract.record == "byte_array":
            return _encode_byte_arrays(plan, columns[0], batch.num_rows)
        return _encode_messages(plan, columns, batch.num_rows, self.contract.record == "sequence_example")

    def _plan(self, schema: pa.Schema) -> EncodePlan:
        planned = self._planned
        if planned is None or not planned[0].equals(schema):
            planned = (schema, plan_encoding(self.contract, schema))
            self._planned = planned
        return planned[1]


def _encode_messages(plan: EncodePlan, columns: list[WireColumn], rows: int, sequence: bool) -> EncodedBatch:
    matrix, alive = _matrix(plan, columns)
    context, every = plan.context_count, len(columns)
    groups = [[CONTEXT, 0, context], [FEATURE_LISTS, context, every]][: 2 if sequence else 1]
    group_matrix = np.array([*groups, [0, 0, 0]], np.int64)
    scratch = np.empty((every + len(groups)) * BLOCK, np.int64)
    write_records = kernels().write_records

    def write(offsets: npt.NDArray[np.int64], base: int, capacity: int, first: int) -> int:
        return write_records(
            matrix.ctypes.data,
            every,
            group_matrix.ctypes.data,
            scratch.ctypes.data,
            offsets.ctypes.data,
            base,
            capacity,
            first,
            rows,
        )

    encoded = _fill(write, rows, _estimate(matrix, columns, rows))
    del alive  # keeps the arrays alive until the kernel is done
    return encoded


def _encode_byte_arrays(plan: EncodePlan, column: WireColumn, rows: int) -> EncodedBatch:
    if column.valid is not None:
        row = int(np.flatnonzero(~column.valid)[0])
        raise EncodeError(
            f"Feature {plan.features[0].spec.name!r}, row {row} of the batch: the value is null, but a byte_array "
            "record cannot omit it; filter the row or declare `nulls: default`."
        )
    limits, data = column.binary_buffers()

    def write(offsets: npt.NDArray[np.int64], base: int, capacity: int, first: int) -> int:
        return kernels().write_byte_arrays(data.ctypes.data, limits.ctypes.data, offsets.ctypes.data, base, first, rows)

    frame = HEADER + FOOTER
    return _fill(write, rows, int(limits[-1] - limits[0]) + frame * rows + SLACK)


def _fill(write: Any, rows: int, capacity: int) -> EncodedBatch:
    """Fill a buffer with ``write``. The buffer starts at ``capacity`` bytes, grows until all rows fit, and is then
    trimmed.
    """
    buffer = np.empty(capacity, np.uint8)
    offsets = np.zeros(rows + 1, np.int64)
    done = write(offsets, buffer.ctypes.data, buffer.size, 0)
    while done < rows:
        # For large buffers realloc moves pages instead of bytes; no other reference to the array exists yet.
        buffer.resize(buffer.size + buffer.size // 2 + 4096, refcheck=False)
        done = write(offsets, buffer.ctypes.data, buffer.size, done)
    buffer.resize(int(offsets[-1]), refcheck=False)
    return EncodedBatch(buffer, offsets)


def _matrix(plan: EncodePlan, columns: list[WireColumn]) -> tuple[npt.NDArray[np.int64], list[Any]]:
    """Return the column matrix for the kernel, and all objects whose addresses it contains."""
    matrix = np.zeros((len(columns), Encoded.FIELDS), np.int64)
    alive: list[Any] = [columns]

    def address(array: npt.NDArray[Any]) -> int:
        alive.append(array)
        return int(array.ctypes.data)

    for row, feature, column in zip(matrix, plan.features, columns, strict=True):
        name = feature.spec.name.encode()
        key = b"\x0a" + varint(len(name)) + name + b"\x12"
        row[Encoded.KIND] = KINDS[column.values.type]
        row[Encoded.STRIDE] = column.stride
        row[Encoded.KEY] = address(np.frombuffer(key + KEY_PADDING, np.uint8))
        row[Encoded.KEY_SIZE] = len(key)
        if column.values.type == pa.large_binary():
            limits, data = column.binary_buffers()
            row[Encoded.VALUES], row[Encoded.BYTE_OFFSETS] = address(data), address(limits)
        else:
            row[Encoded.VALUES] = address(column.fixed_buffer())
        if column.offsets is not None:
            row[Encoded.OFFSETS] = address(column.offsets)
        if column.steps is not None:
            row[Encoded.STEPS] = address(column.steps)
        if column.valid is not None:
            row[Encoded.VALID] = address(column.valid.view(np.uint8))
    return matrix, alive


def _estimate(matrix: npt.NDArray[np.int64], columns: list[WireColumn], rows: int) -> int:
    """Estimate the size of the records in bytes: exact for floats, generous for keys, a guess for integers."""
    per_row = HEADER + FOOTER + 16
    total = SLACK + 64
    for fields, column in zip(matrix, columns, strict=True):
        features = len(column.values) if column.steps is not None else rows
        total += rows * (int(fields[Encoded.KEY_SIZE]) + 6) + features * 8
        if column.values.type == pa.large_binary():
            limits, _ = column.binary_buffers()
            total += int(limits[-1] - limits[0]) + 3 * len(column.values)
        else:
            total += len(column.values) * TYPICAL_VARINT
    return total + rows * per_row
