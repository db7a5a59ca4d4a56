"""Choose a feature for each column, or give a reason to omit it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from ctr_samples.serving.hashing import bucket_of, prefix_of
from ctr_samples.starter import words as w
from ctr_samples.starter.entries import Entry
from ctr_samples.starter.tables import Column

_FEW = 32
"""Maximum number of distinct integers in a categorical column."""

_MOST_BUCKETS = 1 << 20
_BETWEEN = ("|", ";", ",", " ")


@dataclass(frozen=True, slots=True)
class FeatureTemplate:
    """A feature of a column: an expression with ``{}`` in place of the column, and further keys."""

    expr: str
    keys: dict[str, Any]
    why: str
    values: frozenset[str] = frozenset()
    """Sampled values of a hashed feature, as text."""

    def entry(self, name: str, source: str, of: str) -> Entry:
        """Return the feature as an entry. ``source`` is the configuration key for its origin, such as ``from``."""
        if not self.values:
            return Entry(name, {source: of, **self.keys}, self.why)
        buckets, shared = _buckets_for(name, self.values)
        said = f"; {shared:,} of them share their id with another" if shared else ""
        return Entry(name, {source: of, **self.keys, "hash_buckets": buckets}, self.why + said)


def feature_of(column: Column, *, is_key: bool = False, known: Collection[str] = ()) -> FeatureTemplate | str:
    """Return the feature, or a reason to omit the column. ``known`` item ids help to recognize lists of items."""
    if not column.present:
        return "it has no value in the sample"
    if column.time is not None or column.seems_a_time:
        return "it is a time"
    if len(column.distinct) == 1 and not is_key:
        return f"it has one value only ({str(column.present[0])[:30]})"
    if column.is_list:
        return _list(column)
    if column.kind == "BOOLEAN":
        return FeatureTemplate("{}", {"dtype": "int64"}, "true or false")
    if column.is_text and not is_key:
        return _text(column, known)
    if is_key or _is_category(column):
        if not is_key and len(column.keys) == len(column.values) > _FEW:
            return "it is different in each row"
        return ids_of(column.keys)
    if column.is_number and column.kind != "DECIMAL(20,0)":
        low, high = min(column.present), max(column.present)
        return FeatureTemplate("{}", {"dtype": "float32"}, f"{column.said or 'a number'}, {low:g} to {high:g}")
    return f"a {column.kind.split('<')[0]} needs a feature of your own"


def _is_category(column: Column) -> bool:
    if not column.is_whole or column.kind == "DECIMAL(20,0)":
        return column.is_whole
    named = w.words(column) & w.CATEGORY or w.names_key(column, w.USER | w.ITEM | w.REQUEST) or w.ends_as_key(column)
    few = column.named and len(column.distinct) <= _FEW
    return bool(named) or few


def ids_of(values: Collection[str], expr: str = "{}", what: str = "different values", **keys: Any) -> FeatureTemplate:
    """Return a feature of hashed ids for the values."""
    return FeatureTemplate(expr, {"dtype": "int64", **keys}, f"{len(values):,} {what} in the sample", frozenset(values))


def _buckets_for(name: str, values: Collection[str]) -> tuple[int, int]:
    """Return a number of buckets, a power of two, and the number of values that collide.

    At most 2 % of the values collide, unless that would require too many buckets.
    """
    hashes = [bucket_of(prefix_of(name), [value.encode()], 1 << 64) for value in values]
    signed = [one - (one >> 63 << 64) for one in hashes]
    buckets = max(16, 1 << (4 * len(signed) - 1).bit_length())
    while True:
        counts = Counter(one % (buckets - 1) for one in signed).values()  # 0 is reserved for missing values and padding
        shared = sum(count for count in counts if count > 1)
        if 50 * shared <= len(signed) or buckets >= min(_MOST_BUCKETS, 256 * max(64, len(signed))):
            return buckets, shared
        buckets *= 2


def _text(column: Column, known: Collection[str]) -> FeatureTemplate | str:
    texts = [str(value) for value in column.present]
    separator, tokens = _separator(texts, known)
    if separator is not None:
        pattern = "[|]" if separator == "|" else separator
        split = f"filter(split({{}}, '{pattern}'), one -> one <> '')"
        return ids_of(tokens, split, f"different items in lists such as {texts[0][:30]!r}", ragged=True)
    if sum(map(len, texts)) > 40 * len(texts):
        return "it is free text"
    if len(column.distinct) == len(texts) and len(texts) > _FEW:
        return "it is different in each row"
    return ids_of(column.keys)


def _separator(texts: Sequence[str], known: Collection[str]) -> tuple[str | None, set[str]]:
    """Return the separator of list items, and the distinct items. ``known`` holds ids of shown items."""
    whole = len(set(texts))
    for separator in _BETWEEN:
        lists = [text.split(separator) for text in texts if separator in text]
        tokens = {token for text in texts for token in text.split(separator) if token}
        if len(lists) < 0.3 * len(texts) or not all(re.fullmatch(r"[\w.&-]+", token) for token in tokens):
            continue
        # List items recur in different combinations, unlike words in sentences. Codes and known ids are not words.
        coded = all(any(c.isdigit() for c in token) for token in tokens) and separator != "-"
        if len(tokens) < 0.7 * whole or coded or len(tokens & set(known)) > 0.5 * len(tokens):
            return separator, tokens
    return None, set()


def _list(column: Column) -> FeatureTemplate | str:
    inner = column.kind.removeprefix("ARRAY<").removesuffix(">")
    if inner not in ("BIGINT", "DOUBLE", "STRING", "BOOLEAN") or any(None in value for value in column.present):
        return f"a {column.kind} needs a feature of your own"
    lengths = {len(value) for value in column.present}
    if inner == "DOUBLE" and len(lengths) == 1:
        length = lengths.pop()
        return FeatureTemplate("{}", {"dtype": "float32", "shape": [length]}, f"always {length} numbers")
    if inner == "DOUBLE":
        return FeatureTemplate("{}", {"dtype": "float32", "ragged": True}, f"{min(lengths)} to {max(lengths)} numbers")
    tokens = {token for value in column.present for token in value}
    if not tokens:
        return "its lists are empty in the sample"
    return ids_of({str(token) for token in tokens}, what="different items of lists", ragged=True)


def numbered(columns: Sequence[Column]) -> dict[str, list[Column]]:
    """Group numeric columns that differ only in a number, such as ``affinity_0`` to ``affinity_79``, into vectors."""
    groups: dict[str, list[tuple[int, Column]]] = {}
    for column in columns:
        match = re.fullmatch(r"(.*?)[_-]?(\d+)", column.name)
        numbers = column.kind == "DOUBLE" and not column.is_whole
        if match and column.named and numbers and len(column.present) == len(column.values):
            groups.setdefault(match[1], []).append((int(match[2]), column))
    many = {name: sorted(group, key=itemgetter(0)) for name, group in groups.items() if len(group) >= 8}
    return {name: [column for _, column in group] for name, group in many.items()}
