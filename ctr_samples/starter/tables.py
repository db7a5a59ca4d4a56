"""A sample of an input as named columns: JSON lines, CSV, Parquet, ORC, or a table of the catalog."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
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
        return time_of(self.name, self.expr, self.kind, self.present, named=self.named)

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
        return Column(self.name, self.expr, self.kind, [self.values[row] for row in rows], self.named)


def name_of(path: Sequence[str]) -> str:
    """What a field is called: ``user_id`` for the ``id`` of a struct ``user``, else the field's own name."""
    own = path[-1]
    return f"{path[-2]}_{own}" if len(path) > 1 and own.lower() in ("id", "key", "name", "code") else own


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

    def find(self, test: Callable[[Column], bool]) -> Column | None:
        """The first column that passes a test."""
        return next((column for column in self.columns if test(column)), None)
