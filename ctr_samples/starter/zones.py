"""The time zone of days and of local times: by the days in paths, by how soon actions follow, and by what texts say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from math import ceil, floor
from zoneinfo import ZoneInfo, available_timezones

from ctr_samples.errors import UsageError
from ctr_samples.starter.links import Follower
from ctr_samples.starter.log import Log
from ctr_samples.starter.questions import Answers, Candidate
from ctr_samples.starter.tables import Column, Table
from ctr_samples.starter.times import Time, in_words

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
    from_utc: bool = False
    """Whether times without a zone are those of UTC, though days are of another zone."""

    def expr_of(self, time_: Time) -> str:
        """Return the SQL expression of times in this zone."""
        if self.from_utc and time_.has_clock and not time_.zoned:
            return f"from_utc_timestamp({time_.expr}, '{self.name}')"
        return time_.expr


def zone_of(log: Log, tables: Sequence[Table], answers: Answers) -> Zone:
    """Return the time zone of a configuration: the one in whose days the rows lie where paths put them. The default is UTC.

    Raises UsageError for a zone that does not exist.
    """
    logs = [(log.table, log.time), *((follower.table, follower.time) for follower in log.followers)]
    by_day = [(t, c) for t, c in logs if any(t.row_days) and c and c.time and c.time.zoned and c.time.has_clock]
    soon, said = _by_actions(log), log.when.offset if log.when is not None else None
    in_utc = soon is not None and soon[0] == _NONE
    beside = dict(_beside(log)) if in_utc or (log.when is not None and log.when.zoned) else {}
    for name in answers.names("zone"):
        return _told(name, log, in_utc=in_utc)
    offsets = {_NONE, *(found for table, column in by_day if (found := _by_days(table, column)) is not None), *beside}
    offsets |= {offset for offset in (soon and soon[0], said) if offset}
    candidates = []
    for offset in sorted(offsets, key=abs):
        zone_name = _named(offset, log)
        if zone_name is None:
            continue
        inside = [_in_their_day(table, column, offset) for table, column in by_day]
        follow = soon is not None and offset == soon[0]
        why = _meaning(inside, by_day)
        why += [beside[offset]] if offset in beside else []
        why += [soon[1]] if soon is not None and follow else []
        why += [f"the log writes its times at {_written(offset)}"] if said and offset == said else []
        words = "; ".join([f"at {_written(offset)}", *why]) if why else ""
        facts = (
            any(share > 0.99 for share in inside) or offset in beside,
            bool(follow and offset),
            bool(said and offset == said),
        )
        one = Zone(zone_name, offset, words, from_utc=in_utc and offset != _NONE)
        candidates.append(Candidate(one, one.name, words, facts))
    chosen = answers.to("zone", "In which zone does a day begin?", candidates, may_be_none=False)
    assert chosen is not None
    zone: Zone = chosen
    times = [c.time for table in tables for c in table.columns if c.time and c.time.has_clock]
    words = zone.why or ("all times know their zone" if all(one.zoned for one in times) else "")
    return replace(zone, why=words, todo=answers.todo("zone") or _todo(zone, known=bool(words)))


def _beside(log: Log) -> Iterator[tuple[timedelta, str]]:
    """Yield offsets from UTC, with a reason, of local times that stand in the log beside those in UTC."""
    for column in log.table.columns:
        if log.time is None or column.time is None or column.time.zoned or not column.time.has_clock:
            continue
        pairs = zip(log.time.instants, column.instants, strict=True)
        apart = Counter(round((local - at) / _QUARTER) for at, local in pairs if at is not None and local is not None)
        quarters, most = apart.most_common(1)[0] if apart else (0, 0)
        if quarters and abs(quarters) <= 56 and most > 0.5 * apart.total():
            offset = quarters * _QUARTER
            yield offset, f"{column.called} is {_written(offset)} where {log.time.called} is UTC"


def _todo(zone: Zone, *, known: bool) -> str:
    if zone.offset != _NONE:
        return "which zone is it? One with summer time needs its own name"
    return (
        "in which zone does a day begin?"
        if known
        else "in which zone are times without one, and where does a day begin?"
    )


def _told(name: str, log: Log, *, in_utc: bool) -> Zone:
    if name not in available_timezones():
        raise UsageError(f"`--zone` is {name}, expected a zone of the IANA database, such as UTC or Asia/Shanghai.")
    moments = log.when.moments if log.when is not None else (_moment(log),)
    offsets = [
        at.replace(tzinfo=UTC).astimezone(ZoneInfo(name)).utcoffset() or _NONE for at in (min(moments), max(moments))
    ]
    why = (
        ", and times without a zone are those of UTC, since actions follow so within an hour"
        if in_utc and all(offsets)
        else ""
    )
    return Zone(name, offsets[-1], f"as you said{why}", from_utc=bool(why))


def _days_and_times(table: Table, column: Column) -> list[tuple[date, datetime]]:
    """Return the day in the path of each row, and its time, where both are there."""
    rows = zip(table.row_days, column.instants, strict=False)
    return [(day, at) for day, at in rows if day is not None and at is not None]


def _in_their_day(table: Table, column: Column, offset: timedelta) -> float:
    """Return the share of the rows of which the path names the day in a zone."""
    rows = _days_and_times(table, column)
    return sum((at + offset).date() == day for day, at in rows) / max(1, len(rows))


def _meaning(inside: Sequence[float], by_day: Sequence[tuple[Table, Column]]) -> list[str]:
    """Say what a zone would mean for the days in paths."""
    others = [(table.name, 1 - share) for share, (table, _) in zip(inside, by_day, strict=True)]
    far = [
        f"{share:.0%} of the rows of {name} would be of another day than their path says"
        for name, share in others
        if share > 0.01
    ]
    return far or (["all rows are of the days that their paths say"] if others else [])


def in_zone(log: Log, zone: Zone) -> Log:
    """Return the log with action delays corrected for the time zone of local times."""

    def corrected(follower: Follower) -> Follower:
        time_, shown = follower.time.time, log.when
        if time_ is None or shown is None or time_.zoned == shown.zoned or zone.from_utc:
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


def _by_days(table: Table, column: Column) -> timedelta | None:
    """Return an offset from UTC for which the times of a table are of the days in its paths, or None if there is none."""
    least = sorted(datetime.combine(day, time()) - at for day, at in _days_and_times(table, column))
    if not least:
        return None
    few = len(least) // 200  # some rows arrive late
    low, high = least[-1 - few], least[few] + timedelta(days=1)
    if low > high or low < -14 * _HOUR or high > 39 * _HOUR or low <= _NONE < high:
        return None
    step = _QUARTER if high - low <= _HOUR else _HOUR
    return ceil(low / step) * step


def _by_actions(log: Log) -> tuple[timedelta, str] | None:
    """Return the UTC offset for which actions follow promptly, if one of the two logs has local times."""
    for follower in log.followers:
        time_, shown = follower.time.time, log.when
        if time_ is None or shown is None or len(follower.delays) < _ENOUGH or time_.zoned == shown.zoned:
            continue
        hours = Counter(floor(delay / _HOUR) for delay in follower.delays)
        usual, most = hours.most_common(1)[0]
        if most < 0.3 * len(follower.delays) or (usual and most <= 3 * hours[0]):
            return None
        offset = usual * _HOUR * (1 if shown.zoned else -1)
        if -12 * _HOUR <= offset <= 14 * _HOUR:
            return offset, f"most rows of {follower.table.name} follow what was shown within an hour"
    return None


def _written(offset: timedelta) -> str:
    minutes = round(abs(offset).total_seconds() / 60)
    return f"UTC{'-' if offset < _NONE else '+'}{minutes // 60:02}:{minutes % 60:02}"


def _moment(log: Log) -> datetime:
    return max(log.when.moments) if log.when is not None else datetime(2024, 1, 1)


def _named(offset: timedelta, log: Log) -> str | None:
    """Find a time zone with the given UTC offset, or None. `Etc/GMT-8` is 8 hours ahead of UTC."""
    hours, rest = divmod(abs(offset), _HOUR)
    if not rest:
        return f"Etc/GMT{'-' if offset > _NONE else '+'}{hours}" if hours else "UTC"
    at = _moment(log).replace(tzinfo=UTC)
    zones = sorted(zone for zone in available_timezones() if "/" in zone)
    return next((zone for zone in zones if at.astimezone(ZoneInfo(zone)).utcoffset() == offset), None)
