"""The time zone of days and of local times: by the days in paths, by how soon actions follow, and by what texts say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from ctr_samples.errors import UsageError
from ctr_samples.starter.links import Follower
from ctr_samples.starter.log import Log
from ctr_samples.starter.questions import Answers, Candidate
from ctr_samples.starter.tables import Table
from ctr_samples.starter.times import Time

_HOUR = timedelta(hours=1)
_QUARTER = timedelta(minutes=15)
_NONE = timedelta(0)
_OFFSETS = sorted((n * _QUARTER for n in range(-48, 57)), key=lambda offset: (offset % _HOUR != _NONE, abs(offset)))
"""Offsets of the zones of the world, whole hours first, and those near UTC first."""
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
    soon, said = _by_actions(log), log.when.offset if log.when is not None else None
    in_utc = soon is not None and soon[0] == _NONE
    for name in answers.names("zone"):
        return _told(name, log, in_utc=in_utc)
    by_day = dict(_by_days(log))
    beside = dict(_beside(log)) if in_utc or (log.when is not None and log.when.zoned) else {}
    why: dict[timedelta, list[str]] = {_NONE: []}
    for offset, words in [*((offset, "") for offset in by_day), *beside.items(), *([soon] if soon else [])]:
        why.setdefault(offset, []).append(words)
    if said:
        why.setdefault(said, []).append(f"the log writes its times at {_written(said)}")
    candidates = []
    for offset in sorted(why, key=abs):
        means = _meaning(log, offset)
        words = "; ".join([f"at {_written(offset)}", *filter(None, [means, *why[offset]])])
        facts = (
            means == _ALL_INSIDE or offset in beside,
            bool(soon and soon[0] == offset and offset),
            bool(said and offset == said),
        )
        if (name_ := _named(offset, log)) is not None:
            one = Zone(name_, offset, words if means or why[offset] else "", from_utc=in_utc and offset != _NONE)
            candidates.append(Candidate(one, name_, words, facts))
    zone = answers.to("zone", "In which zone does a day begin?", candidates, may_be_none=False)
    assert zone is not None
    known = zone.why or ("all times know their zone" if all(one.zoned for one in _clocks(tables)) else "")
    return replace(zone, why=known, todo=answers.todo("zone") or _todo(zone, known=bool(known)))


def _clocks(tables: Sequence[Table]) -> list[Time]:
    return [column.time for table in tables for column in table.columns if column.time and column.time.has_clock]


def _todo(zone: Zone, *, known: bool) -> str:
    if zone.offset != _NONE:
        return "which zone is it? One with summer time needs its own name"
    return f"in which zone {'does' if known else 'are times without one, and where does'} a day begin?"


def _told(name: str, log: Log, *, in_utc: bool) -> Zone:
    if name not in available_timezones():
        raise UsageError(f"`--zone` is {name}, expected a zone of the IANA database, such as UTC or Asia/Shanghai.")
    moments = log.when.moments if log.when is not None else (_moment(log),)
    offsets = [_offset(name, at) for at in (min(moments), max(moments))]
    from_utc = in_utc and all(offsets)
    why = ", and times without a zone are those of UTC, since actions follow so within an hour" if from_utc else ""
    return Zone(name, offsets[-1], f"as you said{why}", from_utc=from_utc)


# --- evidence


def _beside(log: Log) -> Iterator[tuple[timedelta, str]]:
    """Yield offsets from UTC, with a reason, of local times that stand in the log beside those in UTC."""
    own = log.time
    for column in log.table.columns:
        if own is None or column.time is None or column.time.zoned or not column.time.has_clock:
            continue
        apart = ((column.moments - own.moments).dropna() / _QUARTER).round()
        for quarters in apart.mode()[:1]:
            offset = int(quarters) * _QUARTER
            if offset in _OFFSETS and offset != _NONE and bool((apart == quarters).mean() > 0.5):
                yield offset, f"{column.called} is {_written(offset)} where {own.called} is UTC"


def _dated(log: Log) -> Iterator[tuple[str, list[tuple[date, datetime]]]]:
    """Yield the logs whose paths name days, each with the day in the path of its rows, and their times in UTC."""
    for table, column in [(log.table, log.time), *((one.table, one.time) for one in log.followers)]:
        if column is not None and column.time is not None and column.time.zoned and column.time.has_clock:
            pairs = zip(table.row_days, column.instants, strict=False)
            if rows := [(day, at) for day, at in pairs if day is not None and at is not None]:
                yield table.name, rows


def _inside(rows: Sequence[tuple[date, datetime]], offset: timedelta) -> float:
    """Return the share of the rows of which the path names the day in a zone."""
    return sum((at + offset).date() == day for day, at in rows) / len(rows)


def _by_days(log: Log) -> Iterator[tuple[timedelta, str]]:
    """Yield the offsets from UTC nearest to it for which the times of a log are of the days in its paths."""
    for name, rows in _dated(log):
        some = rows[:: 1 + len(rows) // 2000]
        if (offset := next((one for one in _OFFSETS if _inside(some, one) >= 0.99), None)) is not None:
            yield offset, name


_ALL_INSIDE = "all rows are of the days that their paths say"


def _meaning(log: Log, offset: timedelta) -> str:
    """Say what a zone would mean for the days in paths."""
    shares = [(name, 1 - _inside(rows, offset)) for name, rows in _dated(log)]
    return "; ".join(
        f"{share:.0%} of the rows of {name} would be of another day than their path says"
        for name, share in shares
        if share > 0.01
    ) or (_ALL_INSIDE if shares else "")  # fmt: skip


def _by_actions(log: Log) -> tuple[timedelta, str] | None:
    """Return the UTC offset for which actions follow promptly, if one of the two logs has local times."""
    for follower in log.followers:
        time_, shown = follower.time.time, log.when
        if time_ is None or shown is None or len(follower.delays) < _ENOUGH or time_.zoned == shown.zoned:
            continue
        hours = Counter(delay // _HOUR for delay in follower.delays)
        usual, most = hours.most_common(1)[0]
        if most < 0.3 * len(follower.delays) or (usual and most <= 3 * hours[0]):
            return None
        offset = usual * _HOUR * (1 if shown.zoned else -1)
        if -12 * _HOUR <= offset <= 14 * _HOUR:
            return offset, f"most rows of {follower.table.name} follow what was shown within an hour"
    return None


def in_zone(log: Log, zone: Zone) -> Log:
    """Return the log with action delays corrected for the time zone of local times."""

    def corrected(follower: Follower) -> Follower:
        time_, shown = follower.time.time, log.when
        if time_ is None or shown is None or time_.zoned == shown.zoned or zone.from_utc:
            return follower
        by = zone.offset if shown.zoned else -zone.offset
        return replace(follower, delays=tuple(delay - by for delay in follower.delays))

    return replace(log, followers=tuple(map(corrected, log.followers)))


# --- names of zones


def _written(offset: timedelta) -> str:
    minutes = round(abs(offset).total_seconds() / 60)
    return f"UTC{'-' if offset < _NONE else '+'}{minutes // 60:02}:{minutes % 60:02}"


def _moment(log: Log) -> datetime:
    return max(log.when.moments) if log.when is not None else datetime(2024, 1, 1)


@cache
def _offset(name: str, at: datetime) -> timedelta:
    return at.replace(tzinfo=UTC).astimezone(ZoneInfo(name)).utcoffset() or _NONE


def _named(offset: timedelta, log: Log) -> str | None:
    """Find a time zone with the given UTC offset, or None. `Etc/GMT-8` is 8 hours ahead of UTC."""
    hours, rest = divmod(abs(offset), _HOUR)
    if not rest:
        return f"Etc/GMT{'-' if offset > _NONE else '+'}{hours}" if hours else "UTC"
    zones = sorted(zone for zone in available_timezones() if "/" in zone)
    return next((zone for zone in zones if _offset(zone, _moment(log)) == offset), None)
