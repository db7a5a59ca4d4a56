"""Values that are made of two sources, by the functions that the job uses (:mod:`ctr_samples.pairs`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ctr_samples.errors import InputError
from ctr_samples.pairs import Doubles, Flags, Integers, Numbers, overlap, product, reduced
from ctr_samples.serving.declared import Declared
from ctr_samples.serving.hashing import text_of

Values = Mapping[str, Any]
"""What the keys of a feature name, such as ``map``: plain values of Python, or None."""


def pair_of(feature: Declared) -> Callable[[Values], Any]:
    """Return a function of what the keys of a feature name. It returns the value, or None if that is missing, and raises
    InputError for what is no map, no list or no number where the feature needs one.
    """
    assert feature.pair is not None
    kind, entry = feature.pair
    return partial(_MADE[kind], feature.name, entry)


def _lookup(name: str, entry: Mapping[str, Any], values: Values) -> Any:
    if any(value is None for value in values.values()):
        return None
    entries, begins = _entries(values["map"], name), b""
    if "under" in values:
        under = text_of(values["under"], name)
        if entries and all(_is_map(inner) for inner in entries.values() if inner is not None):
            entries = _entries(_by_text(entries, name).get(under) or {}, name)
        else:
            begins = under + entry["separator"].encode()
    if "keys" not in values:
        return {key: value for key, value in entries.items() if text_of(key, name).startswith(begins)}
    by_text, keys = _by_text(entries, name), values["keys"]
    are_lists = isinstance(keys, list | tuple)
    found = [
        None if key is None else by_text.get(begins + text_of(key, name)) for key in (keys if are_lists else [keys])
    ]
    if entry["reduce"] is not None:
        return _reduced(found, entry["reduce"], name)
    return found if are_lists else found[0]


def _overlap(name: str, entry: Mapping[str, Any], values: Values) -> Any:
    if values["of"] is None or values["with"] is None:
        return None
    codes: dict[bytes, int] = {}

    def numbers(value: Any) -> Integers:
        items = value if isinstance(value, list | tuple) else [value]
        texts = [None if item is None else text_of(item, name) for item in items]
        return np.array([-1 if text is None else codes.setdefault(text, len(codes)) for text in texts], np.int64)

    one, other = numbers(values["of"]), numbers(values["with"])
    return _single(overlap(one, _size(one), other, _size(other), entry["as"]), entry["as"])


def _dot(name: str, entry: Mapping[str, Any], values: Values) -> Any:
    if values["of"] is None or values["with"] is None:
        return None
    (one, known), (other, others_known) = (_doubles(values[key], name) for key in ("of", "with"))
    if len(one) != len(other):
        raise InputError(
            f"features.{name}: found {len(one)} numbers in {entry['of']} and {len(other)} numbers in {entry['with']}, expected "
            "two vectors of one length."
        )
    if not (known.all() and others_known.all()):
        return None
    return _single(product(one, other, _size(one), entry["as"]), entry["as"])


_MADE = {"lookup": _lookup, "overlap": _overlap, "dot": _dot}


def _reduced(values: Sequence[Any], how: str, name: str) -> Any:
    if how == "count":
        values = [None if value is None else 1.0 for value in values]
    numbers, known = _doubles(values, name)
    return _single(reduced(numbers, known, _size(numbers), how), how)


def _single(numbers: Numbers, how: str) -> float | int | None:
    """Return the number of the only row."""
    number, known = numbers[0][0], numbers[1][0]
    return None if not known else int(number) if how in ("count", "any") else float(number)


def _size(values: Doubles | Integers) -> Integers:
    return np.array([len(values)], np.int64)


def _doubles(values: Any, name: str) -> tuple[Doubles, Flags]:
    """Return numbers, with 0 for null, and which are not null."""
    try:
        known = np.array([value is not None for value in values], np.bool_)
        return np.array([0.0 if value is None else float(value) for value in values], np.float64), known
    except (TypeError, ValueError):
        raise InputError(f"features.{name}: found {values!r}, expected a list of numbers.") from None


def _by_text(entries: Mapping[Any, Any], name: str) -> dict[bytes, Any]:
    return {text_of(key, name): value for key, value in entries.items()}


def _is_map(value: Any) -> bool:
    return isinstance(value, Mapping) or (isinstance(value, list) and all(isinstance(one, Mapping) for one in value))


def _entries(value: Any, name: str) -> Mapping[Any, Any]:
    """Return a map, which may be given as a list of structs with a key and a value."""
    if isinstance(value, Mapping):
        return value
    try:
        pairs = [tuple(one.values()) if isinstance(one, Mapping) else one for one in value if one is not None]
        return {key: value for key, value in pairs if key is not None}
    except (TypeError, ValueError):
        raise InputError(
            f"features.{name}: found {value!r}, expected a map as a dict, or a list of structs with a key and a value."
        ) from None
