"""What a column may become in a sample, with the reason; or why nothing is made of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ctr_samples.starter import words as w
from ctr_samples.starter.tables import Column
from ctr_samples.starter.text import is_decimal_comma

_FEW = 32
"""Up to this many whole numbers are taken for categories."""

_BETWEEN = ("|", ";", ",", " ")


@dataclass(frozen=True, slots=True)
class Feature:
    """How a column becomes a feature: its expression, in which ``{}`` stands for the column, and the keys besides."""

    expr: str
    keys: dict[str, Any]
    why: str


def feature_of(column: Column, *, is_key: bool = False) -> Feature | str:
    """The feature, or the reason why there is none."""
    if not column.present:
        return "it has no value in the sample"
    if len(column.distinct) == 1 and not is_key:
        return f"it has one value only ({str(column.present[0])[:30]})"
    if column.is_list:
        return _list(column)
    if column.kind == "BOOLEAN":
        return Feature("{}", {"dtype": "int64"}, "true or false")
    if column.is_text and not is_key:
        return _text(column)
    if is_key or _is_category(column):
        return _ids(column, "{}")
    if column.is_number:
        low, high = min(column.present), max(column.present)
        return Feature("{}", {"dtype": "float32"}, f"a number, {low:g} to {high:g}")
    return f"a {column.kind.split('<')[0]} needs a feature of your own"


def _is_category(column: Column) -> bool:
    if column.kind != "BIGINT":
        return False
    return bool(w.words(column) & w.CATEGORY) or (column.named and len(column.distinct) <= _FEW)


def _ids(column: Column, expr: str, distinct: int | None = None) -> Feature:
    count = len(column.distinct) if distinct is None else distinct
    return Feature(
        expr, {"dtype": "int64", "hash_buckets": buckets_for(count)}, f"{count:,} different values in the sample"
    )


def buckets_for(count: int) -> int:
    """A power of two with room for four times as many values."""
    return min(1 << 20, max(16, 1 << (4 * count - 1).bit_length()))


def _text(column: Column) -> Feature | str:
    texts = [str(value) for value in column.present]
    if is_decimal_comma(column):
        return Feature(
            "try_cast(replace({}, ',', '.') as double)", {"dtype": "float32"}, "numbers with a decimal comma"
        )
    separator, tokens = _separator(texts)
    if separator is not None:
        pattern = "[|]" if separator == "|" else separator
        split = f"filter(split({{}}, '{pattern}'), one -> one <> '')"
        ids = _ids(column, split, tokens)
        return Feature(
            split, {**ids.keys, "ragged": True}, f"lists such as {texts[0][:30]!r}; {tokens:,} different items"
        )
    if sum(map(len, texts)) > 40 * len(texts):
        return "it is free text"
    if len(column.distinct) == len(texts) and len(texts) > _FEW:
        return "it is different in each row"
    return _ids(column, "{}")


def _separator(texts: Sequence[str]) -> tuple[str | None, int]:
    """What separates the items of a list, and how many different ones there are."""
    whole = len(set(texts))
    for separator in _BETWEEN:
        lists = [text.split(separator) for text in texts if separator in text]
        tokens = {token for text in texts for token in text.split(separator) if token}
        # In a list, items come back in other company; in a sentence, words are many.
        if (
            len(lists) >= 0.3 * len(texts)
            and len(tokens) < 0.7 * whole
            and all(re.fullmatch(r"[\w.&-]+", t) for t in tokens)
        ):
            return separator, len(tokens)
    return None, 0


def _list(column: Column) -> Feature | str:
    inner = column.kind.removeprefix("ARRAY<").removesuffix(">")
    if inner not in ("BIGINT", "DOUBLE", "STRING", "BOOLEAN") or any(None in value for value in column.present):
        return f"a {column.kind} needs a feature of your own"
    lengths = {len(value) for value in column.present}
    if inner == "DOUBLE" and len(lengths) == 1:
        length = lengths.pop()
        return Feature("{}", {"dtype": "float32", "shape": [length]}, f"always {length} numbers")
    if inner == "DOUBLE":
        return Feature("{}", {"dtype": "float32", "ragged": True}, f"{min(lengths)} to {max(lengths)} numbers")
    tokens = {token for value in column.present for token in value}
    if not tokens:
        return "its lists are empty in the sample"
    return Feature(
        "{}", {**_ids(column, "{}", len(tokens)).keys, "ragged": True}, f"lists of {len(tokens):,} different items"
    )


def numbered(columns: Sequence[Column]) -> dict[str, list[Column]]:
    """Columns of numbers that are called alike but for a number, such as ``affinity_0`` to ``affinity_79``: a vector each."""
    groups: dict[str, list[tuple[int, Column]]] = {}
    for column in columns:
        match = re.fullmatch(r"(.*?)[_-]?(\d+)", column.name)
        if match and column.named and column.is_number and len(column.present) == len(column.values):
            groups.setdefault(match[1], []).append((int(match[2]), column))
    found = {name: sorted(group, key=lambda one: one[0]) for name, group in groups.items() if len(group) >= 8}
    return {name: [column for _, column in group] for name, group in found.items()}
