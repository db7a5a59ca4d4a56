"""The sampled columns of an input: JSON lines, CSV, Parquet, ORC, or a catalog table."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import cached_property
from itertools import chain, count
from typing import Any

import pandas as pd
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
    def moments(self) -> pd.Series[pd.Timestamp]:
        """The values as times, in UTC or in the written time zone. NaT for values that are not times."""
        return pd.to_datetime(pd.Series(self.instants, dtype=object), errors="coerce")

    @cached_property
    def is_whole(self) -> bool:
        """Whether the column holds integers, even if written as 1.0."""
        return self.kind in ("BIGINT", "DECIMAL(20,0)") or (
            self.kind == "DOUBLE" and bool(self.present) and all(float(value).is_integer() for value in self.distinct)
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
        """Return the column restricted to the given rows, each of which is given once."""
        return self if len(rows) == len(self.values) else replace(self, values=[self.values[row] for row in rows])


def name_of(path: Sequence[str]) -> str:
    """Return the name of a struct field, such as ``user_id`` for the field ``id`` of a struct ``user``."""
    own = path[-1]
    return f"{path[-2]}_{own}" if len(path) > 1 and own.lower() in ("id", "key", "name", "code") else own


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


Options = Mapping[str, tuple[Any, str]]
"""Keys of a source, each with its value and its reason."""


@dataclass(frozen=True)
class Table:
    """An input with its name in the configuration and a sample of its rows."""

    name: str
    options: Options
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
        for name in fields:
            values = [element.get(name) for *_, element in places]
            own.append(Column(name_of((name,)), f"{_ELEMENT}.{quoted(name)}", ddl(type_of(values)), values))
        own.append(Column(f"{_ELEMENT}_position", f"{_ELEMENT}_position", "BIGINT", [place for _, place, _ in places]))
        days = tuple(table.row_days[row] for row, *_ in places) if table.row_days else ()
        why = f"each element of {lists.called} becomes a row"
        options = {**table.options, "explode": ({_ELEMENT: lists.expr}, why)}
        yield replace(table, options=options, columns=own, rows=len(places), row_days=days, element=lists.called)


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
            there = [value is not None for value in values]
            if len(set(there)) == 2:  # whether the struct is there
                yield Column(name_of(here), f"{'.'.join(map(quoted, here))} is not null", "BOOLEAN", there)
        else:
            if pa.types.is_string(part.type):  # others are text as JSON has them
                values = [one if isinstance(one, str | None) else json.dumps(one) for one in values]
            yield Column(name_of(here), ".".join(map(quoted, here)), ddl(part.type), values)


_TYPES: Sequence[tuple[Callable[[pa.DataType], bool], str]] = (
    (pa.types.is_uint64, "DECIMAL(20,0)"),
    (pa.types.is_integer, "BIGINT"),
    (pa.types.is_floating, "DOUBLE"),
    (pa.types.is_boolean, "BOOLEAN"),
    (pa.types.is_date, "DATE"),
    (lambda kind: pa.types.is_timestamp(kind) and kind.tz is None, "TIMESTAMP_NTZ"),
    (pa.types.is_timestamp, "TIMESTAMP"),
    (lambda kind: "binary" in str(kind), "BINARY"),
)


def ddl(kind: pa.DataType) -> str:
    """Return the name of an Arrow type in Spark's SQL."""
    if pa.types.is_dictionary(kind):
        return ddl(kind.value_type)
    if _is_list(kind):
        return f"ARRAY<{ddl(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"MAP<{ddl(kind.key_type)}, {ddl(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return "STRUCT<" + ", ".join(f"{quoted(part.name)}: {ddl(part.type)}" for part in kind) + ">"
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    return next((name for is_one, name in _TYPES if is_one(kind)), "STRING")


def _is_list(kind: pa.DataType) -> bool:
    return any(is_one(kind) for is_one in (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list))


_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MOST_FIELDS = 60
"""Number of distinct keys above which an object becomes a map."""


def type_of(values: Sequence[Any]) -> pa.DataType:
    """Return the type of objects, lists or values: text if they are of several types, or too large for a number."""
    present = [value for value in values if value is not None]
    kinds = {type(value) for value in present}
    if kinds == {dict}:
        names = list(dict.fromkeys(key for value in present for key in value))
        if len(names) > _MOST_FIELDS or (names and not any(map(_PLAIN.fullmatch, names))):
            return pa.map_(pa.string(), type_of([item for value in present for item in value.values()]))
        fields = [(name, type_of([value.get(name) for value in present])) for name in names]
        return pa.struct(fields) if fields else pa.string()
    if kinds == {list}:
        return pa.list_(type_of([item for value in present for item in value]))
    if kinds == {int, float}:
        return pa.float64()
    if kinds == {int} and not all(-(2**63) <= value < 2**63 for value in present):
        return pa.string()
    try:
        return pa.infer_type(present)
    except (pa.ArrowException, OverflowError):
        return pa.string()


# --- numbers that are written as text: with a decimal comma, in groups of three digits, with a unit or a currency

_AMOUNT = re.compile(r"(\D*?)([+-]?\d[\d\s.,'’]*?)((?:\s*[^\d\s.,'’]\D*)?)")


def with_numbers(column: Column) -> Column:
    """Return a text column as the numbers that its values are, with the SQL that reads them. Any other stays as it is."""
    texts = {str(value) for value in column.present} if column.is_text else set()
    found = {text: match for text in texts if (match := _AMOUNT.fullmatch(text))}
    units = {(match[1], match[3]) for match in found.values()}
    if not texts or len(found) < len(texts) or len(units) > 1 or any(_is_joined(*unit) for unit in units):
        return column
    numbers = {text: match[2] for text, match in found.items()}
    if not any(re.search(r"\d\D\d", number) for number in numbers.values()):
        return column
    mark = next((mark for mark in ",." if any(_ends_with(mark, number) for number in numbers.values())), None)
    group = re.escape({",": ".", ".": ","}.get(mark or "", ".,"))
    whole = rf"[+-]?(?:\d+|\d{{1,3}}(?:[\s{group}'’]\d{{3}})+)" + (rf"(?:[{mark}]\d+)?" if mark else "")
    if not all(re.fullmatch(whole, number) for number in numbers.values()):
        return column
    kept = f"[^0-9{mark or ''}+-]"
    values = {text: float(re.sub(kept, "", number).replace(",", ".")) for text, number in numbers.items()}
    plain = units == {("", "")} and not any(re.search(rf"[\s{group}'’]", number) for number in numbers.values())
    read = "{}" if plain else f"regexp_replace({{}}, '{kept}', '')"
    read = f"replace({read}, ',', '.')" if mark == "," else read
    longest = max(sorted(texts), key=len)
    return replace(
        column,
        kind="DOUBLE",
        values=[values.get(str(value)) for value in column.values],
        read=f"try_cast({read} as double)",
        said=f"text such as '{longest}', read as {values[longest]:g}",
    )


def _ends_with(mark: str, number: str) -> bool:
    """Whether a mark stands before the decimals of a number: once, with other than three digits behind it."""
    head, found, tail = number.rpartition(mark)
    return bool(found) and mark not in head and len(tail) != 3


def _is_joined(before: str, after: str) -> bool:
    """Whether Latin letters touch a number, as in a code."""
    return any(letter.isascii() and letter.isalnum() for letter in (before[-1:], after[:1]))
