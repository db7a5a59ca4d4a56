"""Labels in the impression row: flags and ratings, recognized by name or by their effect on other columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ctr_samples.starter import words as w
from ctr_samples.starter.links import determines
from ctr_samples.starter.outcomes import follows
from ctr_samples.starter.questions import Candidate
from ctr_samples.starter.tables import Column, sql_text

_YES = tuple(
    {yes, no}
    for yes, no in (
        ("1", "0"), ("true", "false"), ("y", "n"), ("yes", "no"), ("t", "f"), ("ja", "nein"), ("oui", "non"), ("si", "no"),
        ("sí", "no"), ("sim", "não"), ("да", "нет"), ("是", "否"),
    )
)  # fmt: skip
_TRUE = frozenset("1 true y yes t ja oui si sí sim да 是".split())
_MOST_RATINGS = 20


@dataclass(frozen=True, slots=True)
class Flag:
    """A label in the impression row."""

    column: Column
    expr: str
    rate: float
    why: str


def named_flags(columns: Sequence[Column]) -> Iterator[Flag]:
    """Yield flags with label-like names, except negations such as `not_interested`."""
    for column in columns:
        said = w.words(column)
        if (
            not said & {"not", "no", "un", "dis"}
            and (said & w.LABEL or {"long", "view"} <= said)
            and (flag := flag_of(column))
        ):
            yield flag


def flag_of(column: Column) -> Flag | None:
    """Return a two-valued column as a condition, or None if the column is not a flag."""
    texts = {_as_text(value) for value in column.distinct}
    if not texts or not any(texts <= kind for kind in _YES):
        return None
    yes = [value for value in column.present if _as_text(value) in _TRUE]
    if column.kind in ("BOOLEAN", "BIGINT"):
        expr = column.sql()
    elif column.kind == "STRING":
        written = sorted(str(value) for value in column.distinct if _as_text(value) in _TRUE)
        expr = f"{column.expr} = {sql_text(written[0] if written else '1')}"
    else:
        expr = f"{column.sql()} = 1"
    rate = len(yes) / max(1, len(column.values))
    values = ", ".join(sorted(map(str, column.distinct)))
    return Flag(column, expr, rate, f"values {values}; {rate:.2%} of the sample are positive")


def is_positive(column: Column) -> list[bool]:
    """Return a mask of the rows in which a flag is positive."""
    return [_as_text(value) in _TRUE for value in column.values]


def _as_text(value: object) -> str:
    """Convert a flag value of any type to text."""
    return str(int(value)) if isinstance(value, float) and value == int(value) else str(value).lower()


def unnamed_flags(keys: Sequence[Column], columns: Sequence[Column]) -> Iterator[Candidate]:
    """Yield the flags that no name calls a label: rows of one key differ in them, and other columns depend on them."""
    flags = [
        flag
        for column in columns
        if len(column.distinct) == 2 and len(column.present) == len(column.values) and (flag := flag_of(column))
    ]
    for flag in flags:
        positive = is_positive(flag.column)
        differs = not any(determines(key, flag.column) for key in keys)
        after = sum(follows(one, positive) is not None for one in columns if one is not flag.column)
        why = f"rows of one key {'differ in it' if differs else 'have one value'}; {flag.why}"
        yield Candidate(replace(flag, why=why), flag.column.called, why, (differs, after, flag.rate <= 0.5))


def unnamed_ratings(keys: Sequence[Column], columns: Sequence[Column]) -> Iterator[Candidate]:
    """Yield the numbers of few values in which rows of one key differ."""
    for column in columns:
        few = column.is_number and 2 < len(column.distinct) <= _MOST_RATINGS
        if few and not any(determines(key, column) for key in keys):
            why = f"a number with {len(column.distinct)} values, {min(column.present):g} to {max(column.present):g}"
            yield Candidate(column, column.called, why, (is_rating(column, named=False),))


def is_rating(column: Column, *, named: bool) -> bool:
    """Whether a column holds ratings, judged by its name or by values such as 0.5 to 5."""
    if not column.is_number or not 2 < len(column.distinct) <= _MOST_RATINGS:
        return False
    if named:
        return bool(w.words(column) & w.RATING)
    return all(0 < value <= 5 and 2 * value == int(2 * value) for value in column.distinct)
