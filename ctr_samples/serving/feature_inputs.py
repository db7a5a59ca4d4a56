"""The source value of a feature, taken from the rows of an impression."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from ctypes import c_float
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import ROUND_HALF_UP, Context, Decimal
from operator import itemgetter
from typing import Any
from zoneinfo import ZoneInfo

from ctr_samples.errors import InputError
from ctr_samples.serving.declared import Declared, path_of
from ctr_samples.serving.pairs import pair_of

Rows = Mapping[str, Any]
"""Row of each view and history by name, the impression under ``impression``, and the caller's own values under ""."""
Get = Callable[[Rows], Any]

_LITERAL = re.compile(r"'([^'\\]*)'|(-?\d+)", re.ASCII)
_DATED = re.compile(r"\s*\d{4}-\d{1,2}-\d{1,2}", re.ASCII)
"""Text that the job tries to read as a time."""
_TIME = re.compile(
    r" *(?!0000)(\d{4})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d)(?::(\d\d)(?:\.\d{1,9})?)?"
    r"(?:(?P<utc>Z)|(?P<sign>[+-])(?P<hours>0\d|1[0-7]):(?P<minutes>[0-5]\d))?)? *",
    re.ASCII,
)
"""Text with a time that serving reads. Spark reads more."""
_INTEGER = re.compile(r"[\x00-\x20\x7f]*([+-]?)0*([0-9]{1,19})[\x00-\x20\x7f]*")
"""Text that Spark reads as an integer, unless it does not fit into 64 bits."""


def source_of(feature: Declared, config: Mapping[str, Any]) -> Get:
    """Return a function that maps rows to the raw value, or to None if the value is missing."""
    if feature.pair is not None:
        get = _paired(feature, config)
        if get is None:
            return _given(feature)
        return _best(get, feature, sorts_lists=feature.top_k is not None or feature.part == "keys")
    path = path_of(feature.from_)
    key = None if feature.at is None else _key_of(feature, config)
    if path is None or (feature.at is not None and key is None):
        return _given(feature)
    get = _column(path, feature.name, config)
    if feature.date_part is not None:
        return _date_part(get, feature, ZoneInfo(config["timezone"]))
    if key is not None:
        get = _looked_up(get, key, feature.name)
    sorts = feature.top_k is not None or feature.part == "keys"
    return _best(get, feature, sorts_lists=sorts) if sorts or feature.is_list else get


def _paired(feature: Declared, config: Mapping[str, Any]) -> Get | None:
    """Return the value of a feature of two sources. None if serving cannot read a name of a column."""
    paths = {key.partition(".")[2]: path_of(text) for key, text in feature.texts.items()}
    columns = {key: _column(path, feature.name, config) for key, path in paths.items() if path is not None}
    if len(columns) < len(paths):
        return None
    made = pair_of(feature)
    return lambda rows: made({key: plain_list(get(rows)) for key, get in columns.items()})


def _given(feature: Declared) -> Get:
    name, sorts = feature.name, feature.top_k is not None

    def get(rows: Rows) -> Any:
        if name not in rows[""]:
            raise InputError(
                f"features.{name}: {feature.expr or feature.at or feature.from_!r} is SQL, which only the job evaluates; "
                f"pass its value as `given={{{name!r}: ...}}`."
            )
        return rows[""][name]

    return _best(get, feature, sorts_lists=sorts) if sorts or feature.is_list else get


def _column(path: tuple[str, ...], name: str, config: Mapping[str, Any]) -> Get:
    root, column, *inside = path
    absent = _absent(root, column, config)
    filled = bool((config.get("views", {}).get(root) or {}).get("aggregates"))

    def get(rows: Rows) -> Any:
        row = rows.get(root)
        if row is None:
            return absent
        try:
            value = row[column]
        except KeyError:
            return _derived(row, root, column, name)
        for field in inside:
            if value is None:
                return None
            try:
                value = value[field]
            except (LookupError, TypeError, ValueError):
                raise InputError(
                    f"features.{name}: found {value!r} in {root}.{column}, expected a struct with the field {field!r}; pass it "
                    "as a dict, with None for a missing value."
                ) from None
        return absent if value is None and filled else value

    return get


def _absent(root: str, column: str, config: Mapping[str, Any]) -> Any:
    """Return the value of a column whose row is missing."""
    if root in config.get("histories", {}):
        return {"length": 0, "matched": False}.get(column, [])
    if column.lower() == "matched":
        return False
    view = config.get("views", {}).get(root) or {}
    if view.get("aggregates") and column != "age_s":
        rate = (view["aggregates"].get("rates") or {}).get(column.rpartition("_")[0])
        return 0 if rate is None else rate["prior"] * rate["strength"] / rate["strength"]
    return None


def _derived(row: Mapping[str, Any], root: str, column: str, name: str) -> Any:
    if column.lower() == "matched":
        return bool(row["items"]) if "items" in row else True
    if column == "length" and "items" in row:
        return len(row["items"])
    raise InputError(
        f"features.{name}: the row of {root!r} has no column {column!r}; pass it, as None if the value is missing."
    )


def _key_of(feature: Declared, config: Mapping[str, Any]) -> Get | None:
    literal = _LITERAL.fullmatch(feature.at or "")
    if literal is not None:
        value = literal[1] if literal[2] is None else int(literal[2])
        return lambda rows: value
    path = path_of(feature.at)
    return _column(path, feature.name, config) if path else None


def _looked_up(get: Get, key: Get, name: str) -> Get:
    def look_up(rows: Rows) -> Any:
        entries, at = get(rows), _plain(key(rows))
        if not entries or at is None:
            return None
        one = _plain(next(iter(entries)))
        cast = _as_it_is if type(at) is type(one) else _CASTS.get((type(at), type(one)), _unknown)
        made = cast(at)
        if made is _UNKNOWN or (made not in entries and _may_match(made, entries, one)):
            raise InputError(
                f"features.{name}: found {at!r} to look up among keys such as {one!r}, expected a value of their type, since "
                "serving does not convert it as Spark does; cast it in the configuration, or pass it in the type of its source."
            )
        return entries.get(made)

    return look_up


def _plain(value: Any) -> Any:
    """Convert a NumPy scalar to the one of Python."""
    return value.item() if hasattr(value, "item") else value


_UNKNOWN = object()
"""What Spark makes of a value, if serving does not know."""


def _unknown(value: Any) -> Any:
    return _UNKNOWN


def _as_it_is(value: Any) -> Any:
    return value


def _truncated(number: float) -> Any:
    # Just beyond the range of a type, it depends on the type of the number whether Spark finds it too large.
    if abs(number) >= 2.0**63 or abs(number) == 2.0**31:
        return _UNKNOWN
    return None if math.isnan(number) else int(number)


def _integer(text: str) -> int | None:
    found = _INTEGER.fullmatch(text)
    return found and int(found[1] + found[2])


_CASTS: Mapping[tuple[type, type], Callable[[Any], Any]] = {
    (int, str): str,
    (bool, str): lambda flag: "true" if flag else "false",
    (date, str): date.isoformat,
    (str, int): _integer,
    (bool, int): int,
    (float, int): _truncated,
    (Decimal, int): int,
    (int, bool): bool,
    (int, float): lambda number: float(number) if abs(number) <= 2**53 else _UNKNOWN,
    (bool, float): float,
    (int, Decimal): Decimal,
}
"""What Spark's ``try_cast`` makes of a key, by its type and that of the map's keys. All other conversions are refused: texts of
numbers and times, and what becomes of them, depend on types that only Spark knows.
"""


def _may_match(at: Any, entries: Mapping[Any, Any], one: Any) -> bool:
    """Whether Spark may find a key that Python does not. It rounds numbers to the type of the keys, which may be smaller than
    that of Python, and gives times without a zone one.
    """
    if isinstance(at, float):
        return c_float(at).value in entries or (math.isnan(at) and any(map(math.isnan, entries)))
    if isinstance(at, Decimal):
        return at.quantize(one, ROUND_HALF_UP, Context(prec=80)) in entries
    return isinstance(at, datetime) and (at.tzinfo is None) != (one.tzinfo is None)


def _best(get: Get, feature: Declared, *, sorts_lists: bool) -> Get:
    """Return the values or keys of a map, sorted by number, greatest first unless configured, then by key. Drops null and
    NaN, and turns -0.0 into 0.0. A list stays as it is, unless ``sorts_lists``.
    """
    descending = feature.order != "smallest"
    field = 0 if feature.part == "keys" else 1
    count = feature.top_k

    def best(rows: Rows) -> Any:
        value = get(rows)
        if value is None or not (sorts_lists or isinstance(value, Mapping)):
            return value
        entries = value.items() if isinstance(value, Mapping) else [(item, item) for item in plain_list(value)]
        try:
            in_order = sorted((key, number) for key, number in entries if number is not None and not math.isnan(number))
        except TypeError:
            raise InputError(f"features.{feature.name}: found {value!r}, expected numbers to sort by.") from None
        # The order of equal numbers stays. No number is made a float, which would make large ones equal.
        ranked = sorted(in_order, key=itemgetter(1), reverse=descending)
        taken = [entry[field] for entry in ranked[:count]]
        return [item + 0 if isinstance(item, float) else item for item in taken]

    return best


def _date_part(get: Get, feature: Declared, zone: ZoneInfo) -> Get:
    parts: dict[str, Callable[[datetime], int]] = {
        "hour": lambda t: t.hour,
        "weekday": lambda t: t.weekday(),
        "day": lambda t: t.day,
        "month": lambda t: t.month,
        "hour_of_week": lambda t: t.weekday() * 24 + t.hour,
        "weekend": lambda t: int(t.weekday() >= 5),
    }
    part = parts[feature.date_part or ""]

    def read(rows: Rows) -> Any:
        time = _local(get(rows), zone, feature.name)
        return None if time is None else part(time)

    return read


def _local(value: Any, zone: ZoneInfo, name: str) -> datetime | None:
    """Convert a time to the configured zone. Like the job, treats a time without a zone as local, and one that the clocks skip
    as one after that.
    """
    if isinstance(value, str):
        if _DATED.match(value) is None:
            return None  # nor does the job read it
        read = _TIME.fullmatch(value)
        if read is None:
            raise _no_time(value, name)
        value = _time_of(read)
    if value is None:
        return None
    try:
        if isinstance(value, datetime):
            return value.astimezone(zone) if value.tzinfo else _after_skipped(value, zone)
        if isinstance(value, date):
            return _begin(value, zone, name)
    except OverflowError:
        pass
    raise _no_time(value, name)


def _no_time(value: Any, name: str) -> InputError:
    return InputError(
        f"features.{name}: found {value!r}, expected a datetime, a date or text such as 2019-06-05T10:00:00, perhaps with Z or "
        "+01:00; pass it as a datetime."
    )


def _time_of(read: re.Match[str]) -> datetime | None:
    """Return the time of a text, without fractions of a second, or None if no calendar or clock shows it."""
    sign, hours, minutes = read["sign"], int(read["hours"] or 0), int(read["minutes"] or 0)
    offset = timedelta(hours=hours, minutes=minutes)
    zone = UTC if read["utc"] else timezone(-offset if sign == "-" else offset) if sign else None
    try:
        return datetime(*[int(part or 0) for part in read.groups()[:6]], tzinfo=zone)  # type: ignore[misc,arg-type]
    except ValueError:
        return None


def _after_skipped(value: datetime, zone: ZoneInfo) -> datetime:
    return value.replace(tzinfo=zone, fold=0).astimezone(UTC).astimezone(zone)


def _begin(day: date, zone: ZoneInfo, name: str) -> datetime:
    """Return the begin of a day. Raises InputError if the clocks skip midnight together with the moment before."""
    midnight = datetime(day.year, day.month, day.day)
    begin = _after_skipped(midnight, zone)
    if begin.replace(tzinfo=None) != midnight:
        before = midnight - timedelta(microseconds=1)
        if _after_skipped(before, zone).replace(tzinfo=None) != before:  # Spark begins the day where their gap ends
            raise _no_time(day, name)
    return begin


def plain_list(value: Any) -> Any:
    """Convert NumPy arrays to lists."""
    return value.tolist() if hasattr(value, "tolist") else value


def number_of(value: Any, name: str) -> float:
    """Convert a number to float. Raises InputError for other types."""
    kind = type(value)
    if kind is float:
        return value  # type: ignore[no-any-return]
    if isinstance(value, int | float | Decimal) or hasattr(value, "__float__"):
        return float(value)
    raise InputError(f"features.{name}: found {value!r}, expected a number.")
