"""The source value of a feature, taken from the rows of an impression."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from operator import itemgetter
from typing import Any
from zoneinfo import ZoneInfo

from ctr_samples.errors import InputError
from ctr_samples.serving.declared import Declared, path_of

Rows = Mapping[str, Any]
"""Row of each view and history by name, the impression under ``impression``, and the caller's own values under ""."""
Get = Callable[[Rows], Any]

_LITERAL = re.compile(r"'([^'\\]*)'|(-?\d+)")
_TIME = re.compile(r"\s*\d{4}-\d{1,2}-\d{1,2}")


def source_of(feature: Declared, config: Mapping[str, Any]) -> Get:
    """Return a function that maps rows to the raw value, or to None if the value is missing."""
    path = path_of(feature.from_)
    key = None if feature.at is None else _key_of(feature, config)
    if path is None or (feature.at is not None and key is None):
        return _given(feature)
    get = _column(path, feature.name, config)
    if feature.date_part is not None:
        return _date_part(get, feature, ZoneInfo(config["timezone"]))
    if key is not None:
        get = _looked_up(get, key)
    sorts = feature.top_k is not None or feature.part == "keys"
    return _best(get, feature, sorts_lists=sorts) if sorts or feature.is_list else get


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
            value = value[field]
        return absent if value is None and filled else value

    return get


def _absent(root: str, column: str, config: Mapping[str, Any]) -> Any:
    """Return the value of a column whose row is missing."""
    if root in config.get("histories", {}):
        return {"length": 0, "matched": False}.get(column, [])
    if column == "matched":
        return False
    view = config.get("views", {}).get(root) or {}
    if view.get("aggregates") and column != "age_s":
        rate = (view["aggregates"].get("rates") or {}).get(column.rpartition("_")[0])
        return 0 if rate is None else rate["prior"] * rate["strength"] / rate["strength"]
    return None


def _derived(row: Mapping[str, Any], root: str, column: str, name: str) -> Any:
    if column == "matched":
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


def _looked_up(get: Get, key: Get) -> Get:
    def look_up(rows: Rows) -> Any:
        entries, at = get(rows), key(rows)
        if not entries or at is None:
            return None
        kind = type(next(iter(entries)))
        if type(at) is not kind:
            at = _cast(at, kind)
        return entries.get(at)

    return look_up


def _cast(key: Any, kind: type) -> Any:
    """Cast a key to the type of the map's keys. Return None if the cast fails, so the lookup finds nothing."""
    if kind is str:
        return {True: "true", False: "false"}[key] if isinstance(key, bool) else str(key)
    try:
        return kind(key)
    except (TypeError, ValueError):
        return None


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
        in_order = sorted((key, number) for key, number in entries if number is not None and not math.isnan(number))
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
    """Convert a time to the configured zone. Like the job, treats a time without a zone as local."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip()) if _TIME.match(value) else None
        except ValueError:
            return None
    if value is None:
        return None
    if isinstance(value, datetime):
        return value.astimezone(zone) if value.tzinfo else value
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)
    raise InputError(
        f"features.{name}: found {value!r}, expected a datetime, a date or text such as 2019-06-05T10:00:00."
    )


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
