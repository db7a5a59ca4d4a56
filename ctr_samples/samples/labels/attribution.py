"""Attribution of each action to at most one impression, and the labels that follow from it. Runs on executors, over the
columns of one partition.

The rule, for an action at time t of a label with window W and skew S, among the impressions with the same values for a
set of keys:

1. The last impression at or before t claims the action, if it was shown at most W before t.
2. Else the first impression after t claims it, if it was shown at most S after t: two clocks may disagree.
3. Else the next set of keys is tried. By default the first set is the request with the item shown; for an action
   without a request id, the next is the user with the item. An action with a request id may belong to an impression of
   another request only if ``match`` allows it. An action that lacks a key of a set has no match by that set.
4. An action without a match in any set is an orphan.

Impressions of one key in the same microsecond are ordered by id. The result does not depend on the order of the logs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ctr_samples.config import RowLabel
from ctr_samples.config.base import mask_of
from ctr_samples.samples.columnar.columns import Doubles, Flags, Integers, begins, in_order, integers, joint, whole
from ctr_samples.samples.labels.plans import LabelPlan
from ctr_samples.sparksql.columns import micros_of


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
                with np.errstate(invalid="ignore"):
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
        """Return the label and, if its values are reduced, a mask: 0 for a missing action, 1 for an action, even of value 0."""
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


NOBODY = -1
NEVER = np.iinfo(np.int64).max


@dataclass(slots=True)
class Events:
    """Impressions and, after them, actions of one partition, as columns with one entry for each.

    ``at`` is a time in microseconds; an action without a time has ``timed`` false. ``keys`` has codes, -1 for null.
    ``labels`` has the place of an action's label among ``plans``. ``values`` of actions without a number are not
    ``valued``. ``ties`` are the impressions' ids. ``until`` is the time in microseconds from an action that has no
    impression to the next one with its keys, or NEVER.
    """

    plans: Sequence[LabelPlan]
    shown: int
    at: Integers
    timed: Flags
    ties: Integers
    labels: Integers
    values: Doubles
    valued: Flags
    keys: Mapping[str, Integers]
    until: Integers
    found: Flags = field(init=False)
    delays: Integers = field(init=False)
    """Whether an impression has claimed an action, and the microseconds between them, negative for an early action."""

    def __post_init__(self) -> None:
        self.found = np.zeros(len(self.at), np.bool_)
        self.delays = np.zeros(len(self.at), np.int64)

    def attribute(self, tried: Sequence[str], trying: Sequence[LabelPlan], states: Mapping[str, LabelState]) -> None:
        """Attribute the actions that still have no impression by one set of keys, and add them to the states."""
        rows, owners = self._matched(tried, trying)
        for plan in trying:
            mine = (self.labels[rows] == self.number(plan)) & self.valued[rows]
            states[plan.name].add(owners[mine], self.values[rows[mine]], self.at[rows[mine]])

    def _matched(self, tried: Sequence[str], trying: Sequence[LabelPlan]) -> tuple[Integers, Integers]:
        """Return the actions with a match, each impression's in order of time and value, and their impressions."""
        order, code = self._sorted(tried, trying)
        action, at = order >= self.shown, self.at[order]
        place = np.arange(len(order))
        first = np.maximum.accumulate(np.where(begins(code), place, 0))
        last = np.maximum.accumulate(np.where(action, NOBODY, place))
        since = at - at[last]
        after = action & (last >= first) & (since <= self._of_label(order, trying, "window"))
        owners = np.where(after, last, NOBODY)
        following = np.minimum.accumulate(np.where(action, len(order), place)[::-1])[::-1]
        there = np.minimum(following, len(order) - 1)
        before = action & ~after & (following < len(order)) & (code[there] == code)
        until = at[there] - at
        early = before & (until <= self._of_label(order, trying, "skew"))
        owners, delays = np.where(early, there, owners), np.where(early, -until, since)
        taken = owners != NOBODY
        rows, alone = order[taken], order[before & ~taken]
        self.until[alone] = np.minimum(self.until[alone], until[before & ~taken])
        self.found[rows], self.delays[rows] = True, delays[taken]
        return rows, order[owners[taken]]

    def _sorted(self, tried: Sequence[str], trying: Sequence[LabelPlan]) -> tuple[Integers, Integers]:
        """Return the rows that may match by a set of keys, sorted by key and time, and their keys."""
        code = joint([self.keys[name] for name in tried])
        is_action = np.arange(len(code)) >= self.shown
        waits = (code >= 0) & self.timed & ~self.found
        may = [self.number(plan) for plan in trying]
        bound = [self.number(plan) for plan in trying if plan.is_bound_to_its_request and plan.first != tuple(tried)]
        waits &= ~is_action | np.isin(self.labels, may)
        if bound:
            waits &= ~(is_action & np.isin(self.labels, bound) & (self.keys["request"] >= 0))
        rows = np.flatnonzero(waits)
        columns = [code, self.at, is_action, self.ties, self.labels, _in_bits(self.values)]
        order = rows[in_order([column[rows] for column in columns])]
        return order, code[order]

    def _of_label(self, rows: Integers, trying: Sequence[LabelPlan], key: str) -> Integers:
        """Return the window or skew of each row's label, in microseconds."""
        spans = np.full(len(self.plans), -1, np.int64)
        for plan in trying:
            spans[self.number(plan)] = micros_of(getattr(plan.label, key))
        return spans[self.labels[rows]]

    def number(self, plan: LabelPlan) -> int:
        """Return the place of a label among the plans."""
        return [other.name for other in self.plans].index(plan.name)


def _in_bits(values: Doubles) -> Integers:
    """Return integers in the order of some numbers, none of which is -0.0. NaN is the greatest, as in Spark."""
    bits = values.view(np.int64)
    return np.where(np.isnan(values), NEVER, np.where(bits < 0, bits ^ NEVER, bits))
