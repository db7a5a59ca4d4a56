"""Periods, the unit of work of a run. A day is a ``date``; an hour and the whole log have their own types.

Each period has a name that sorts by time (``isoformat`` and ``str``): ``2019-06-05``, ``2019-06-05T07``, ``all``.
"""

from __future__ import annotations

import os.path
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from itertools import groupby
from typing import Any, Literal, overload
from zoneinfo import ZoneInfo

from ctr_samples.errors import UsageError

Grain = Literal["day", "hour", "all"]

_DAY, _MINUTE = timedelta(days=1), timedelta(minutes=1)
_NAME = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:T([0-9]{2})(b?))?")
_EXAMPLES = {"day": "a day such as 2019-11-26", "hour": "an hour such as 2019-11-26T07", "all": "`all`"}


@dataclass(frozen=True, slots=True)
class Hour:
    """An hour of local time on a day. If the clocks go back and repeat it, ``again`` marks the second occurrence."""

    day: date
    hour: int
    again: bool = False

    def isoformat(self) -> str:
        """Format as ``2019-06-05T07``, or ``2019-10-27T02b`` for a repeated hour."""
        return f"{self.day}T{self.hour:02}{'b' if self.again else ''}"

    def __str__(self) -> str:
        return self.isoformat()


@dataclass(frozen=True, slots=True)
class Whole:
    """The period of the whole log, regardless of its days."""

    def isoformat(self) -> str:
        """Return ``all``."""
        return "all"

    def __str__(self) -> str:
        return self.isoformat()


WHOLE = Whole()
Period = date | Hour | Whole
"""Unit of work. All periods of a sample set have the same type."""


def parse_day(text: str) -> date:
    """Parse a day such as ``"2019-06-05"``. Raise UsageError for anything else, including dates that do not exist."""
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        raise UsageError(f"The date is {text!r}; expected a day such as 2019-11-26.")
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"The date is {text!r}, which is not in the calendar.") from None
    if not 1971 <= day.year <= 2199:  # leaves room for windows on both sides within the range of Spark and Python
        raise UsageError(f"The date is {text!r}; expected a day from 1971 to 2199.")
    return day


def parse_period(text: str) -> Period:
    """Parse the name of a period. Raise UsageError for anything else."""
    if text == str(WHOLE):
        return WHOLE
    match = _NAME.fullmatch(text)
    if match is None or match[2] is None:
        return parse_day(text)
    if int(match[2]) >= 24:
        raise UsageError(f"The date is {text!r}; expected {_EXAMPLES['hour']}, with an hour from 00 to 23.")
    return Hour(parse_day(match[1]), int(match[2]), bool(match[3]))


def period_of(given: Period | str) -> Period:
    """Return a period, parsing its name if needed. Raise UsageError for anything else, such as a time or a number."""
    if isinstance(given, str):
        return parse_period(given)
    if isinstance(given, date | Hour | Whole) and not isinstance(given, datetime):
        return given
    raise UsageError(f"The date is {given!r}; expected a day such as '2019-11-26' or datetime.date(2019, 11, 26).")


def days_of(given: Any, name: str) -> list[Period]:
    """Return the periods in a list. Raise UsageError, with the argument's ``name``, if the list is empty, or if two of
    its periods overlap: what lies in both would be read twice.
    """
    days = None if isinstance(given, str) or not isinstance(given, Iterable) else list(map(period_of, given))
    if not days:
        raise UsageError(f"`{name}` is {given!r}; expected a list of one or more different days.")
    if twice := _twice(days):
        raise UsageError(
            f"`{name}` is {given!r}; expected one or more different days, but {twice}, so its samples would be read twice. "
            "Leave one of them out."
        )
    return days


def _twice(days: Sequence[Period]) -> str | None:
    """Return how a period of a list overlaps with another, as a clause, or None."""
    counts = Counter(days)
    for day in days:
        if counts[day] > 1:
            return f"{day} is there twice"
        around = next((other for other in (calendar_day(day), WHOLE) if other != day and other in counts), None)
        if around is not None:
            return f"{day} lies in {around}"
    return None


def is_period(text: str) -> bool:
    """Whether ``text`` is the name of a period."""
    try:
        parse_period(text)
    except UsageError:
        return False
    return True


def grain_of(period: Period) -> Grain:
    """Return the grain of a period: day, hour or whole log."""
    return "day" if isinstance(period, date) else "hour" if isinstance(period, Hour) else "all"


def check_period(period: Period, grain: Grain, timezone: str) -> None:
    """Raise UsageError if the period has the wrong grain or does not exist in the time zone."""
    if grain_of(period) != grain:
        raise UsageError(
            f"The date is '{period}', but the configuration has `grain: {grain}`; give {_EXAMPLES[grain]}."
        )
    span_of(period, timezone)


def calendar_day(period: Period) -> date | None:
    """Return the day that contains a period, or None for the whole log."""
    return period.day if isinstance(period, Hour) else period if isinstance(period, date) else None


def overlap(one: Period, other: Period) -> bool:
    """Whether two periods are equal, or one contains the other."""
    return one == other or one in (WHOLE, calendar_day(other)) or other in (WHOLE, calendar_day(one))


def periods_between(first: Period, last: Period, timezone: str) -> list[Period]:
    """List all days, or all existing hours, from the first to the last. The whole log is a range of its own.

    Raises UsageError if the last period precedes the first, or if their grains differ.
    """
    if first == last == WHOLE:
        return [WHOLE]
    begin, end = calendar_day(first), calendar_day(last)
    if grain_of(first) != grain_of(last) or begin is None or end is None:
        raise UsageError(f"Found {first} and {last}; expected two days, or two hours such as 2019-11-26T07.")
    if str(last) < str(first):
        kind = grain_of(first)
        raise UsageError(f"The last {kind} is {last}, before the first, {first}; expected it to be the same or later.")
    days = [begin + n * _DAY for n in range((end - begin).days + 1)]
    if isinstance(first, date):
        return list(days)
    hours = [hour for day in days for hour in hours_of(day, timezone)]
    return [hour for hour in hours if str(first) <= str(hour) <= str(last)]


def days_before(period: Period, days: int) -> Period | None:
    """Shift a period back by a number of days, keeping its hour in local time. Return None for the whole log."""
    if isinstance(period, Hour):
        return Hour(period.day - days * _DAY, period.hour)
    return period - days * _DAY if isinstance(period, date) else None


def next_of(period: Period, timezone: str) -> Period | None:
    """Return the next day or the next hour of local time, or None for the whole log."""
    if isinstance(period, Hour):
        hours = [hour for day in (period.day, period.day + _DAY) for hour in hours_of(day, timezone)]
        return min((hour for hour in hours if str(hour) > str(period)), key=str)
    return period + _DAY if isinstance(period, date) else None


def newest_complete(grain: Grain, timezone: str, now: datetime) -> Period:
    """Return the last day, or hour of local time, that has ended. For the grain ``all``, always the whole log."""
    if grain == "all":
        return WHOLE
    today = now.astimezone(ZoneInfo(timezone)).date()
    if grain == "day":
        return today - _DAY
    hours = {**hours_of(today - _DAY, timezone), **hours_of(today, timezone)}
    return max((hour for hour, (_, end) in hours.items() if end <= now), key=str)


@overload
def span_of(period: date | Hour, timezone: str) -> tuple[datetime, datetime]: ...
@overload
def span_of(period: Period, timezone: str) -> tuple[datetime, datetime] | None: ...
def span_of(period: Period, timezone: str) -> tuple[datetime, datetime] | None:
    """Return the start and end of a day or hour of local time, in UTC, or None for the whole log.

    A day lasts from local midnight to midnight. Raises UsageError for an hour that the clocks skip.
    """
    if isinstance(period, Whole):
        return None
    if isinstance(period, Hour):
        spans = hours_of(period.day, timezone)
        if period not in spans:
            raise UsageError(
                f"The date is '{period}', but the clocks of {timezone} do not show that hour; choose another."
            )
        return spans[period]
    return local_midnight(period, timezone), local_midnight(period + _DAY, timezone)


@lru_cache(maxsize=1024)
def hours_of(day: date, timezone: str) -> dict[Hour, tuple[datetime, datetime]]:
    """Return the hours of a local day in order, with start and end in UTC. There are 23 or 25 hours when the clocks
    change.

    Each minute of the day belongs to exactly one hour, even if the clocks change by half an hour.
    """
    zone, start, end = ZoneInfo(timezone), local_midnight(day, timezone), local_midnight(day + _DAY, timezone)

    def hour_at(minute: datetime) -> Hour:
        local = minute.astimezone(zone)
        return Hour(day, local.hour, local.fold == 1)

    minutes = [start + n * _MINUTE for n in range((end - start) // _MINUTE)]
    spans = {hour: list(some) for hour, some in groupby(minutes, hour_at)}
    return {hour: (some[0], some[-1] + _MINUTE) for hour, some in spans.items()}


def moment_of(name: str) -> datetime | None:
    """Return the start of a period, parsed from its name as if in UTC, or None for the whole log."""
    match = _NAME.fullmatch(name)
    return datetime.fromisoformat(f"{match[1]}T{match[2] or '00'}").replace(tzinfo=UTC) if match else None


def zone_of(config: Mapping[str, Any]) -> str:
    """Return the time zone of a configuration in a manifest, or UTC if it cannot be determined."""
    with suppress(LookupError, ValueError, OSError):
        return ZoneInfo(os.path.expandvars(str(config["timezone"]))).key
    return "UTC"


def in_zone(moment: datetime | str, zone: str) -> str:
    """Format an instant for display, in local time with its offset: ``2019-06-05 10:00:00+02:00``.

    All output for people uses this format; documents for programs stay in UTC. A time without an offset is in UTC.
    """
    moment = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(ZoneInfo(zone)).isoformat(" ")


def in_ranges(names: Iterable[str], most: int = 8) -> str:
    """Describe days or hours by name: ``2019-06-01, 2019-06-03 to 2019-06-05 (4 days)``. Shows at most so many ranges."""
    ranges: list[list[str]] = []
    for name in sorted(set(names)):
        if ranges and _follows(ranges[-1][-1], name):
            ranges[-1].append(name)
        else:
            ranges.append([name])
    texts = [f"{some[0]} to {some[-1]}" if len(some) > 2 else ", ".join(some) for some in ranges[:most]]
    count = sum(map(len, ranges))
    unit = "hours" if ranges and "T" in ranges[0][0] else "days"
    texts += [f"{sum(map(len, ranges[most:]))} more"] if len(ranges) > most else []
    return ", ".join(texts) + (f" ({count:,} {unit})" if count > 2 else "")


def _follows(before: str, after: str) -> bool:
    """Whether a day or hour comes next after another of its kind."""
    start, end = moment_of(before), moment_of(after)
    step = timedelta(hours=1) if "T" in before else _DAY
    return start is not None and end is not None and len(before) <= len(after) + 1 and end - start <= step


def local_days(start: datetime, end: datetime, timezone: str) -> Iterator[date]:
    """Return the local days that an interval overlaps, in order."""
    zone = ZoneInfo(timezone)
    first, last = start.astimezone(zone).date(), (end - timedelta(microseconds=1)).astimezone(zone).date()
    return (first + n * _DAY for n in range((last - first).days + 1))


def local_midnight(day: date, timezone: str) -> datetime:
    """Return the instant, in UTC, at which a local day begins."""
    return datetime.combine(day, time(), ZoneInfo(timezone)).astimezone(UTC)
