"""Framed TFRecord bytes to Arrow batches."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

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
    Decoded,
)
from ctr_samples.codec.machine_code import kernels
from ctr_samples.codec.plan import check_record_type, in_wire_order
from ctr_samples.codec.tensors import unpack_tensors
from ctr_samples.codec.values import wire_scalar
from ctr_samples.codec.wire_arrays import WireArray, arrow_type
from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.errors import ContractError, DamagedFile

GROW = (NEED_VALUES, NEED_BYTES, NEED_STEPS)
KIND_NAMES = {BYTES: "bytes", FLOAT: "float32", INT64: "int64"}


class ExampleDecoder:
    """Turns framed records into batches with the contract's features, in declared order; other keys are skipped.

    ``strict`` refuses a feature whose kind or number of values differs from the contract, and a record without a feature
    that the contract requires (`nulls: fail`); otherwise such a feature is null. Stateless, so one decoder may serve
    several threads. Pickles.
    """

    def __init__(self, contract: ExampleContract, *, strict: bool = True) -> None:
        check_record_type(contract)
        self.contract, self.strict = contract, strict
        self.schema = pa.schema([pa.field(f.name, arrow_type(f)) for f in contract.features])

    def decode(self, buffer: Buffer) -> pa.RecordBatch:
        """Every record in ``buffer``, as ``schema`` says. An absent feature is null, or its default if it has one.

        Raises DamagedFile for bytes that are not whole, sound records, ContractError for a feature that does not fit.
        """
        data = as_bytes(buffer)
        return self.decode_frames(data, frame_offsets(data))

    def decode_frames(self, data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> pa.RecordBatch:
        """Like :meth:`decode`, for records that :func:`frame_offsets` has checked; ``offsets`` may be a part of theirs."""
        offsets = np.ascontiguousarray(offsets, np.int64)
        plain_bytes = self.contract.record == "byte_array"
        try:
            arrays = [_byte_arrays(data, offsets)] if plain_bytes else self._messages(data, offsets)
        except MemoryError as error:
            raise self._too_large(len(offsets) - 1) from error
        finished = [_finish(array, spec) for array, spec in zip(arrays, self.contract.features, strict=True)]
        if not finished:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * (len(offsets) - 1), pa.struct([])))
        return pa.RecordBatch.from_arrays(finished, schema=self.schema)

    def _too_large(self, rows: int) -> ContractError:
        largest = max(self.contract.features, key=lambda spec: spec.size or 0)
        return ContractError(
            f"Not enough memory for {rows:,} records with {largest.size or 0:,} values of feature {largest.name!r} each; "
            "if the records hold fewer, read them with the contract they were written with."
        )

    def _messages(self, data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> list[pa.Array]:
        rows = len(offsets) - 1
        specs = in_wire_order(self.contract)
        matrix = np.zeros((len(specs), Decoded.FIELDS), np.int64)
        columns = [WireArray(spec, fields, rows) for spec, fields in zip(specs, matrix, strict=True)]
        groups = self._groups(specs)
        status = np.zeros(STATUS_SIZE, np.int64)
        read_records = kernels().read_records
        done = 0
        while True:
            done = read_records(
                matrix.ctypes.data,
                len(specs),
                groups.ctypes.data,
                data.ctypes.data,
                offsets.ctypes.data,
                done,
                rows,
                self.strict,
                status.ctypes.data,
            )
            reason = int(status[REASON])
            if reason not in GROW:
                break
            columns[status[COLUMN]].grow(reason, int(status[DETAIL]), done)
        if reason != DONE:
            spec = specs[status[COLUMN]] if status[COLUMN] >= 0 else None
            raise _problem(reason, int(status[DETAIL]), done, int(offsets[done]), spec)
        by_name = {column.spec.name: column for column in columns}
        return [by_name[f.name].to_arrow() for f in self.contract.features]

    def _groups(self, specs: list[FeatureSpec]) -> npt.NDArray[np.int64]:
        context = sum(not f.sequence for f in specs)
        groups = [[0x0A, 0, context]]
        if self.contract.record == "sequence_example":
            groups.append([0x12, context, len(specs)])
        return np.array([*groups, [0, 0, 0]], np.int64)


def _byte_arrays(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> pa.Array:
    rows = len(offsets) - 1
    total = int(offsets[-1] - offsets[0]) - rows * (HEADER + FOOTER)
    target, limits = np.empty(total, np.uint8), np.zeros(rows + 1, np.int64)
    kernels().read_byte_arrays(data.ctypes.data, offsets.ctypes.data, rows, target.ctypes.data, limits.ctypes.data)
    large = pa.Array.from_buffers(pa.large_binary(), rows, [None, pa.py_buffer(limits), pa.py_buffer(target)])
    return large.cast(pa.binary())


def _finish(array: pa.Array, spec: FeatureSpec) -> pa.Array:
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
