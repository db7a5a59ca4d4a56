"""Choose the time zone of the log, based on the days in its paths and on action delays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta
from math import ceil, floor
from zoneinfo import ZoneInfo, available_timezones

from ctr_samples.starter.followers import Follower
from ctr_samples.starter.roles import Log
from ctr_samples.starter.tables import Table
from ctr_samples.starter.times import in_words

_HOUR = timedelta(hours=1)
_QUARTER = timedelta(minutes=15)
_NONE = timedelta(0)
_ENOUGH = 20
"""Minimum number of actions for significant delays."""


@dataclass(frozen=True, slots=True)
class Zone:
    """An IANA time zone, with the reason for the choice and an open question."""

    name: str
    offset: timedelta
    """Offset from UTC, positive to the east."""
    why: str
    todo: str = ""


def zone_of(log: Log, tables: Sequence[Table]) -> Zone:
    """Choose the time zone of a configuration, from action delays and the days in paths. The default is UTC."""
    days, gap = _by_days(log), _by_actions(log)
    said = log.when.offset if log.when is not None else None
    ask = "in which zone are times without one, and where does a day begin?"
    if gap is not None and (days is None or days[0] <= gap[0] < days[1]):
        return Zone(_named(gap[0], log), gap[0], f"at {_written(gap[0])} {gap[1]}", "is that its zone?")
    if days is not None and said is not None and said and days[0] <= said < days[1]:
        return Zone(
            _named(said, log), said, f"the log writes its times at {_written(said)}", "is that where a day begins?"
        )
    if days is not None and not days[0] <= _NONE < days[1]:
        low, high = days
        step = _QUARTER if high - low <= _HOUR else _HOUR
        offset = ceil(low / step) * step
        between = "" if step == _QUARTER else f"; any zone from {_written(low)} to {_written(high)} would fit"
        why = f"the log's days in the paths begin as those of a zone at {_written(offset)} do{between}"
        return Zone(_named(offset, log), offset, why, "which zone is it? One with summer time needs its own name")
    if days is None and said:
        return Zone(
            _named(said, log), said, f"the log writes its times at {_written(said)}", "is that where a day begins?"
        )
    times = [c.time for table in tables for c in table.columns if c.time and c.time.has_clock]
    plain = [one for one in times if not one.zoned]
    if plain:
        return Zone("UTC", _NONE, plain[0].why, ask)
    if times:
        return Zone("UTC", _NONE, "all times know their zone", "in which zone does a day begin?")
    return Zone("UTC", _NONE, "there are no times")


def in_zone(log: Log, zone: Zone) -> Log:
    """Return the log with action delays corrected for the time zone of local times."""

    def corrected(follower: Follower) -> Follower:
        time_, shown = follower.time.time, log.when
        if time_ is None or shown is None or time_.zoned == shown.zoned:
            return follower
        by = zone.offset if shown.zoned else -zone.offset
        return replace(follower, delays=tuple(delay - by for delay in follower.delays))

    return replace(log, followers=tuple(map(corrected, log.followers)))


def late_actions(log: Log) -> Iterator[str]:
    """Yield notes on implausible action delays, given the configured time zone."""
    for follower in log.followers:
        time_ = follower.time.time
        if time_ is None or len(follower.delays) < _ENOUGH:
            continue
        first = follower.delays[len(follower.delays) // 20]
        if not -_QUARTER < first < timedelta(minutes=50):
            yield (
                f"Hardly any row of {follower.table.name} comes sooner than {in_words(first)} after what was shown. Are its "
                f"times those of another zone? Then take the difference off, as in `time: timestamp({time_.expr}) - interval "
                f"{floor(first / _HOUR)} hours`."
            )


def _by_days(log: Log) -> tuple[timedelta, timedelta] | None:
    """Return the range of UTC offsets, upper end excluded, for which log times match the days in the paths."""
    if log.time is None or log.when is None or not log.when.zoned or not log.when.has_clock:
        return None
    least = sorted(
        datetime.combine(day, time()) - at
        for day, at in zip(log.table.row_days, log.time.instants, strict=False)
        if day is not None and at is not None
    )
    if not least:
        return None
    few = len(least) // 200  # some rows arrive late
    low, high = least[-1 - few], least[few] + timedelta(days=1)
    return (low, high) if low <= high and low >= -14 * _HOUR and high <= 39 * _HOUR else None


def _by_actions(log: Log) -> tuple[timedelta, str] | None:
    """Return the UTC offset for which actions follow promptly, if one of the two logs has local times."""
    for follower in log.followers:
        time_, shown = follower.time.time, log.when
        if time_ is None or shown is None or len(follower.delays) < _ENOUGH or time_.zoned == shown.zoned:
            continue
        hours = Counter(floor(delay / _HOUR) for delay in follower.delays)
        usual = max(hours, key=lambda hour: hours[hour])
        if hours[usual] <= 3 * hours[0] or hours[usual] < 0.3 * len(follower.delays):
            return None
        offset = usual * _HOUR * (1 if shown.zoned else -1)
        plain = follower.table.name if shown.zoned else log.table.name
        if -12 * _HOUR <= offset <= 14 * _HOUR:
            what = f"most rows of {follower.table.name} follow what was shown within an hour"
            return offset, f"{what}, and {usual} to {usual + 1} hours later in UTC: {plain} writes times without a zone"
    return None


def _written(offset: timedelta) -> str:
    minutes = round(abs(offset).total_seconds() / 60)
    return f"UTC{'-' if offset < _NONE else '+'}{minutes // 60:02}:{minutes % 60:02}"


def _named(offset: timedelta, log: Log) -> str:
    """Find a time zone with the given UTC offset. `Etc/GMT-8` is 8 hours ahead of UTC."""
    hours, rest = divmod(abs(offset), _HOUR)
    if not rest:
        return f"Etc/GMT{'-' if offset > _NONE else '+'}{hours}" if hours else "UTC"
    at = max(log.when.moments) if log.when is not None else datetime(2024, 1, 1)
    zones = sorted(zone for zone in available_timezones() if "/" in zone)
    return next(
        (zone for zone in zones if at.replace(tzinfo=UTC).astimezone(ZoneInfo(zone)).utcoffset() == offset), "UTC"
    )
