"""Reduce the actions of an impression to its label. Runs on executors, over columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ctr_samples.config import RowLabel
from ctr_samples.config.base import mask_of
from ctr_samples.samples.columnar.columns import Doubles, Flags, Integers, integers, whole
from ctr_samples.samples.labels.plans import LabelPlan


@dataclass(slots=True)
class LabelState:
    """What the actions counted so far make of a label, for each impression: whether there is one, and their number.

    ``times`` has the time of the first action, for ``reduce: first``. Every set of keys adds its actions.
    """

    plan: LabelPlan
    there: Flags
    numbers: Doubles
    times: Integers

    @classmethod
    def of(cls, plan: LabelPlan, size: int) -> Self:
        """Return the state without any action, for ``size`` impressions."""
        return cls(plan, np.zeros(size, np.bool_), np.zeros(size), np.zeros(size, np.int64))

    def add(self, owners: Integers, values: Doubles, times: Integers) -> None:
        """Add the actions of one set of keys, each impression's in order of time and value: a float sum depends on it."""
        new = LabelState.of(self.plan, len(self.there))
        new.there[owners] = True
        match self.plan.label.reduce:
            case "any":
                pass
            case "sum":
                new.numbers = np.bincount(owners, values, minlength=len(self.there)).astype(np.float64)
            case "max":  # NaN is the greatest number, as in Spark
                new.numbers = np.full(len(self.there), -np.inf)
                np.maximum.at(new.numbers, owners, values)
            case "first":  # written backwards, so that the first stays
                new.numbers[owners[::-1]], new.times[owners[::-1]] = values[::-1], times[::-1]
        self._merge(new)

    def _merge(self, new: LabelState) -> None:
        both = self.there & new.there
        numbers = np.where(new.there, new.numbers, self.numbers)
        match self.plan.label.reduce:
            case "sum":
                numbers[both] = self.numbers[both] + new.numbers[both]
            case "max":
                numbers[both] = np.maximum(self.numbers[both], new.numbers[both])
            case "first":  # of two at one time the smaller value
                smaller = (self.numbers < new.numbers) | np.isnan(new.numbers)
                keep = both & ((self.times < new.times) | ((self.times == new.times) & smaller))
                numbers[keep] = self.numbers[keep]
                self.times = np.where(new.there & ~keep, new.times, self.times)
        self.numbers = numbers
        self.there |= new.there

    def columns(self) -> dict[str, pa.Array]:
        """Return the label and, if its values are reduced, a mask. The mask distinguishes a missing action (mask 0) from
        a label value of 0 (mask 1).
        """
        if self.plan.label.reduce == "any":
            return {self.plan.name: pa.array(self.there.astype(np.int64))}
        return _with_mask(self.plan.name, self.numbers, self.there)

    def to_columns(self) -> dict[str, pa.Array]:
        """Return the state as columns of a table, for :meth:`from_columns`."""
        columns = [pa.array(self.there), pa.array(self.numbers), pa.array(self.times)]
        return dict(zip(state_columns(self.plan), columns, strict=True))

    @classmethod
    def from_columns(cls, plan: LabelPlan, rows: Mapping[str, pa.Array] | pa.Table) -> Self:
        """Return the state that :meth:`to_columns` gave."""
        there, numbers, times = (whole(rows[name]) for name in state_columns(plan))
        return cls(plan, there.to_numpy(zero_copy_only=False), numbers.to_numpy(), integers(times))


def state_columns(plan: LabelPlan) -> tuple[str, str, str]:
    """Return the names of the columns of a state."""
    return f"_there {plan.name}", f"_number {plan.name}", f"_time {plan.name}"


def row_values(name: str, label: RowLabel, value: pa.Array, known: Flags) -> dict[str, pa.Array]:
    """Return a row label and, for a number, its mask, which is 0 if the row has no value, or it is not ``known``."""
    if label.is_flag:
        return {name: pa.array(np.where(known, integers(value), 0))}
    numbers = whole(pc.fill_null(value, np.nan)).to_numpy(zero_copy_only=False)
    return _with_mask(name, numbers, known & ~np.isnan(numbers))


def _with_mask(name: str, numbers: Doubles, there: Flags) -> dict[str, pa.Array]:
    with np.errstate(over="ignore"):
        single = np.where(there, numbers, 0.0).astype(np.float32)
    return {name: pa.array(single), mask_of(name): pa.array(there.astype(np.int64))}
