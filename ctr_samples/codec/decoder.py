"""Decode framed TFRecord bytes to Arrow batches."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ctr_samples.codec.encoder import EncodedBatch
from ctr_samples.codec.frames import Buffer, as_bytes, frame_offsets
from ctr_samples.codec.kernel_columns import with_nulls_replaced
from ctr_samples.codec.layout import (
    BROKEN,
    BYTES,
    COLUMN,
    DETAIL,
    DONE,
    FLOAT,
    FOOTER,
    HEADER,
    INT64,
    NEED_BYTES,
    NEED_STEPS,
    NEED_VALUES,
    REASON,
    STATUS_SIZE,
    WRONG_COUNT,
    WRONG_KIND,
)
from ctr_samples.codec.machine_code import decoders
from ctr_samples.codec.plan import check_record_type, in_wire_order
from ctr_samples.codec.tensors import unpack_tensors
from ctr_samples.codec.values import wire_scalar
from ctr_samples.codec.wire_arrays import WireArray, WireArrays, WireLayout, arrow_type
from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.errors import ContractError, DamagedFile

GROW = (NEED_VALUES, NEED_BYTES, NEED_STEPS)
KIND_NAMES = {BYTES: "bytes", FLOAT: "float32", INT64: "int64"}


class Messages:
    """Messages of one or more runs of checked records, optionally selected and ordered by ``order``.

    ``begins`` and ``ends`` are the message addresses (int64). Nothing is copied.
    """

    def __init__(self, runs: Sequence[EncodedBatch], order: npt.NDArray[np.int64] | None = None) -> None:
        self._runs = runs
        begins = np.concatenate([run.offsets[:-1] + (run.buffer.ctypes.data + HEADER) for run in runs])
        ends = np.concatenate([run.offsets[1:] + (run.buffer.ctypes.data - FOOTER) for run in runs])
        self.begins, self.ends = (begins, ends) if order is None else (begins[order], ends[order])

    def __len__(self) -> int:
        return len(self.begins)

    def position(self, row: int) -> int:
        """Return the offset of a message's frame in its buffer."""
        places = [int(self.begins[row]) - HEADER - run.buffer.ctypes.data for run in self._runs]
        return next(place for place, run in zip(places, self._runs, strict=True) if 0 <= place < run.buffer.size)


class ExampleDecoder:
    """Decodes framed records to batches with the features of the contract, in declared order. Skips all other keys.

    ``strict`` rejects a feature whose kind or number of values differs from the contract, and a record without a
    feature that the contract requires (`nulls: fail`); otherwise such a feature is null. Decoding does not change the
    decoder, so several threads may share a decoder. Can be pickled.
    """

    def __init__(self, contract: ExampleContract, *, strict: bool = True) -> None:
        check_record_type(contract)
        self.contract, self.strict = contract, strict
        self.schema = pa.schema([pa.field(f.name, arrow_type(f)) for f in contract.features])
        if contract.record != "byte_array":
            self._layout = WireLayout(in_wire_order(contract))
            self._groups = _groups_of(contract)

    def decode(self, buffer: Buffer) -> pa.RecordBatch:
        """Decode every record in ``buffer`` to ``schema``. An absent feature becomes its default, or null if it has
        none.

        Raises DamagedFile if the bytes are not complete, valid records, and ContractError if a feature does not fit.
        """
        data = as_bytes(buffer)
        return self.decode_frames(data, frame_offsets(data))

    def decode_frames(self, data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> pa.RecordBatch:
        """Like :meth:`decode`, for records checked by :func:`frame_offsets`. ``offsets`` may be a slice."""
        messages = Messages([EncodedBatch(data, offsets)])
        if self.contract.record == "byte_array":
            limits, content = byte_arrays(messages)
            buffers = [None, pa.py_buffer(limits), pa.py_buffer(content)]
            array = pa.Array.from_buffers(pa.large_binary(), len(limits) - 1, buffers).cast(pa.binary())
            return pa.RecordBatch.from_arrays([array], schema=self.schema)
        columns = {column.spec.name: _finished(column) for column in self.read(messages).columns}
        if not columns:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * (len(offsets) - 1), pa.struct([])))
        return pa.RecordBatch.from_arrays([columns[f.name] for f in self.contract.features], schema=self.schema)

    def _too_large(self, rows: int) -> ContractError:
        largest = max(self.contract.features, key=lambda spec: spec.size or 0)
        return ContractError(
            f"Not enough memory for {rows:,} records with {largest.size or 0:,} values of feature {largest.name!r} each; "
            "if the records hold fewer, read them with the contract they were written with."
        )

    def read(self, messages: Messages) -> WireArrays:
        """Decode messages to features in wire form. Absent features are zero. Raises the errors of :meth:`decode`."""
        try:
            return self._read(messages)
        except MemoryError as error:
            raise self._too_large(len(messages)) from error

    def _read(self, messages: Messages) -> WireArrays:
        rows = len(messages)
        arrays = WireArrays(self._layout, rows)
        status = np.zeros(STATUS_SIZE, np.int64)
        read_records = decoders().read_records
        done = 0
        while True:
            done = read_records(
                arrays.fields.ctypes.data,
                len(arrays.columns),
                self._groups.ctypes.data,
                messages.begins.ctypes.data,
                messages.ends.ctypes.data,
                done,
                rows,
                self.strict,
                status.ctypes.data,
            )
            reason = int(status[REASON])
            if reason not in GROW:
                break
            arrays.columns[status[COLUMN]].grow(reason, int(status[DETAIL]), done)
        if reason != DONE:
            spec = self._layout.specs[status[COLUMN]] if status[COLUMN] >= 0 else None
            raise _problem(reason, int(status[DETAIL]), done, messages.position(done), spec)
        return arrays

    def __reduce__(self) -> Any:
        # The layout contains addresses of this process.
        return partial(ExampleDecoder, strict=self.strict), (self.contract,)


def _groups_of(contract: ExampleContract) -> npt.NDArray[np.int64]:
    """Return the map field of each kind of feature, in the kernel's format (``layout.GROUP_SIZE``)."""
    context = sum(not f.sequence for f in contract.features)
    groups = [[0x0A, 0, context]]
    if contract.record == "sequence_example":
        groups.append([0x12, context, len(contract.features)])
    return np.array([*groups, [0, 0, 0]], np.int64)


def byte_arrays(messages: Messages) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Concatenate all messages. Return their offsets, int64[messages + 1], and the bytes."""
    begins, ends = messages.begins, messages.ends
    target, limits = np.empty(int((ends - begins).sum()), np.uint8), np.zeros(len(messages) + 1, np.int64)
    decoders().read_byte_arrays(
        begins.ctypes.data, ends.ctypes.data, len(messages), target.ctypes.data, limits.ctypes.data
    )
    return limits, target


def _finished(column: WireArray) -> pa.Array:
    """Convert a feature to Arrow: unpack tensors, and replace absent values with the default."""
    array, spec = column.to_arrow(), column.spec
    if spec.encoding != "list":
        array = unpack_tensors(array, spec)
    if spec.nulls == "default" and array.null_count:
        default = wire_scalar(spec, spec.default, "default").as_py()
        array = with_nulls_replaced(array, default)
    return array


def _problem(reason: int, detail: int, record: int, position: int, spec: FeatureSpec | None) -> Exception:
    where = f"Record {record} of the buffer, at byte {position},"
    if reason == BROKEN or spec is None:
        return DamagedFile(
            f"{where} has valid checksums but is not a well-formed message, so its writer is at fault; "
            "write the file again."
        )
    expected = f"the contract has {spec.dtype} of shape {None if spec.shape is None else list(spec.shape)}"
    if reason == WRONG_KIND:
        problem = f"holds {KIND_NAMES[detail]} values"
    elif reason == WRONG_COUNT:
        problem = f"holds {detail} values"
    else:
        problem, expected = "is absent", "the contract requires it (`nulls: fail`)"
    return ContractError(
        f"{where} does not match the contract: feature {spec.name!r} {problem}, but {expected}. "
        "Read with the contract the file was written with, or decode with strict=False to get nulls."
    )
