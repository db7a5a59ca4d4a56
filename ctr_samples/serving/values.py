"""Convert a feature's source value to the values in the record, as ctr_samples.samples.features does with columns."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from ctr_samples.errors import InputError
from ctr_samples.serving.declared import Declared, path_of
from ctr_samples.serving.feature_inputs import Get, Rows, number_of, plain_list, source_of
from ctr_samples.serving.hashing import bucket_of, encoded, prefix_of, text_of
from ctr_samples.vocabulary import FIRST_OOV, MISSING, NOTHING_FITTED, FittedState, FittedVocabulary

Change = Callable[[Any], Any]


def feature_of(
    feature: Declared,
    config: Mapping[str, Any],
    state: FittedState | None,
    missing_id: int | None = None,
    *,
    of_list: bool = False,
) -> Get:
    """Return a function that maps rows to a feature's value: a single value, a list, or None if the record omits it.

    ``missing_id`` is the contract's id of a missing hashed value. ``of_list`` marks a multi-hot feature whose column is
    a list, which its declaration does not state.
    """
    fitted = state or NOTHING_FITTED
    makes_ids = feature.kind.takes == "values"
    # Like the job: ids always fill their shape, tokens that a model looks up never do.
    pads = (
        feature.computed == "sample"
        if makes_ids
        else feature.pad or feature.top_k is not None or _of_history(feature, config)
    )
    of_list = of_list or feature.top_k is not None or feature.part == "keys" or _of_history(feature, config)
    change = _ids(feature, fitted, missing_id, of_list) if makes_ids else _values(feature, fitted)
    finish = _finished(feature, pads)
    if feature.bias is not None:
        constant = finish(change(feature.bias))  # what the job would make of what serving does not know
        return lambda _: constant

    get = _tokens(source_of(feature, config)) if feature.vocabulary is not None else source_of(feature, config)
    optional = feature.nulls != "default"
    if feature.is_list or feature.multi_hot:
        return lambda rows: None if (value := get(rows)) is None and optional else finish(change(plain_list(value)))
    return lambda rows: None if (value := get(rows)) is None and optional else finish(change(value))


def _tokens(get: Get) -> Get:
    """Treat empty text as missing. The lookup handles empty text inside lists."""

    def token(rows: Rows) -> Any:
        value = get(rows)
        return None if isinstance(value, str | bytes) and not value else value

    return token


def crossed(feature: Declared, made: Mapping[str, Any]) -> int:
    """Return the id of a combination of previously computed values."""
    parts = [text_of(made[other], feature.name) for other in feature.cross]
    return bucket_of(prefix_of(feature.salt or feature.name), parts, feature.kind.ids(feature, {}))


def _of_history(feature: Declared, config: Mapping[str, Any]) -> bool:
    path = path_of(feature.from_)
    return bool(path and path[0] in config.get("histories", {}))


def _each(change: Change) -> Change:
    """Apply the change to every item of a list, at any depth. A missing list stays missing."""

    def changed(value: Any) -> Any:
        return None if value is None else [go(item) for item in value]

    def go(item: Any) -> Any:
        kind = type(item)
        return [go(inner) for inner in item] if kind is list or kind is tuple else change(item)

    return changed


def _ids(feature: Declared, state: FittedState, missing_id: int | None, of_list: bool) -> Change:
    name = feature.name
    if feature.computed == "model":
        text: Change = lambda value: b"" if value is None else text_of(value, name)  # noqa: E731
        return _each(text) if feature.is_list else lambda value: None if value is None else text(value)
    if feature.hash_buckets is not None:
        prefix, buckets = prefix_of(feature.salt or name), feature.hash_buckets
        # In a list 0 is padding.
        item: Change = lambda value: bucket_of(prefix, [text_of(value, name)], buckets - 1) + 1  # noqa: E731
        single: Change = lambda value: missing_id if value is None else item(value)  # noqa: E731
        if missing_id is None:  # earlier releases hashed missing values too
            single = lambda value: bucket_of(prefix, [text_of(value, name)], buckets)  # noqa: E731
    elif feature.vocabulary is not None:
        vocabulary = state.vocabularies[feature.vocabulary]
        buckets = vocabulary.buckets
        single = item = _lookup(vocabulary, feature.vocabulary, name)
    if feature.multi_hot:
        return _multi_hot(_each(item) if of_list else lambda value: [single(value)], buckets, feature, of_list)
    return _each(item) if feature.is_list else single


def _lookup(vocabulary: FittedVocabulary, vocabulary_name: str, name: str) -> Change:
    ids = {token.encode(): vocabulary.first_id + number for number, token in enumerate(vocabulary.tokens)}
    prefix, buckets = prefix_of(f"oov {vocabulary_name}"), vocabulary.oov_buckets

    def lookup(value: Any) -> int:
        if value is None or value == "":
            return MISSING
        token = text_of(value, name)
        known_id = ids.get(token)
        return FIRST_OOV + bucket_of(prefix, [token], buckets) if known_id is None else known_id

    return lookup


def _multi_hot(ids_of: Change, buckets: int, feature: Declared, of_list: bool) -> Change:
    zero, hot = (0.0, 1.0) if feature.dtype == "float32" else (0, 1)

    def vector(value: Any) -> list[Any]:
        if value is not None and isinstance(value, list | tuple) != of_list:
            raise InputError(
                f"features.{feature.name}: found {value!r}, but the assembler expects "
                f"{'a list' if of_list else 'a single value'}; "
                + ("remove its name from `lists`." if of_list else f"create it with `lists={{{feature.name!r}}}`.")
            )
        numbers: list[Any] = [zero] * buckets
        for hot_id in ids_of(value) or ():
            numbers[hot_id] = hot
        return numbers

    return vector


def _values(feature: Declared, state: FittedState) -> Change:
    """Convert numbers, text and bytes to the type in the record."""
    name = feature.name
    if feature.dtype in ("string", "bytes"):
        return _filled(_texts(feature), feature)
    if feature.dtype == "int64" and not feature.bucketises:
        return _unchanged if feature.is_list and feature.fill is None else _filled(_whole(feature), feature)
    steps = [] if feature.computed == "model" else _before_scaling(feature)
    if feature.is_list and not (steps or feature.bucketises or feature.scale or feature.fill is not None):
        return _unchanged  # the writer rejects non-numbers
    makes_ids = feature.bucketises and feature.computed != "model"
    boundaries = (feature.boundaries or state.boundaries[name]) if makes_ids else None
    missing: Any = 0 if boundaries is not None else math.nan if feature.bucketises and feature.is_list else None

    def number(value: Any) -> Any:
        if value is None:
            return missing
        x = number_of(value, name)
        if x == x:  # noqa: PLR0124 - NaN stays NaN
            for step in steps:
                x = step(x)
        if boundaries is None:
            return x
        return 0 if x != x else bisect_right(boundaries, x) + 1  # noqa: PLR0124

    change = _filled(number, feature)
    if feature.scale is None or feature.computed == "model":
        return change
    return _scaled(change, *state.moments[name].shift_and_scale(feature.scale), feature)


def _unchanged(value: Any) -> Any:
    return value


def _before_scaling(feature: Declared) -> list[Callable[[float], float]]:
    steps: list[Callable[[float], float]] = []
    if feature.clip is not None:
        low, high = float(feature.clip[0]), float(feature.clip[1])
        steps.append(lambda x: low if x < low else high if x > high else x)
    if feature.log1p:
        steps.append(lambda x: _log1p(x, feature.name))
    return steps


def _log1p(x: float, name: str) -> float:
    if x <= -1:
        raise InputError(f"features.{name}: found {x}, expected a number above -1 for `log1p`; set `clip: [0, ...]`.")
    return math.log1p(x)


def _scaled(change: Change, shift: Sequence[float], scale: Sequence[float], feature: Declared) -> Change:
    if not feature.is_list:
        return lambda value: _moved(change(value), shift[0], scale[0])
    moved = _each(lambda x: _moved(x, shift[0], scale[0]))

    def places(value: Any) -> Any:
        numbers = change(value)
        if numbers is None:
            return None
        if len(shift) == 1:
            return moved(numbers)
        # Items beyond the shape are cut off later, or refused.
        moments = zip_longest(numbers, shift[: len(numbers)], scale[: len(numbers)])
        return [None if s is None else _moved(x, s, d) for x, s, d in moments]

    return places


def _moved(x: float | None, shift: float, scale: float) -> float | None:
    return None if x is None else (x - shift) / scale


def _whole(feature: Declared) -> Change:
    def whole(value: Any) -> Any:
        if value is None or type(value) is int:
            return value
        if isinstance(value, bool) or hasattr(value, "__index__"):
            return int(value)
        raise InputError(
            f"features.{feature.name}: found {value!r}, expected an integer or boolean for `dtype: int64`."
        )

    return whole


def _texts(feature: Declared) -> Change:
    def text(value: Any) -> Any:
        if value is None or isinstance(value, bytes):
            return value
        if isinstance(value, str):
            return encoded(value, feature.name)
        if isinstance(value, bytearray | memoryview):
            return bytes(value)
        raise InputError(
            f"features.{feature.name}: found {value!r}, expected text or binary for `dtype: {feature.dtype}`."
        )

    return text


def _filled(change: Change, feature: Declared) -> Change:
    """Apply the change to a value, or to all items of a list. `fill` replaces missing items."""
    if feature.fill is not None:
        fill = feature.fill.encode() if isinstance(feature.fill, str) else feature.fill
        before = change

        def change(item: Any) -> Any:
            made = before(item)
            return fill if made is None else made

    return _each(change) if feature.is_list else change


def _finished(feature: Declared, pads: bool) -> Change:
    """Pad to the shape, and replace a missing value with the default."""
    default: Any = feature.default_value
    default = default.encode() if isinstance(default, str) else default
    if feature.dtype == "float32" and not isinstance(default, bytes):
        default = float(default)
    if feature.multi_hot:
        return _unchanged
    missing: Any = [] if feature.ragged else [default] * feature.size if feature.shape else default

    def finish(value: Any) -> Any:
        if value is None:
            return missing
        return _fitted(value, feature, default) if pads and feature.shape else value

    return finish


def _fitted(value: list[Any], feature: Declared, default: Any) -> list[Any]:
    """Cut a list, or pad it at the end. Changes only the outermost level of nested lists."""
    size = feature.size
    if len(feature.shape) > 1 and value and isinstance(value[0], list | tuple):
        size = feature.shape[0]
        default = [default] * (feature.size // size)
    return [*value[:size], *[default] * (size - len(value))]
