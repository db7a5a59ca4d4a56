"""Timestamp columns: unit or format, and time zone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

_UNITS = {"seconds": 1, "milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}
_FIRST, _LAST = datetime(1995, 1, 1, tzinfo=UTC).timestamp(), datetime(2100, 1, 1, tzinfo=UTC).timestamp()
_WORDS = frozenset(
    "time ts date dt day hour timestamp at when created updated modified changed since until from to since begin start end "
    "expires expired valid ms millis seconds epoch clock datetime logged shown published trained event".split()
)
_ISO = re.compile(
    r"\d{4}-\d{1,2}-\d{1,2}(?:[T ]\d{1,2}(?::\d{1,2}(?::\d{1,2}(?:[.,]\d+)?)?)?\s*(Z|UTC|[+-]\d\d:?\d\d)?)?"
)
READ_AS = "%Y-%m-%d %H:%M:%S"
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
_FORMS = {f"{date} {clock}": f"{_DATES[date]} {_CLOCKS[clock]}" for date in _DATES for clock in _CLOCKS}
_FORMS |= _DATES | _PACKED | {"%d/%b/%Y:%H:%M:%S %z": "dd/MMM/yyyy:HH:mm:ss Z"}


@dataclass(frozen=True, slots=True)
class Time:
    """The interpretation of a column as timestamps: SQL expression, reason, and sampled times in UTC or as written."""

    expr: str
    why: str
    moments: tuple[datetime, ...]
    zoned: bool
    read: Callable[[Any], datetime | None]
    """Parses a value of the column."""
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
        return _typed(expr, kind, present)
    likely = bool(_WORDS & set(words_of(name)))
    some = _spread(list(dict.fromkeys(present))) if kind in ("STRING", "BIGINT", "INT", "DOUBLE") else []
    if not some:
        return None
    if kind == "STRING":
        if all(str(value).isdecimal() for value in some):
            number = _number(f"bigint({expr})", "BIGINT", [int(value) for value in some])
            packed = number and replace(number, read=lambda value: number.read(int(value)))
            found = packed or _form(expr, [str(value) for value in some])
        else:
            return _iso(expr, some) or _form(expr, [str(value) for value in some])
    elif kind == "DOUBLE" or not (likely or named):
        found = _number(expr, kind, some)
    else:
        found = _number(expr, kind, some) or _form(f"string({expr})", [str(value) for value in some])
    return found if found is None or likely or _is_plausible(found, len(some), named=named) else None


def _spread(values: list[Any]) -> list[Any]:
    """Return at most 2,000 values from all parts of a list, with the first and the last one."""
    return values if len(values) <= _MOST else [*values[:: -(-len(values) // (_MOST - 1))], values[-1]]


def _is_plausible(time: Time, count: int, *, named: bool) -> bool:
    """Whether values look like times, despite the column name: recent years, and more than a few values."""
    first = 2005 if named else 1995  # an id may well begin at 1,000,000,000
    low, high = min(time.moments), max(time.moments)
    return first <= low.year and high.year <= 2040 and _SHORTEST <= high - low <= _LONGEST and count >= _FEWEST


def _typed(expr: str, kind: str, present: Sequence[Any]) -> Time:
    plain = tuple(_plain(moment) for moment in [*_spread(list(present)), min(present), max(present)])
    return Time(expr, f"its type is {kind}", plain, kind == "TIMESTAMP", _plain, has_clock=kind != "DATE")


def _plain(moment: date) -> datetime:
    if not isinstance(moment, datetime):
        return datetime(moment.year, moment.month, moment.day)
    return (moment.astimezone(UTC) if moment.tzinfo else moment).replace(tzinfo=None)


def _number(expr: str, kind: str, some: Sequence[Any]) -> Time | None:
    fitting = [(unit, n) for unit, n in _UNITS.items() if all(_FIRST <= value / n <= _LAST for value in some)]
    if not fitting:
        return None
    unit, per_second = fitting[0]

    def read(value: Any) -> datetime:
        return datetime.fromtimestamp(value / per_second, UTC).replace(tzinfo=None)

    moments = tuple(map(read, some))
    made = {
        "seconds": f"timestamp_seconds({expr})",
        "milliseconds": f"timestamp_millis(bigint({expr}))",
        "microseconds": f"timestamp_micros(bigint({expr}))",
        "nanoseconds": f"timestamp_micros(bigint({expr}) div 1000)",
    }[unit]
    if kind == "BIGINT":
        made = made.replace(f"bigint({expr})", expr)
    why = f"as {unit} since 1970 it is {min(moments):%Y-%m-%d} to {max(moments):%Y-%m-%d}"
    return Time(made, why, moments, True, read)


def _iso(expr: str, some: Sequence[str]) -> Time | None:
    matches = [_ISO.fullmatch(value.strip()) for value in some]
    if not all(matches):
        return None
    zones = {match[1] for match in matches if match}
    moments = tuple(moment for value in some if (moment := _moment(value)) is not None)
    if len(moments) < len(some):
        return None
    zoned = None not in zones
    where = f"with its zone ({', '.join(sorted(map(str, zones)))})" if zoned else "without a zone"
    clock = any(":" in value for value in some)
    offset = _offset(next(iter(zones))) if len(zones) == 1 and zoned else None
    why = f"text such as {some[0]!r}, {where}"
    return Time(expr, why, moments, zoned, _moment, has_clock=clock, offset=offset)


def _offset(zone: str | None) -> timedelta:
    match = re.fullmatch(r"([+-])(\d\d):?(\d\d)", zone or "")
    if match is None:
        return timedelta(0)
    by = timedelta(hours=int(match[2]), minutes=int(match[3]))
    return by if match[1] == "+" else -by


def _moment(text: str) -> datetime | None:
    text = text.strip()
    head = re.match(r"(\d+)-(\d+)-(\d+)(?:[T ](\d+)(?::(\d+))?(?::(\d+))?)?", text)
    zone = re.search(r"[+-]\d\d:?\d\d$", text[10:])
    try:
        moment = datetime(*[int(part) for part in head.groups() if part is not None]) if head else None  # type: ignore[arg-type]
    except ValueError:
        return None
    return moment if moment is None else moment - _offset(zone[0] if zone else None)


def _form(expr: str, some: Sequence[str]) -> Time | None:
    """Find a format that fits every value. Prefer the format with the smallest time span."""
    fitting = [(form, moments) for form in _FORMS if (moments := _parsed(form, some)) is not None]
    if not fitting:
        return None
    form, moments = min(fitting, key=lambda one: max(one[1]) - min(one[1]))
    spark = _FORMS[form]
    swapped = [other for other, _ in fitting if {other[:5], form[:5]} == {"%m/%d", "%d/%m"}]
    first, second = ("month", "day") if form.startswith("%m") else ("day", "month")
    todo = f"is {some[0]!r} {first} first, as assumed here, or {second} first?" if swapped else ""
    made = f"try_to_timestamp({expr}, '{spark}')"
    clock = "%H" in form or "%I" in form

    def read(value: Any) -> datetime | None:
        return _parsed_one(form, str(value))

    return Time(
        made,
        f"text such as {some[0]!r}, read as {moments[0]:{READ_AS}}",
        moments,
        "%z" in form,
        read,
        todo,
        has_clock=clock,
    )


def _parsed(form: str, some: Sequence[str]) -> tuple[datetime, ...] | None:
    moments = []
    for text in some:
        moment = _parsed_one(form, text)
        if moment is None:
            return None
        moments.append(moment)
    return tuple(moments)


def _parsed_one(form: str, text: str) -> datetime | None:
    digits = re.fullmatch(r"(%[A-Za-z])+", form)  # Python accepts fewer digits than the format has
    if digits and not (text.isdecimal() and len(text) == len(datetime(2019, 10, 10).strftime(form))):
        return None
    try:
        moment = datetime.strptime(text.strip(), form)
    except ValueError:
        return None
    if not 1990 <= moment.year <= 2100:
        return None
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment


def in_words(delay: timedelta) -> str:
    """Format a delay to the minute, as ``7h 2m``, with a minus sign if negative."""
    minutes = round(abs(delay).total_seconds() / 60)
    days, hours, rest = minutes // 1440, minutes // 60 % 24, minutes % 60
    parts = [f"{n}{unit}" for n, unit in ((days, "d"), (hours, "h"), (rest, "m")) if n]
    return ("-" if delay < timedelta(0) else "") + (" ".join(parts) or "0m")
