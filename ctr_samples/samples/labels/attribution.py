"""Attribution of each action to at most one impression. Runs on executors, over the columns of one partition.

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

import numpy as np

from ctr_samples.samples.columnar.columns import Doubles, Flags, Integers, begins, in_order, joint
from ctr_samples.samples.labels.plans import LabelPlan
from ctr_samples.samples.labels.reduction import LabelState
from ctr_samples.sparksql.columns import micros_of

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
