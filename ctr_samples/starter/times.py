"""Timestamp columns: unit or format, and time zone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import cache, partial
from typing import Any

_UNITS = {"seconds": 1, "milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}
_FIRST, _LAST = datetime(1995, 1, 1, tzinfo=UTC).timestamp(), datetime(2100, 1, 1, tzinfo=UTC).timestamp()
_WORDS = frozenset(
    "time ts date dt day hour timestamp at when created updated modified changed since until from to since begin start end "
    "expires expired valid ms millis seconds epoch clock datetime logged shown published trained event".split()
)
_ISO = re.compile(
    r"(\d{4})-(\d\d?)-(\d\d?)(?:[T ](\d\d?)(?::(\d\d?)(?::(\d\d?)(?:[.,]\d+)?)?)?\s*(Z|UTC|[+-]\d\d:?\d\d)?)?"
)
_MOST = 2000
"""Maximum number of distinct values parsed to recognize a format."""
_FEWEST = 5
_SHORTEST = timedelta(minutes=1)
_LONGEST = timedelta(days=3650)

# Python formats and the equivalent Spark formats.
_DATES = {
    "%Y/%m/%d": "yyyy/M/d",
    "%m/%d/%Y": "M/d/yyyy",
    "%d/%m/%Y": "d/M/yyyy",
    "%d.%m.%Y": "d.M.yyyy",
    "%Y.%m.%d": "yyyy.M.d",
    "%d.%m.%y": "d.M.yy",
    "%d-%m-%Y": "d-M-yyyy",
    "%Y年%m月%d日": "yyyy年M月d日",
    "%Y년 %m월 %d일": "yyyy년 M월 d일",
}
_CLOCKS = {"%H:%M:%S": "H:mm:ss", "%H:%M": "H:mm", "%I:%M:%S %p": "h:mm:ss a", "%I:%M %p": "h:mm a"}
_CLOCKS |= {"%H時%M分%S秒": "H時m分s秒", "%H시 %M분 %S초": "H시 m분 s초", "%H시 %M분": "H시 m분"}
_PACKED = {"%Y%m%d%H%M%S": "yyyyMMddHHmmss", "%Y%m%d%H": "yyyyMMddHH", "%Y%m%d": "yyyyMMdd", "%y%m%d%H": "yyMMddHH"}
_PACKED_LENGTHS = {form: len(datetime(2019, 10, 10).strftime(form)) for form in _PACKED}
_FORMS = {f"{date} {clock}": f"{_DATES[date]} {_CLOCKS[clock]}" for date in _DATES for clock in _CLOCKS}
_FORMS |= _DATES | _PACKED | {"%d/%b/%Y:%H:%M:%S %z": "dd/MMM/yyyy:HH:mm:ss Z"}


Read = Callable[[Any], datetime | None]


@dataclass(frozen=True, slots=True)
class Time:
    """The interpretation of a column as timestamps: SQL expression, reason, and sampled times in UTC or as written."""

    expr: str
    why: str
    moments: tuple[datetime, ...]
    read: Read
    """Parses a value of the column."""
    zoned: bool
    todo: str = ""
    has_clock: bool = True
    """False for dates without a time of day."""
    offset: timedelta | None = None
    """UTC offset stated by all sampled texts, if they agree."""

    @property
    def days(self) -> Counter[date]:
        """The number of distinct times per day."""
        return Counter(moment.date() for moment in self.moments)

    @property
    def span(self) -> timedelta:
        """Duration from the first to the last sampled time."""
        return max(self.moments) - min(self.moments)


def words_of(name: str) -> list[str]:
    """Split a name into lower-case words: ``itemId``, ``item_id`` and ``ITEM-ID`` become item and id."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+", name)]


def time_of(name: str, expr: str, kind: str, present: Sequence[Any], *, named: bool) -> Time | None:
    """Return the interpretation of a column as timestamps, or None if it does not hold timestamps."""
    if not present:
        return None
    if kind in ("TIMESTAMP", "TIMESTAMP_NTZ", "DATE"):
        some = [*_spread(list(present)), min(present), max(present)]
        return _read(expr, f"its type is {kind}", _plain, some, zoned=kind == "TIMESTAMP", has_clock=kind != "DATE")
    if kind not in ("STRING", "BIGINT", "DOUBLE"):
        return None
    likely = bool(_WORDS & set(words_of(name)))
    some = _spread(list(dict.fromkeys(present)))
    texts = list(map(str, some))
    if kind == "STRING" and not all(map(str.isdecimal, texts)):
        return _iso(expr, texts) or _form(expr, texts)
    found = _number(expr, kind, some)
    if kind == "STRING":
        found = found or _form(expr, texts)
    elif kind == "BIGINT" and (likely or named):
        found = found or _form(f"string({expr})", texts)
    return found if found is None or likely or _is_plausible(found, len(some), named=named) else None


def _spread(values: list[Any]) -> list[Any]:
    """Return at most 2,000 values from all parts of a list, with the first and the last one."""
    return values if len(values) <= _MOST else [*values[:: -(-len(values) // (_MOST - 1))], values[-1]]


def _is_plausible(time: Time, count: int, *, named: bool) -> bool:
    """Whether values look like times, despite the column name: recent years, and more than a few values."""
    first = 2005 if named else 1995  # an id may well begin at 1,000,000,000
    low, high = min(time.moments), max(time.moments)
    return first <= low.year and high.year <= 2040 and _SHORTEST <= high - low <= _LONGEST and count >= _FEWEST


def _read(expr: str, why: str, read: Read, some: Sequence[Any], **more: Any) -> Time | None:
    """Return values as times, or None if one of them cannot be read."""
    moments = list(map(read, some))
    known = tuple(moment for moment in moments if moment is not None)
    return Time(expr, why, known, read, **more) if len(known) == len(moments) else None


def _plain(moment: date) -> datetime:
    if not isinstance(moment, datetime):
        return datetime(moment.year, moment.month, moment.day)
    return (moment.astimezone(UTC) if moment.tzinfo else moment).replace(tzinfo=None)


def _number(expr: str, kind: str, some: Sequence[Any]) -> Time | None:
    low, high = min(map(float, some)), max(map(float, some))
    fitting = [(unit, n) for unit, n in _UNITS.items() if low / n >= _FIRST and high / n <= _LAST]
    if not fitting:
        return None
    unit, per_second = fitting[0]
    number = f"bigint({expr})" if kind == "STRING" else expr
    whole = f"bigint({expr})" if kind == "DOUBLE" else number
    made = {
        "seconds": f"timestamp_seconds({number})",
        "milliseconds": f"timestamp_millis({whole})",
        "microseconds": f"timestamp_micros({whole})",
        "nanoseconds": f"timestamp_micros({whole} div 1000)",
    }[unit]

    def read(value: Any) -> datetime:
        return datetime.fromtimestamp(float(value) / per_second, UTC).replace(tzinfo=None)

    why = f"as {unit} since 1970 it is {read(low):%Y-%m-%d} to {read(high):%Y-%m-%d}"
    return _read(made, why, read, some, zoned=True)


def _iso(expr: str, texts: Sequence[str]) -> Time | None:
    matches = [match for text in texts if (match := _ISO.fullmatch(text.strip()))]
    if len(matches) < len(texts):
        return None
    zones = {match[7] for match in matches}
    zoned = None not in zones
    where = f"with its zone ({', '.join(sorted(zones))})" if zoned else "without a zone"
    return _read(
        expr,
        f"text such as {texts[0]!r}, {where}",
        _moment,
        texts,
        zoned=zoned,
        has_clock=any(":" in text for text in texts),
        offset=_offset(zones.pop()) if len(zones) == 1 and zoned else None,
    )


def _moment(text: str) -> datetime | None:
    match = _ISO.fullmatch(text.strip())
    if match is None:
        return None
    *parts, zone = match.groups()
    try:
        return datetime(*[int(part) for part in parts if part]) - _offset(zone)  # type: ignore[arg-type]
    except ValueError:
        return None


@cache
def _offset(zone: str | None) -> timedelta:
    read = None if zone in (None, "Z", "UTC") else datetime.strptime(str(zone), "%z").utcoffset()
    return read or timedelta(0)


def _form(expr: str, texts: Sequence[str]) -> Time | None:
    """Find a format that fits every value. Prefer the format with the smallest time span."""
    fitting = {form: time for form in _FORMS if (time := _in_form(expr, form, texts)) is not None}
    form = min(fitting, key=lambda form: fitting[form].span, default=None)
    if form is None:
        return None
    first, second = ("month", "day") if form.startswith("%m") else ("day", "month")
    swapped = any({other[:5], form[:5]} == {"%m/%d", "%d/%m"} for other in fitting)
    todo = f"is {texts[0]!r} {first} first, as assumed here, or {second} first?" if swapped else ""
    return replace(fitting[form], todo=todo)


def _in_form(expr: str, form: str, texts: Sequence[str]) -> Time | None:
    read = partial(_parsed, form)
    if (first := read(texts[0])) is None:
        return None
    made = f"try_to_timestamp({expr}, '{_FORMS[form]}')"
    why = f"text such as {texts[0]!r}, read as {first:%Y-%m-%d %H:%M:%S}"
    return _read(made, why, read, texts, zoned="%z" in form, has_clock="%H" in form or "%I" in form)


def _parsed(form: str, value: Any) -> datetime | None:
    text = str(value).strip()
    if form in _PACKED and not (text.isdecimal() and len(text) == _PACKED_LENGTHS[form]):
        return None  # Python accepts fewer digits than the format has
    try:
        moment = datetime.strptime(text, form)
    except ValueError:
        return None
    return _plain(moment) if 1990 <= moment.year <= 2100 else None
