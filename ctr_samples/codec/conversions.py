"""Convert a column to a feature of the contract: nesting, type conversion, null policies and error messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ctr_samples.codec.column_parts import NullListError, Source
from ctr_samples.codec.kernel_columns import (
    Lists,
    WireColumn,
    is_list,
    plain_type,
    take_apart,
    validity,
    with_default,
    with_default_step,
)
from ctr_samples.codec.tensors import pack_tensors
from ctr_samples.codec.values import Convert, UnwritableError, converter, first_true, wire_scalar
from ctr_samples.contract import FeatureSpec
from ctr_samples.errors import ContractError, EncodeError

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class FeaturePlan:
    """The encoding plan for one feature: the number of list ``levels``, type conversion and null policies."""

    spec: FeatureSpec
    source: Source
    levels: int
    convert: Convert
    default: pa.Scalar | None
    fill: pa.Scalar | None

    def wire_column(self, column: pa.Array) -> WireColumn:
        """Convert ``column`` to the values of the feature. Raises EncodeError for a value that breaks the contract."""
        try:
            array = self.source.extract(column)
        except NullListError as error:
            raise self._refuse(error.row, None, "has a null list inside a list; remove it") from error
        valid = self._valid(array)
        wire = self._scalars(array) if self.levels == 0 else self._lists(array, valid)
        if self.spec.encoding != "list":
            wire = pack_tensors(wire, self.spec, len(array))
        return wire.keep(None if self.spec.nulls == "default" else valid)

    def _valid(self, array: pa.Array) -> Mask | None:
        valid = validity(array)
        if valid is not None and self.spec.nulls == "fail":
            row = int(np.flatnonzero(~valid)[0])
            raise self._refuse(
                row, None, "is null, which its `nulls: fail` forbids; filter the row or change the policy"
            )
        return valid

    def _scalars(self, array: pa.Array) -> WireColumn:
        values = self._converted(array, lambda position: position)
        if self.default is not None and values.null_count:
            values = pc.fill_null(values, self.default)
        self._check_finite(values, lambda position: position)
        return WireColumn(values, stride=1)

    def _lists(self, array: pa.Array, valid: Mask | None) -> WireColumn:
        outer = take_apart(array)
        if self.spec.sequence:
            return self._sequence(outer, valid)
        rows = outer
        for _ in range(self.levels - 1):
            self._refuse_null_lists(rows)
            inner = take_apart(rows.values)
            rows = Lists(inner.offsets[rows.offsets], inner.values)
        rows = Lists(rows.offsets, self._leaf(rows, rows.owner))
        size = self.spec.size
        if size is not None:
            self._check_lengths(np.diff(rows.offsets), size, valid)
            if self.levels > 1:
                self._check_inner_lengths(outer, (self.spec.shape or ())[1:])
        if valid is not None and self.default is not None:
            rows = with_default(rows, valid, self.default, 1 if size is None else size)
            valid = None
        stride = -1 if size is None or valid is not None else size
        return WireColumn(rows.values, stride, rows.offsets)

    def _sequence(self, rows: Lists, valid: Mask | None) -> WireColumn:
        """Convert rows of steps. Each step is a scalar or, with two levels, a list."""
        if self.levels == 1:
            values = self._leaf(rows, rows.owner)
            if valid is not None and self.default is not None:
                rows = with_default(Lists(rows.offsets, values), valid, self.default, 1)
                values = rows.values
            return WireColumn(values, stride=1, steps=rows.offsets)
        self._refuse_null_lists(rows)
        steps = take_apart(rows.values)
        values = self._leaf(steps, lambda position: rows.owner(steps.owner(position)))
        size = self.spec.size
        if size is not None:
            wrong = np.flatnonzero(np.diff(steps.offsets) != size)
            if len(wrong):
                raise self._wrong_length(rows.owner(int(wrong[0])), int(np.diff(steps.offsets)[wrong[0]]), size)
        steps = Lists(steps.offsets, values)
        if valid is not None and self.default is not None:
            rows, steps = with_default_step(rows, steps, valid, self.default, 1 if size is None else size)
        return WireColumn(steps.values, -1, steps.offsets, steps=rows.offsets)

    def _leaf(self, lists: Lists, row_of: Callable[[int], int]) -> pa.Array:
        """Return the values inside lists, with nulls filled or rejected."""
        values = self._converted(lists.values, row_of)
        if values.null_count:
            if self.fill is None:
                row = row_of(first_true(values.is_null()))  # type: ignore[arg-type]
                raise self._refuse(row, None, "has a null inside a list; declare `fill` or remove it")
            values = pc.fill_null(values, self.fill)
        self._check_finite(values, row_of)
        return values

    def _converted(self, values: pa.Array, row_of: Callable[[int], int]) -> pa.Array:
        try:
            return self.convert(values)
        except UnwritableError as error:
            raise self._refuse(row_of(error.position), error.value, error.problem) from error

    def _check_finite(self, values: pa.Array, row_of: Callable[[int], int]) -> None:
        if self.spec.nonfinite or self.spec.dtype not in ("float32", "float64"):
            return
        position = first_true(pc.invert(pc.is_finite(values)))
        if position is not None:
            problem = (
                f"is not finite, which a {self.spec.role} must be"
                if self.spec.role != "feature"
                else ("is not finite, which its `nonfinite: false` forbids")
            )
            raise self._refuse(row_of(position), values[position].as_py(), problem)

    def _refuse_null_lists(self, lists: Lists) -> None:
        if lists.values.null_count:
            row = lists.owner(first_true(lists.values.is_null()))  # type: ignore[arg-type]
            raise self._refuse(row, None, "has a null list inside a list; remove it")

    def _check_lengths(
        self,
        lengths: npt.NDArray[np.int64],
        size: int,
        valid: Mask | None,
    ) -> None:
        wrong = lengths != size if valid is None else (lengths != size) & valid
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise self._wrong_length(row, int(lengths[row]), size)

    def _check_inner_lengths(self, rows: Lists, inner_sizes: Sequence[int]) -> None:
        """Check that a tensor in the form of nested lists has the declared size in each dimension."""
        owner = rows.owner
        lists = rows
        for size in inner_sizes:
            inner = take_apart(lists.values)
            lengths = np.diff(inner.offsets)
            wrong = np.flatnonzero(lengths != size)
            if len(wrong):
                raise self._wrong_length(owner(int(wrong[0])), int(lengths[wrong[0]]), size)
            row_offsets = inner.offsets[rows.offsets]
            rows = Lists(row_offsets, inner.values)
            owner, lists = rows.owner, inner

    def _wrong_length(self, row: int, count: int, size: int) -> EncodeError:
        return self._refuse(row, None, f"has {count} values, but its shape {list(self.spec.shape or ())} needs {size}")

    def _refuse(self, row: int, value: object, problem: str) -> EncodeError:
        subject = "the value" if value is None else f"the value {value!r}"
        return EncodeError(
            f"Feature {self.spec.name!r}, row {row} of the batch: {subject} {problem} "
            f"(column {self.source.column!r}, type {self.source.type})."
        )


def plan_feature(spec: FeatureSpec, source: Source) -> FeaturePlan:
    """Match a feature with its source. Raises ContractError for an incompatible type or nesting."""
    levels, leaf = 0, plain_type(source.type)
    fixed: list[int | None] = []
    while is_list(leaf):
        fixed.append(leaf.list_size if pa.types.is_fixed_size_list(leaf) else None)
        levels, leaf = levels + 1, plain_type(leaf.value_type)
    _check_levels(spec, source, fixed)
    return FeaturePlan(
        spec,
        source,
        levels,
        converter(spec, source.column, source.type, leaf),
        wire_scalar(spec, spec.default, "default") if spec.nulls == "default" else None,
        wire_scalar(spec, spec.fill, "fill") if spec.fill is not None else None,
    )


def _check_levels(spec: FeatureSpec, source: Source, fixed: list[int | None]) -> None:
    """Check list nesting against the declared shape. ``fixed`` has a size (or None) per level, outermost first."""
    expected = _expected_levels(spec)
    if len(fixed) not in expected:
        raise ContractError(
            f"Column {source.column!r} has the type {source.type}, but feature {spec.name!r} declares "
            f"{_described(spec)}; change the column or the declared shape."
        )
    inside = fixed[1:] if spec.sequence else fixed
    declared = spec.shape or ()
    sizes = [spec.size] if len(inside) == 1 else list(declared)
    for size, wanted in zip(inside, sizes, strict=False):
        if size is not None and wanted is not None and size != wanted:
            raise ContractError(
                f"Column {source.column!r} has lists of {size} values, but feature {spec.name!r} declares the shape "
                f"{list(declared)}; change the column or the declared shape."
            )


def _expected_levels(spec: FeatureSpec) -> set[int]:
    if spec.sequence:
        return {1} if spec.shape == () else {2}
    if spec.shape == ():
        return {0}
    if spec.shape is None or len(spec.shape) == 1:
        return {1} if spec.size != 1 else {0, 1}
    return {1, len(spec.shape)}


def _described(spec: FeatureSpec) -> str:
    what = (
        "a list of any length"
        if spec.shape is None
        else "a scalar"
        if spec.shape == ()
        else f"shape {list(spec.shape)}"
    )
    return f"a sequence with {what} in each step" if spec.sequence else what
