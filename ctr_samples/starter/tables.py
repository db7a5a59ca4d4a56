"""The sampled columns of an input: JSON lines, CSV, Parquet, ORC, or a catalog table."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import cached_property
from itertools import chain, count
from typing import Any

import pyarrow as pa

from ctr_samples.starter.times import Time, time_of

_YEAR_AND_CLOCK = re.compile(r"(?=.*(?<!\d)(19|20)\d\d(?!\d))(?:\D*\d+){4}")
"""A year among at least four numbers, as of a day and a time."""


def is_there(value: Any) -> bool:
    """Whether a value is present: not null, empty text or NaN."""
    return not (value is None or value == "" or (isinstance(value, float) and math.isnan(value)))


@dataclass(frozen=True)
class Column:
    """A column or struct field with its sampled values. Missing values are None.

    ``expr`` is its SQL name, ``kind`` is its type as in ``CREATE TABLE``. ``named`` is False for a generated name.
    """

    name: str
    expr: str
    kind: str
    values: list[Any] = field(repr=False)
    named: bool = True
    title: str = ""
    """Name in the header line, if it is not a valid SQL name."""
    read: str = "{}"
    """SQL that reads the sampled values from those of the input, with ``{}`` in place of the name."""
    said: str = ""
    """What is read, in words, if the input has something else."""

    @property
    def called(self) -> str:
        """Display name of the column."""
        return self.title or self.name

    def sql(self, of: str = "") -> str:
        """Return the SQL expression of the values. ``of`` is a view with a dot, or empty."""
        return self.read.replace("{}", f"{of}{self.expr}")

    @cached_property
    def present(self) -> list[Any]:
        """Non-missing values."""
        return [value for value in self.values if is_there(value)]

    @cached_property
    def distinct(self) -> set[Any]:
        """Distinct values, with lists and maps as text."""
        return {value if isinstance(value, str | int | float | bool) else str(value) for value in self.present}

    @cached_property
    def time(self) -> Time | None:
        """The timestamp format of the column, or None if it does not hold times."""
        return time_of(self.name, self.expr, self.kind, self.present, named=self.named or bool(self.title))

    @cached_property
    def instants(self) -> list[datetime | None]:
        """The values as datetimes, in UTC or in the written time zone. None for values that are not times."""
        time = self.time
        if time is None:
            return [None] * len(self.values)
        known = {value: time.read(value) for value in set(self.present)}
        return [known.get(value) if is_there(value) else None for value in self.values]

    @cached_property
    def is_whole(self) -> bool:
        """Whether the column holds integers, even if written as 1.0."""
        return self.kind in ("BIGINT", "DECIMAL(20,0)") or (
            self.kind == "DOUBLE" and bool(self.present) and all(value == int(value) for value in self.distinct)
        )

    @cached_property
    def texts(self) -> list[str | None]:
        """The values as key texts, comparable between inputs. Missing values are None."""
        whole = self.kind == "DOUBLE" and self.is_whole
        return [None if not is_there(v) else str(int(v)) if whole else str(v) for v in self.values]

    @cached_property
    def keys(self) -> frozenset[str]:
        """Distinct key texts."""
        return frozenset(text for text in self.texts if text is not None)

    @cached_property
    def seems_a_time(self) -> bool:
        """Whether texts have a year and a clock, in a form that nobody reads here."""
        if not self.is_text or not self.present or self.time is not None:
            return False
        return all(_YEAR_AND_CLOCK.search(str(value)) for value in self.present[:500])

    @property
    def may_be_key(self) -> bool:
        """Whether the column may hold ids: short text or integers, but not times."""
        if not self.present or self.time is not None or self.read != "{}":
            return False
        return self.is_whole or (self.is_text and max(len(str(one)) for one in self.present[:500]) <= 64)

    @property
    def is_number(self) -> bool:
        """Whether the Spark type is numeric."""
        return self.kind in ("BIGINT", "INT", "SMALLINT", "TINYINT", "DOUBLE", "FLOAT") or self.kind.startswith(
            "DECIMAL"
        )

    @property
    def is_text(self) -> bool:
        """Whether the Spark type is text."""
        return self.kind == "STRING"

    @property
    def is_list(self) -> bool:
        """Whether the Spark type is an array."""
        return self.kind.startswith("ARRAY")

    def of(self, rows: list[int]) -> Column:
        """Return the column restricted to the given rows."""
        return replace(self, values=[self.values[row] for row in rows])


def name_of(path: Sequence[str]) -> str:
    """Return the name of a struct field, such as ``user_id`` for the field ``id`` of a struct ``user``."""
    own = path[-1]
    return f"{path[-2]}_{own}" if len(path) > 1 and own.lower() in ("id", "key", "name", "code") else own


def optional(path: Sequence[str], values: Sequence[Any]) -> Iterator[Column]:
    """Yield whether a struct is there, if some rows lack it."""
    there = [value is not None for value in values]
    if len(set(there)) == 2:
        yield Column(name_of(path), f"{'.'.join(map(quoted, path))} is not null", "BOOLEAN", there)


def plain_name(name: str) -> str:
    """Reduce a name to valid SQL characters, without a type as in ``user:token``. Empty if too little remains."""
    if re.fullmatch(r"[A-Za-z_]([\w -]*\w)?", name, re.ASCII):
        return name
    said = re.sub(r":(token|float)(_seq)?$", "", name)
    letters = unicodedata.normalize("NFKD", said.replace("ß", "ss")).encode("ascii", "ignore").decode()
    if sum(map(str.isalnum, letters)) < 0.5 * sum(map(str.isalnum, said)):
        return ""
    plain = re.sub(r"\W+", "_", letters).strip("_") if re.search(r"\W", letters) else letters
    return f"c_{plain}" if plain[:1].isdigit() else plain


def unused(name: str, taken: Collection[str]) -> str:
    """Return a name, with a number if it is taken. ``taken`` has names in lower case."""
    numbered = (f"{name}_{number}" for number in count(2))
    return next(one for one in chain([name], numbered) if one.lower() not in taken)


def quoted(name: str) -> str:
    """Quote a column name for SQL."""
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else "`" + name.replace("`", "``") + "`"


def sql_text(text: str) -> str:
    """Quote a text for SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


@dataclass(frozen=True)
class Table:
    """An input with its name in the configuration and a sample of its rows."""

    name: str
    options: Mapping[str, tuple[Any, str]]
    """Keys under ``sources.<name>``, each with its reason."""
    columns: list[Column]
    rows: int
    bytes: int
    days: tuple[date, ...] = ()
    dated: bool = False
    day_column: str | None = None
    todo: tuple[str, ...] = ()
    """Open questions about the input."""
    row_days: tuple[date | None, ...] = ()
    """Day of each row, from the path of its file."""
    where: str = ""
    """Row filter, if the files also contain other lines."""
    element: str | None = None
    """The list of structs of which each element is a row, or None if a row is one."""

    def only(self, columns: Iterable[Column]) -> Table:
        """Return the table with some of its columns."""
        return replace(self, columns=list(columns))

    def find(self, test: Callable[[Column], bool]) -> Column | None:
        """Return the first column that passes a test."""
        return next((column for column in self.columns if test(column)), None)


_ELEMENT = "shown"
"""Name of the column with an element of a list."""
_MOST_ROWS = 5000


def unfolded(table: Table) -> Iterator[Table]:
    """Yield the table with the elements of each list of structs as its rows, of at most 5,000 of its rows."""
    for lists in table.columns:
        if "STRUCT" not in lists.kind or not lists.is_list:
            continue
        places = [
            (row, place, element)
            for row, elements in enumerate(lists.values[:_MOST_ROWS])
            for place, element in enumerate(elements or ())
            if element is not None
        ]
        own = [
            replace(column, values=[column.values[row] for row, *_ in places])
            for column in table.columns
            if column is not lists
        ]
        fields = dict.fromkeys(name for *_, element in places for name in element)
        own += [_field(name, [element.get(name) for *_, element in places]) for name in fields]
        own.append(Column(f"{_ELEMENT}_position", f"{_ELEMENT}_position", "BIGINT", [place for _, place, _ in places]))
        days = tuple(table.row_days[row] for row, *_ in places) if table.row_days else ()
        why = f"each element of {lists.called} becomes a row"
        options = {**table.options, "explode": ({_ELEMENT: lists.expr}, why)}
        yield replace(table, options=options, columns=own, rows=len(places), row_days=days, element=lists.called)


def _field(name: str, values: list[Any]) -> Column:
    try:
        kind = ddl(pa.infer_type([value for value in values if value is not None]))
    except pa.ArrowInvalid:
        kind = "BINARY"  # of several types
    return Column(name_of((name,)), f"{_ELEMENT}.{quoted(name)}", kind, values)


def columns_of(data: pa.Table) -> list[Column]:
    """Return the columns of an Arrow table. Structs are split into their fields."""
    return list(fields_of(pa.struct(data.schema), data.to_pylist()))


def fields_of(kind: pa.StructType, rows: Sequence[Any], path: tuple[str, ...] = ()) -> Iterator[Column]:
    """Yield the fields of a struct, and of the structs within it, as columns."""
    for part in kind:
        values = [None if row is None else row.get(part.name) for row in rows]
        here = (*path, part.name)
        if pa.types.is_struct(part.type):
            yield from fields_of(part.type, values, here)
            yield from optional(here, values)
        else:
            yield Column(name_of(here), ".".join(map(quoted, here)), ddl(part.type), values)


def ddl(kind: pa.DataType) -> str:
    """Return the name of an Arrow type in Spark's SQL."""
    types = pa.types
    if types.is_dictionary(kind):
        return ddl(kind.value_type)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return f"ARRAY<{ddl(kind.value_type)}>"
    if types.is_map(kind):
        return f"MAP<{ddl(kind.key_type)}, {ddl(kind.item_type)}>"
    if types.is_struct(kind):
        return "STRUCT<" + ", ".join(f"{quoted(part.name)}: {ddl(part.type)}" for part in kind) + ">"
    if types.is_uint64(kind):
        return "DECIMAL(20,0)"
    if types.is_integer(kind):
        return "BIGINT"
    if types.is_floating(kind):
        return "DOUBLE"
    if types.is_boolean(kind):
        return "BOOLEAN"
    if types.is_timestamp(kind):
        return "TIMESTAMP" if kind.tz else "TIMESTAMP_NTZ"
    if types.is_date(kind):
        return "DATE"
    if types.is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return "BINARY"
    return "STRING"
