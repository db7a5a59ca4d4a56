"""Times: in what unit or form a column writes them, and in which zone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
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
_MOST = 2000
"""Distinct values that are parsed: enough to know a form."""

# How Python parses a form, and how Spark does.
_FORMS = {
    "%Y/%m/%d %H:%M:%S": "yyyy/M/d H:mm:ss",
    "%Y/%m/%d %H:%M": "yyyy/M/d H:mm",
    "%Y/%m/%d": "yyyy/M/d",
    "%m/%d/%Y %I:%M:%S %p": "M/d/yyyy h:mm:ss a",
    "%m/%d/%Y %I:%M %p": "M/d/yyyy h:mm a",
    "%m/%d/%Y %H:%M:%S": "M/d/yyyy H:mm:ss",
    "%m/%d/%Y %H:%M": "M/d/yyyy H:mm",
    "%m/%d/%Y": "M/d/yyyy",
    "%d/%m/%Y %H:%M:%S": "d/M/yyyy H:mm:ss",
    "%d/%m/%Y %H:%M": "d/M/yyyy H:mm",
    "%d/%m/%Y": "d/M/yyyy",
    "%d.%m.%Y %H:%M:%S": "d.M.yyyy H:mm:ss",
    "%d.%m.%Y %H:%M": "d.M.yyyy H:mm",
    "%d.%m.%Y": "d.M.yyyy",
    "%d/%b/%Y:%H:%M:%S %z": "dd/MMM/yyyy:HH:mm:ss Z",
    "%Y%m%d%H%M%S": "yyyyMMddHHmmss",
    "%Y%m%d%H": "yyyyMMddHH",
    "%Y%m%d": "yyyyMMdd",
    "%y%m%d%H": "yyMMddHH",
}


@dataclass(frozen=True, slots=True)
class Time:
    """A column as a time: its expression, why, and the days of the sample in UTC or as they are written."""

    expr: str
    why: str
    moments: tuple[datetime, ...]
    zoned: bool
    todo: str = ""
    has_clock: bool = True
    """False for days."""

    @property
    def days(self) -> Counter[date]:
        """How many different times a day has."""
        return Counter(moment.date() for moment in self.moments)

    @property
    def span(self) -> timedelta:
        """From the first time to the last."""
        return max(self.moments) - min(self.moments)


def words_of(name: str) -> list[str]:
    """The words of a name in lower case: ``itemId``, ``item_id`` and ``ITEM-ID`` are item and id."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+", name)]


def time_of(name: str, expr: str, kind: str, present: Sequence[Any], *, named: bool) -> Time | None:
    """How a column is read as a time; None if it is none."""
    if not present:
        return None
    if kind in ("TIMESTAMP", "DATE"):
        return _typed(expr, kind, present)
    likely = not named or bool(_WORDS & set(words_of(name)))
    some = list(dict.fromkeys(present))[:_MOST] if kind in ("STRING", "BIGINT", "INT", "DOUBLE") else []
    if not some:
        return None
    if kind == "STRING":
        digits = likely and all(str(value).isdigit() for value in some)
        packed = _number(f"bigint({expr})", "BIGINT", [int(value) for value in some]) if digits else None
        return packed or _iso(expr, some) or _form(expr, [str(value) for value in some])
    if not likely:
        return None
    packed = _form(f"string({expr})", [str(value) for value in some]) if kind != "DOUBLE" and named else None
    return _number(expr, kind, some) or packed


def _typed(expr: str, kind: str, present: Sequence[Any]) -> Time:
    moments = [m if isinstance(m, datetime) else datetime(m.year, m.month, m.day) for m in present[-_MOST:]]
    plain = tuple((m.astimezone(UTC) if m.tzinfo else m).replace(tzinfo=None) for m in [*moments, *_ends(present)])
    return Time(expr, f"its type is {kind}", plain, zoned=kind == "TIMESTAMP", has_clock=kind == "TIMESTAMP")


def _ends(present: Sequence[Any]) -> Iterator[datetime]:
    for end in (min(present), max(present)):
        yield end if isinstance(end, datetime) else datetime(end.year, end.month, end.day)


def _number(expr: str, kind: str, some: Sequence[Any]) -> Time | None:
    fitting = [(unit, n) for unit, n in _UNITS.items() if all(_FIRST <= value / n <= _LAST for value in some)]
    if not fitting:
        return None
    unit, per_second = fitting[0]
    moments = tuple(datetime.fromtimestamp(value / per_second, UTC).replace(tzinfo=None) for value in some)
    made = {
        "seconds": f"timestamp_seconds({expr})",
        "milliseconds": f"timestamp_millis(bigint({expr}))",
        "microseconds": f"timestamp_micros(bigint({expr}))",
        "nanoseconds": f"timestamp_micros(bigint({expr}) div 1000)",
    }[unit]
    if kind == "BIGINT":
        made = made.replace(f"bigint({expr})", expr)
    why = f"as {unit} since 1970 it is {min(moments):%Y-%m-%d} to {max(moments):%Y-%m-%d}"
    return Time(made, why, moments, zoned=True)


def _iso(expr: str, some: Sequence[str]) -> Time | None:
    matches = [_ISO.fullmatch(value.strip()) for value in some]
    if not all(matches):
        return None
    zones = {match[1] for match in matches if match}
    moments = tuple(moment for value in some if (moment := _moment(value.strip())) is not None)
    if len(moments) < len(some):
        return None
    zoned = None not in zones
    where = f"with its zone ({', '.join(sorted(map(str, zones)))})" if zoned else "without a zone"
    return Time(
        expr, f"text such as {some[0]!r}, {where}", moments, zoned, has_clock=any(":" in value for value in some)
    )


def _moment(text: str) -> datetime | None:
    head = re.match(r"(\d+)-(\d+)-(\d+)(?:[T ](\d+)(?::(\d+))?(?::(\d+))?)?", text)
    zone = re.search(r"([+-])(\d\d):?(\d\d)$", text[10:])
    try:
        moment = datetime(*[int(part) for part in head.groups() if part is not None]) if head else None  # type: ignore[arg-type]
    except ValueError:
        return None
    if moment is None or zone is None:
        return moment
    offset = timedelta(hours=int(zone[2]), minutes=int(zone[3]))
    return moment - offset if zone[1] == "+" else moment + offset


def _form(expr: str, some: Sequence[str]) -> Time | None:
    """The forms of which each value is one; the first, if there are several."""
    fitting = [(form, moments) for form in _FORMS if (moments := _parsed(form, some)) is not None]
    if not fitting:
        return None
    form, moments = fitting[0]
    spark = _FORMS[form]
    swapped = [other for other, _ in fitting[1:] if {other[:5], form[:5]} == {"%m/%d", "%d/%m"}]
    todo = f"is {some[0]!r} month first, as assumed here, or day first?" if swapped else ""
    made = f"try_to_timestamp({expr}, '{spark}')"
    return Time(made, f"text such as {some[0]!r}", moments, "%z" in form, todo, has_clock="%H" in form or "%I" in form)


def _parsed(form: str, some: Sequence[str]) -> tuple[datetime, ...] | None:
    length: Callable[[str], bool] = (lambda text: True) if "/" in form or "." in form else _as_long_as(form)
    moments = []
    for text in some:
        if not length(text):
            return None
        try:
            moment = datetime.strptime(text.strip(), form)
        except ValueError:
            return None
        if not 1990 <= moment.year <= 2100:
            return None
        moments.append(moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment)
    return tuple(moments)


def _as_long_as(form: str) -> Callable[[str], bool]:
    length = len(datetime(2019, 10, 10).strftime(form))
    return lambda text: len(text) == length and text.isdigit()
