"""A sample of an input as named columns: JSON lines, CSV, Parquet, ORC, or a table of the catalog."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cached_property
from typing import Any

from ctr_samples.starter.times import Time, time_of


def is_there(value: Any) -> bool:
    """Whether a value is one: no null, no empty text, no NaN."""
    return not (value is None or value == "" or (isinstance(value, float) and math.isnan(value)))


@dataclass(frozen=True)
class Column:
    """A column, or a field of a struct, with the values of the sample; None where a row has none.

    ``expr`` is how SQL names it, ``kind`` its type as in ``CREATE TABLE``. ``named`` is False where the name was made up.
    """

    name: str
    expr: str
    kind: str
    values: list[Any] = field(repr=False)
    named: bool = True
    title: str = ""
    """What the first line of a file calls it, where that is no name for SQL."""

    @property
    def called(self) -> str:
        """What a person knows it by."""
        return self.title or self.name

    @cached_property
    def present(self) -> list[Any]:
        """The values that are there."""
        return [value for value in self.values if is_there(value)]

    @cached_property
    def distinct(self) -> set[Any]:
        """The different values, as text where they are no single values."""
        return {value if isinstance(value, str | int | float | bool) else str(value) for value in self.present}

    @cached_property
    def time(self) -> Time | None:
        """How it is read as a time, if it is one."""
        return time_of(self.name, self.expr, self.kind, self.present, named=self.named or bool(self.title))

    @cached_property
    def instants(self) -> list[datetime | None]:
        """Each value as a time, in UTC or as it is written; None where it is none."""
        time = self.time
        if time is None:
            return [None] * len(self.values)
        known = {value: time.read(value) for value in set(self.present)}
        return [known.get(value) if is_there(value) else None for value in self.values]

    @cached_property
    def is_whole(self) -> bool:
        """Whether it holds whole numbers, if also written as 1.0."""
        return self.kind in ("BIGINT", "DECIMAL(20,0)") or (
            self.kind == "DOUBLE" and bool(self.present) and all(value == int(value) for value in self.distinct)
        )

    @cached_property
    def texts(self) -> list[str | None]:
        """Each value as the text of a key, so that those of two inputs compare; None where there is none."""
        whole = self.kind == "DOUBLE" and self.is_whole
        return [None if not is_there(v) else str(int(v)) if whole else str(v) for v in self.values]

    @cached_property
    def keys(self) -> frozenset[str]:
        """The different values as texts of keys."""
        return frozenset(text for text in self.texts if text is not None)

    @property
    def may_be_key(self) -> bool:
        """Whether it may name things: text that is short, or whole numbers, and no times."""
        if not self.present or self.time is not None:
            return False
        return self.is_whole or (self.is_text and max(len(str(one)) for one in self.present[:500]) <= 64)

    @property
    def is_number(self) -> bool:
        """Whether Spark sees numbers in it."""
        return self.kind in ("BIGINT", "INT", "SMALLINT", "TINYINT", "DOUBLE", "FLOAT") or self.kind.startswith(
            "DECIMAL"
        )

    @property
    def is_text(self) -> bool:
        """Whether Spark sees text in it."""
        return self.kind == "STRING"

    @property
    def is_list(self) -> bool:
        """Whether Spark sees lists in it."""
        return self.kind.startswith("ARRAY")

    def of(self, rows: list[int]) -> Column:
        """The same column of some rows only."""
        return Column(self.name, self.expr, self.kind, [self.values[row] for row in rows], self.named, self.title)


def name_of(path: Sequence[str]) -> str:
    """What a field is called: ``user_id`` for the ``id`` of a struct ``user``, else the field's own name."""
    own = path[-1]
    return f"{path[-2]}_{own}" if len(path) > 1 and own.lower() in ("id", "key", "name", "code") else own


def plain_name(name: str) -> str:
    """A name in the letters of SQL, without a type as in ``user:token``; empty where too little of it is left."""
    if re.fullmatch(r"[A-Za-z_]([\w -]*\w)?", name, re.ASCII):
        return name
    said = re.sub(r":(token|float)(_seq)?$", "", name)
    letters = unicodedata.normalize("NFKD", said.replace("ß", "ss")).encode("ascii", "ignore").decode()
    if sum(map(str.isalnum, letters)) < 0.5 * sum(map(str.isalnum, said)):
        return ""
    plain = re.sub(r"\W+", "_", letters).strip("_") if re.search(r"\W", letters) else letters
    return f"c_{plain}" if plain[:1].isdigit() else plain


def quoted(name: str) -> str:
    """A column's name as SQL writes it."""
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else "`" + name.replace("`", "``") + "`"


def sql_text(text: str) -> str:
    """A text as SQL writes it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


@dataclass(frozen=True)
class Table:
    """An input as the configuration names it, with a sample of its rows."""

    name: str
    options: Mapping[str, tuple[Any, str]]
    """The keys under ``sources.<name>``, each with its reason."""
    columns: list[Column]
    rows: int
    bytes: int
    days: tuple[date, ...] = ()
    dated: bool = False
    day_column: str | None = None
    todo: tuple[str, ...] = ()
    """What could not be known of it."""
    row_days: tuple[date | None, ...] = ()
    """Of each row: the day that the path of its file names."""
    where: str = ""
    """Which lines are rows, where others lie between them."""

    def find(self, test: Callable[[Column], bool]) -> Column | None:
        """The first column that passes a test."""
        return next((column for column in self.columns if test(column)), None)
