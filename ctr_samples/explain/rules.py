"""Define label actions, feature row matches and history contents in plain Python.

This module shares no code with the job, which computes the same results with columns, so each can be checked against
the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any


@dataclass(frozen=True, slots=True)
class Impression:
    """An impression. ``values`` holds all its columns."""

    id: int
    time: datetime
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Action:
    """An action that a label counts, with its ``keys`` by name."""

    time: datetime | None
    value: float | None = None
    keys: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RowEvidence:
    """A label from the impression's own row: its expression, and its value in the row."""

    expr: str
    value: float | None


@dataclass(frozen=True, slots=True)
class LabelRules:
    """Rules for matching actions to impressions: key sets, ``tried`` in order, and the maximum time differences.

    Times are shown in ``zone`` but passed in UTC, since Python subtracts times of the same zone by wall clock.
    """

    window: timedelta
    skew: timedelta = timedelta()
    tried: Sequence[Sequence[str]] = (("user",),)
    zone: tzinfo = UTC


@dataclass(frozen=True, slots=True)
class FeatureRow:
    """A view row with the impression's key. ``valid_to`` is its end, ``closed`` the time at which the end became known.

    ``tie`` orders rows that are alike in their times and ``sequence``.
    """

    event_time: datetime
    available_time: datetime
    values: Mapping[str, Any]
    sequence: Any = None
    gone: bool = False
    valid_to: datetime | None = None
    closed: datetime | None = None
    tie: int = 0


@dataclass(frozen=True, slots=True)
class ViewRules:
    """Rules for joining a view. ``snapshots`` holds (event time, available time) of all snapshots, for a snapshot
    view.

    Times are shown in ``zone``.
    """

    ttl: timedelta | None
    inclusive: bool = False
    snapshots: Sequence[tuple[datetime, datetime]] | None = None
    zone: tzinfo = UTC


@dataclass(frozen=True, slots=True)
class PastAction:
    """An action that a history may list. ``tie`` orders simultaneous actions on the same item.

    ``known`` is the time at which it was known, if the log says so.
    """

    time: datetime
    item: Any
    request: Any = None
    values: Mapping[str, Any] = field(default_factory=dict)
    tie: int = 0
    known: datetime | None = None


@dataclass(frozen=True, slots=True)
class HistoryRules:
    """The number of items in a history, their maximum age, the delay until actions are known, and the request to
    exclude.
    """

    last: int
    within: timedelta | None = None
    delay: timedelta = timedelta()
    own_request: Any = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """A candidate, whether it was accepted, and the reason."""

    what: Any
    taken: bool
    why: str


def judge_actions(
    impression: Impression, others: Sequence[Impression], actions: Sequence[Action], rules: LabelRules
) -> Iterator[Verdict]:
    """Yield a verdict per action, in time order. ``others`` are further impressions that may share keys with an
    action.
    """
    for action in sorted(actions, key=lambda a: (a.time is not None, a.time)):
        yield Verdict(action, *_judge_action(impression, others, action, rules))


def _judge_action(
    impression: Impression, others: Sequence[Impression], action: Action, rules: LabelRules
) -> tuple[bool, str]:
    if action.time is None:
        return False, "its time cannot be read"
    for names in rules.tried:
        by = " and ".join(names)
        candidates = [candidate for candidate in (impression, *others) if _same_keys(candidate, action, names)]
        owner = _owner(candidates, action.time, rules)
        if owner is not None and owner.id != impression.id:
            order = "last before it" if owner.time <= action.time else "next after it"
            when = owner.time.astimezone(rules.zone).isoformat(" ")
            return False, f"it belongs to impression {owner.id} by {by}, the {order} ({when})"
        if owner is not None:
            limit = _limit(action.time, impression, rules)
            return True, f"{_when(action.time, impression)}, within {limit} (by {by})"
    return False, f"{_when(action.time, impression)}; the limit is {_limit(action.time, impression, rules)}"


def _same_keys(impression: Impression, action: Action, names: Sequence[str]) -> bool:
    pairs = [(action.keys.get(name), impression.values.get(name)) for name in names]
    return all(one is not None and other is not None and str(one) == str(other) for one, other in pairs)


def _owner(candidates: Sequence[Impression], at: datetime, rules: LabelRules) -> Impression | None:
    """Return the last impression before the action if within the window, else the next impression if within the clock
    skew.
    """
    last = max((shown for shown in candidates if shown.time <= at), key=_by_time, default=None)
    if last is not None and at - last.time <= rules.window:
        return last
    following = min((shown for shown in candidates if shown.time > at), key=_by_time, default=None)
    return following if following is not None and following.time - at <= rules.skew else None


def _by_time(impression: Impression) -> tuple[datetime, int]:
    return impression.time, impression.id


def _when(at: datetime, impression: Impression) -> str:
    return f"it came {in_words(at - impression.time)} {'before' if at < impression.time else 'after'} the impression"


def _limit(at: datetime, impression: Impression, rules: LabelRules) -> str:
    return in_words(rules.skew if at < impression.time else rules.window)


def judge_rows(at: datetime, rows: Sequence[FeatureRow], rules: ViewRules) -> Iterator[Verdict]:
    """Yield a verdict per row, newest first. At most one row is accepted."""
    visible = [row for row in rows if _hidden(at, row, rules) is None]
    best = max(visible, key=_rank, default=None)
    for row in sorted(rows, key=_rank, reverse=True):
        hidden = _hidden(at, row, rules)
        if hidden is not None:
            yield Verdict(row, False, hidden)
        elif row is not best:
            yield Verdict(row, False, _behind(row, best))
        else:
            wrong = _invalid(at, row, rules)
            yield Verdict(row, wrong is None, wrong or f"the latest known row, {in_words(at - row.event_time)} old")


def _hidden(at: datetime, row: FeatureRow, rules: ViewRules) -> str | None:
    """Return the reason why an impression could not see a row, or None if it could."""
    if row.event_time > at or (row.event_time == at and not rules.inclusive):
        when = "at the same instant as" if row.event_time == at else f"{in_words(row.event_time - at)} after"
        return f"it became true {when} the impression"
    if row.available_time > at:
        return f"it was true, but not known until {in_words(row.available_time - at)} after the impression"
    return _ended(at, row, rules)


def _ended(at: datetime, row: FeatureRow, rules: ViewRules) -> str | None:
    """Return the reason why the impression saw that a row had ended, or None."""
    end = row.valid_to
    if end is None or end > at or (end == at and not rules.inclusive):
        return None
    when = end.astimezone(rules.zone).isoformat(" ")
    if end <= row.event_time:
        return f"the row was never true: it ended at {when}, not after it began"
    known = end if row.closed is None else row.closed
    return None if known > at else f"the row had ended at {when}"


def _invalid(at: datetime, row: FeatureRow, rules: ViewRules) -> str | None:
    """Return the reason why the best visible row does not match, or None."""
    if row.gone:
        return "a tombstone: from here on the entity has no features"
    if rules.ttl is not None and row.event_time < at - rules.ttl:
        return f"it is {in_words(at - row.event_time)} old; the ttl is {in_words(rules.ttl)}"
    if rules.snapshots is not None:
        seen = [event for event, known in rules.snapshots if known <= at and (event < at or rules.inclusive)]
        latest = max(seen, default=None)
        if latest is not None and row.event_time != latest:
            when = latest.astimezone(rules.zone).isoformat(" ")
            return f"the latest snapshot, of {when}, does not contain this entity"
    return None


def _rank(row: FeatureRow) -> Any:
    return (row.event_time, row.available_time, row.sequence is not None, row.sequence, not row.gone, row.tie)


def _behind(row: FeatureRow, best: FeatureRow | None) -> str:
    """Return what decided between a visible row and the best one."""
    assert best is not None
    if row.event_time < best.event_time:
        return "a later row was known too"
    if row.available_time < best.available_time:
        return "a row of the same time became known later"
    if row.sequence != best.sequence:
        return "a row of the same times has a greater `sequence`"
    if row.gone and not best.gone:
        return "a tombstone loses against a row of the same times"
    if row.values == best.values:
        return "an equal row counts"
    return "another row of the same times was taken, by a hash of what they hold: nothing else orders them"


def judge_history(at: datetime, actions: Sequence[PastAction], rules: HistoryRules) -> Iterator[Verdict]:
    """Yield a verdict per action, newest first. The accepted actions form the history, in its order."""
    items: list[str] = []
    for action in sorted(actions, key=lambda a: (a.time, a.item, a.tie), reverse=True):
        hidden = _not_in_history(at, action, rules)
        if hidden is None and str(action.item) in items:
            hidden = "a later action on the same item counts"
        elif hidden is None and len(items) == rules.last:
            hidden = f"the history already has {rules.last} later item(s)"
        elif hidden is None:
            items.append(str(action.item))
        yield Verdict(action, hidden is None, hidden or f"number {len(items)}, {in_words(at - action.time)} old")


def _not_in_history(at: datetime, action: PastAction, rules: HistoryRules) -> str | None:
    """Return the reason that excludes an action from the impression's history, or None."""
    if rules.own_request is not None and str(action.request) == str(rules.own_request):
        return "it belongs to the impression's own request"
    if action.time >= at:
        when = "at the same instant as" if action.time == at else f"{in_words(action.time - at)} after"
        return f"it happened {when} the impression"
    known = action.time + rules.delay if action.known is None else action.known
    if known > at:
        return f"it was not known until {in_words(known - at)} after the impression"
    if rules.within is not None and action.time < at - rules.within:
        return f"it is {in_words(at - action.time)} old; the limit is {in_words(rules.within)}"
    return None


def in_words(span: timedelta) -> str:
    """Format ``timedelta(hours=25, seconds=3)`` as ``1d 1h 0m 3s``, ``timedelta(milliseconds=1)`` as ``0.001s``."""
    seconds = abs(span) / timedelta(seconds=1)
    days, rest = divmod(seconds, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    parts = [(int(days), "d"), (int(hours), "h"), (int(minutes), "m")]
    large = [f"{number}{unit}" for i, (number, unit) in enumerate(parts) if any(n for n, _ in parts[: i + 1])]
    return " ".join([*large, f"{rest:.6f}".rstrip("0").rstrip(".") + "s"])
