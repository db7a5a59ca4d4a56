"""The log of what was shown, with the roles of its columns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pandas as pd

from ctr_samples.starter import words as w
from ctr_samples.starter.flags import Flag, is_positive
from ctr_samples.starter.links import Follower, is_unique, rows_of, values_of
from ctr_samples.starter.tables import Column, Table, is_there
from ctr_samples.starter.times import Time

_ITEM_LIST = re.compile(r"\[\s*[^\[\]{}]*\]")


@dataclass(frozen=True)
class Log:
    """The log of what was shown, with the roles of its columns."""

    table: Table
    action: Column | None = None
    shown: str | None = None
    clicked_list: Column | None = None
    time: Column | None = None
    user: Column | None = None
    item: Column | None = None
    request: Column | None = None
    position: Column | None = None
    ratings: Column | None = None
    flags: Sequence[Flag] = ()
    followers: Sequence[Follower] = ()
    others: dict[str, Column] = field(default_factory=dict)
    """Further join keys, by name."""

    @property
    def when(self) -> Time | None:
        """The timestamp of the log, if it has one."""
        return self.time.time if self.time is not None else None

    @cached_property
    def impressions(self) -> list[int]:
        """The sampled rows that are impressions."""
        if self.action is None:
            return list(range(self.table.rows))
        return [row for row, value in enumerate(self.action.values) if value == self.shown]

    @cached_property
    def explodes(self) -> bool:
        """Whether a row holds a list of items."""
        if self.item is None or self.clicked_list is not None:
            return False
        shown = self.item.of(self.impressions).present
        return self.item.is_list or sum(map(holds_list, shown)) > 0.05 * len(shown)

    @property
    def item_name(self) -> str:
        """Name of the item key. Lists need ``article``, the only key that a configuration can explode."""
        return "article" if self.explodes else "item"

    @property
    def item_expr(self) -> str | None:
        """SQL expression of the item key."""
        if self.clicked_list is not None:
            return "regexp_replace(shown, '-[01]$', '')"
        return None if self.item is None else self.item.expr if self.explodes else w.key_expr(self.item)

    @cached_property
    def items(self) -> frozenset[str]:
        """Items shown in the sample."""
        column = self.clicked_list or self.item
        return values_of(column) if column is not None else frozenset()

    @property
    def has_lists(self) -> bool:
        """Whether each request shows an item at one time, so that request and item identify an impression."""
        if self.request is None or self.item is None:
            return False
        rows = self.impressions
        pairs = rows_of([self.request.of(rows), self.item.of(rows)])
        times = self.time.of(rows).instants if self.time is not None else range(len(rows))
        return len(set(pairs)) >= 0.995 * len(set(zip(pairs, times, strict=True)))

    @property
    def tells_rows_apart(self) -> bool:
        """Whether the request, or request and item together, identify a row."""
        return self.request is not None and (is_unique(self.request) or self.has_lists)

    @property
    def taken(self) -> list[Column]:
        """Columns that have a role."""
        columns = [self.action, self.clicked_list, self.time, self.user, self.item, self.request, self.position]
        more = [self.ratings, *(flag.column for flag in self.flags), *self.others.values()]
        return [column for column in [*columns, *more] if column is not None]

    @property
    def rest(self) -> list[Column]:
        """Columns without a role."""
        return [column for column in self.table.columns if not any(column is one for one in self.taken)]

    @cached_property
    def least_liked(self) -> float:
        """The rating that about half of the ratings reach."""
        assert self.ratings is not None
        present = pd.Series(self.ratings.present)
        values: list[float] = sorted(self.ratings.distinct)[1:]
        return min(values, key=lambda value: abs((present >= value).mean() - 0.5))

    @cached_property
    def outcomes(self) -> list[list[bool]]:
        """A mask of positive impressions for each label."""
        found = [is_positive(flag.column) for flag in self.flags]
        if self.ratings is not None:
            found.append([is_there(value) and value >= self.least_liked for value in self.ratings.values])
        if (
            not found
            and self.action is not None
            and self.user is not None
            and self.item is not None
            and not self.explodes
        ):
            pairs, shown = rows_of([self.user, self.item]), set(self.impressions)
            acted = {pair for row, pair in enumerate(pairs) if row not in shown}
            return [[pairs[row] in acted for row in self.impressions]]
        return found or [follower.followed() for follower in self.followers]

    @cached_property
    def marks(self) -> list[bool]:
        """Whether each item of the lists with marks was clicked."""
        lists = self.clicked_list.present if self.clicked_list is not None else []
        return [item.endswith("-1") for value in lists for item in str(value).split(" ")]

    @property
    def prior(self) -> float:
        """The positive rate of the first label in the sample, used as the prior for new items."""
        marks = self.outcomes[0] if self.flags or self.ratings is not None else self.marks
        return float(f"{sum(marks) / len(marks):.2g}") if marks else 0.1

    @property
    def actions(self) -> dict[str, int]:
        """How often each value of the action column occurs in the sample, except the impression value, most frequent first."""
        values = self.action.present if self.action is not None else []
        return dict(Counter(str(value) for value in values if value != self.shown).most_common())


def holds_list(value: object) -> bool:
    """Whether a value is a list that is written as text, such as ``[18577, 14299]``."""
    return _ITEM_LIST.fullmatch(str(value)) is not None
