"""Views (feature tables): events, daily snapshots, static tables, and counts by day or over windows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, Tag, field_validator

from ctr_samples.config.base import Expression, Name, OneOrMore, hint
from ctr_samples.config.counting import Aggregates, DailyCounts
from ctr_samples.config.kinds import Kind, keys_of, kinds_of, told_apart, without_absent
from ctr_samples.config.problems import closest
from ctr_samples.config.units import Age, Duration, format_duration
from ctr_samples.graph import names_in

Entity = Literal["user", "article", "user_article"]
_PART = r"[A-Za-z_][A-Za-z0-9_]*"
Keys = Annotated[
    tuple[Annotated[str, Field(pattern=rf"^{_PART}(\.{_PART})*$")], ...], OneOrMore, Field(min_length=1, max_length=8)
]
"""Names of keys or columns of other views."""
_DAY = timedelta(days=1)
_METHOD = (
    "How it is joined, by default as the planner finds best: `intervals` hands its rows to every task, "
    "all others bring rows and impressions together in one shuffle. The samples are the same."
)
_INCLUSIVE = "Also use a row that became true at the impression's instant; it must be known by then."
_SEQUENCE = "What orders rows with equal times, such as a version: the greatest wins."
_TOMBSTONE = (
    "Which rows say that the key has no features from then on. One loses against a row that is alike in all else."
)


class ViewKind(Kind):
    """A feature table of one key, or of several together, joined as of each impression."""

    thing: ClassVar[str] = "view"

    source: Name = Field(description="A name under `sources`.")
    on: Keys | None = Field(
        None,
        description="Whose features they are: a name under `impressions.keys`, `request`, a [column of another "
        "view](logs.md#views-on-keys-and-on-other-views) such as `item.category_id`, or a list of them.",
    )
    entity: Entity | None = Field(None, description="The same as `on: user`, `on: article` or `on: [user, article]`.")
    key: Annotated[tuple[Expression, ...], OneOrMore, Field(min_length=1)] = Field(
        description="That key in the source; a list where `on` is one."
    )
    article_key: Expression | None = Field(None, description="With `entity: user_article`: the key of the article.")
    where: Expression | None = Field(None, description="Which rows to use.")

    @property
    def joined_on(self) -> tuple[str, ...]:
        """Join keys: names of keys, or columns of other views as ``view.column``."""
        if self.entity == "user_article":
            return ("user", "article")
        return self.on or (str(self.entity),)

    @property
    def keys(self) -> tuple[Expression, ...]:
        """Source expressions that match ``joined_on``, in the same order."""
        return (*self.key, self.article_key) if self.article_key is not None else self.key

    @property
    def where_of_source(self) -> Expression | None:
        """The condition of rows, or None if a row of the source does not tell whether it applies."""
        return self.where

    @property
    def looked_up_in(self) -> tuple[str, ...]:
        """Views that provide a key and must therefore be joined before this view."""
        return tuple(dict.fromkeys(part.partition(".")[0] for part in self.joined_on if "." in part))

    @property
    def needed_views(self) -> tuple[str, ...]:
        """Views without which this view has no rows or no keys."""
        return self.looked_up_in

    @property
    def clock(self) -> Expression | None:
        """Expression for the time at which a row became valid. None for a static table."""
        return None

    @property
    def delay(self) -> timedelta:
        """Delay between the time at which a row becomes valid and its availability."""
        return timedelta()

    @property
    def max_age(self) -> timedelta | None:
        """Maximum age of a row, or None for any age."""
        return None

    @property
    def known_in_order(self) -> bool:
        """Whether rows become available in event order, because all have the same delay."""
        return True

    @property
    def counted(self) -> DailyCounts | Aggregates | None:
        """Counts that define the view. None if the view has the rows of the source."""
        return None

    @property
    def keeps_days(self) -> bool:
        """Whether partial results of finished days are worth keeping."""
        return self.counted is not None


class AgingView(ViewKind):
    """A view whose rows may expire: `ttl` limits their age."""

    ttl: Age = Field(
        description="The greatest age of a row, relative to each impression (inclusive). Where rows come once a day, at least "
        "a day and the delay.",
        json_schema_extra=hint("say how old a row may be, or `ttl: unbounded`"),
    )
    delayed_by: ClassVar[str] = "available_after"
    is_daily: ClassVar[bool] = False
    """Whether each row describes a whole day."""

    @property
    def max_age(self) -> timedelta | None:
        """Value of `ttl`."""
        return self.ttl

    def too_short(self, daily: bool) -> str | None:
        """Describe a `ttl` that expires before the row is available or, in a `daily` table, before the next row is."""
        oldest = self.delay + (_DAY if daily else timedelta())
        if self.ttl is None or self.ttl >= oldest:
            return None
        found = f"found `ttl: {format_duration(self.ttl)}` with `{self.delayed_by}: {format_duration(self.delay)}`"
        if not daily:
            return f"{found}: a row would be too old before it is known; expected a longer `ttl`"
        return (
            f"{found}: the newest row is {format_duration(oldest)} old when the next day's becomes known, so some hours of "
            f"each day would have no features; set `ttl: {math.ceil(oldest / _DAY)}d` or longer"
        )


def _no_snapshots(method: Any) -> Any:
    if method == "snapshots":
        raise ValueError("expected 'union' or 'intervals': `snapshots` is for views with `snapshot`")
    return method


Method = Annotated[Literal["union", "intervals"], BeforeValidator(_no_snapshots)]


_SHORT = timedelta(days=7)
"""Maximum row age for which rereading rows costs no more than keeping partial results."""


class TimedView(ViewKind):
    """A view of a source whose rows carry their own timestamps."""

    event_time: Expression = Field(description="When an action happened.")
    available_after: Duration | None = Field(None, description="How long after the end of its day or step it is known.")
    method: Method | None = Field(None, description=_METHOD)

    @property
    def clock(self) -> Expression:
        """The expression given as `event_time`."""
        return self.event_time

    @property
    def delay(self) -> timedelta:
        """Value of `available_after`."""
        return self.available_after or timedelta()


class EventView(AgingView, TimedView):
    """Rows that became true one by one, each at its `event_time`."""

    kind: ClassVar[str] = "events"
    told_by: ClassVar[str] = "`event_time` is for events"

    event_time: Expression = Field(
        description="When a row became true.",
        json_schema_extra=hint("a table that never changes says `static: true` instead"),
    )
    available_after: Duration | None = Field(None, description="How long after `event_time` a row is known.")
    available_time: Expression | None = Field(
        None,
        description="Instead of `available_after`: when it was known to the system. It is used from that instant on.",
    )
    valid_to: Expression | None = Field(
        None,
        description="When it [ceased to be true](recipes/rows-that-end.md); null, or from the year 9999 on, if it has "
        "not. A date is the first moment of its day.",
    )
    closed_available: Expression | None = Field(
        None,
        description="With `valid_to`: when that was known. Default, also for rows where it is null: at once.",
    )
    inclusive: bool = Field(False, description=_INCLUSIVE)
    sequence: Expression | None = Field(None, description=_SEQUENCE)
    tombstone: Expression | None = Field(None, description=_TOMBSTONE)

    @property
    def keeps_days(self) -> bool:
        """Whether rows have a long lifetime and no end time.

        With end times, a day alone does not show which rows are needed, because later rows can end them.
        """
        return self.valid_to is None and (self.ttl is None or self.ttl > _SHORT)

    @property
    def known_in_order(self) -> bool:
        """False with an arbitrary `available_time`. Rows with an end time are split into pieces in event order."""
        return self.available_time is None or self.valid_to is not None


class SnapshotView(AgingView):
    """A table that is written whole each day. An entity that is not in the latest published one has no features."""

    kind: ClassVar[str] = "snapshots"
    told_by: ClassVar[str] = "`snapshot` is for snapshots"
    instead: ClassVar = dict.fromkeys(
        ("available_time", "available_after"), "say with `publish_delay` when a snapshot is there instead."
    )
    inclusive: ClassVar[bool] = False
    delayed_by: ClassVar[str] = "publish_delay"
    is_daily: ClassVar[bool] = True

    snapshot: Expression = Field(
        description="Its day: a date, or text such as 2019-06-05. Its rows became true when the day ended."
    )
    publish_delay: Duration | None = Field(
        None, description="How long after the midnight that ends its day it is there."
    )
    sequence: Expression | None = Field(None, description=_SEQUENCE)
    tombstone: Expression | None = Field(None, description=_TOMBSTONE)
    method: Literal["union", "intervals", "snapshots"] | None = Field(None, description=_METHOD)

    @property
    def clock(self) -> Expression:
        """Expression of `snapshot`."""
        return self.snapshot

    @property
    def delay(self) -> timedelta:
        """Value of `publish_delay`."""
        return self.publish_delay or timedelta()


class StaticView(ViewKind):
    """A table without times; you vouch that it never changes."""

    kind: ClassVar[str] = "tables without times"
    told_by: ClassVar[str] = "`static` is for tables without times"
    inclusive: ClassVar[bool] = False
    method: ClassVar[None] = None

    static: bool = Field(description="`true`: the table has no times.")

    @field_validator("static")
    @classmethod
    def _only_true(cls, value: bool) -> bool:
        if not value:
            raise ValueError("expected true, or the key that says when a row became true, such as `event_time`")
        return value


class CountingView(TimedView):
    """Counts of the source, by its own columns or by what other views say of its rows."""

    look_up: dict[Name, Annotated[tuple[Expression, ...], OneOrMore, Field(min_length=1)]] = Field(
        {},
        description="Other views, each with [its key in this source](how-to.md#add-a-categorys-click-rate). `key`, "
        "`where` and what is counted may use their columns, as a row of this source could see them at its "
        "`event_time`. No partial results are kept.",
    )

    @property
    def where_of_source(self) -> Expression | None:
        """The condition of rows, or None if it may use columns of views under ``look_up``."""
        paths, looked_up = names_in(self.where or ""), {*map(str.lower, self.look_up)}
        used = looked_up if paths is None else looked_up & {path[0].lower() for path in paths}
        return None if used else self.where

    @property
    def needed_views(self) -> tuple[str, ...]:
        """Views that provide a key of impressions or what is counted by."""
        return tuple(dict.fromkeys([*self.looked_up_in, *self.look_up]))

    @property
    def keeps_days(self) -> bool:
        """Whether all that is counted stands in the log."""
        return not self.look_up


class DailyCountView(AgingView, CountingView):
    """Counts of the source by day, known when the day is over."""

    kind: ClassVar[str] = "daily counts"
    told_by: ClassVar[str] = "`daily_counts` is for daily counts"
    instead: ClassVar = {
        "available_time": "a counted day has no such column: say `available_after` instead.",
        **dict.fromkeys(("sequence", "tombstone", "valid_to", "closed_available"), "its rows are counted. Remove one."),
    }
    is_daily: ClassVar[bool] = True

    daily_counts: DailyCounts = Field(description="What is counted.")
    inclusive: bool = Field(False, description=_INCLUSIVE)

    @property
    def counted(self) -> DailyCounts:
        """Counts of `daily_counts`."""
        return self.daily_counts


class WindowView(CountingView):
    """Counts, sums and rates of the source over sliding windows that end just before the impression."""

    kind: ClassVar[str] = "windows"
    told_by: ClassVar[str] = "`aggregates` is for windows"
    instead: ClassVar = {"ttl": "the windows say how far back to look. Remove one."}
    inclusive: ClassVar[bool] = False

    available_time: Expression | None = Field(
        None,
        description="Instead of `available_after`: when it was known to the system. It counts from the first end of a "
        "step on by which it was known, also if its own step was over long before.",
    )
    aggregates: Aggregates = Field(description="What is counted, and over which windows.")

    @property
    def counted(self) -> Aggregates:
        """Counts of `aggregates`."""
        return self.aggregates


_TELLING: dict[str, type[ViewKind]] = {
    "aggregates": WindowView,
    "daily_counts": DailyCountView,
    "static": StaticView,
    "snapshot": SnapshotView,
}
"""Required keys that identify a kind of view."""


def _model_of(view: Mapping[str, Any]) -> type[ViewKind]:
    """Return the intended kind of an entry, even if its discriminating key is misspelled."""
    said = [key for key, value in view.items() if not (value is None or value is False)]
    meant = [key for key in _TELLING if key in said]
    meant += [close for key in said if key not in _every_key() and (close := closest(key, _TELLING))]
    if not meant and "publish_delay" in said and "event_time" not in said:
        return SnapshotView
    return _TELLING[meant[0]] if meant else EventView


def _every_key() -> set[str]:
    return {key for model in kinds_of(View).values() for key in keys_of(model)}


View = Annotated[
    Annotated[EventView, Tag(EventView.kind)]
    | Annotated[SnapshotView, Tag(SnapshotView.kind)]
    | Annotated[StaticView, Tag(StaticView.kind)]
    | Annotated[DailyCountView, Tag(DailyCountView.kind)]
    | Annotated[WindowView, Tag(WindowView.kind)],
    told_apart(_model_of),
    without_absent(_model_of, lambda: View),
]
"""A feature table of one key, or of several together, joined as of each impression."""
