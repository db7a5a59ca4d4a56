"""Sample Parquet files, ORC files and catalog tables, all of which have column types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import orc, parquet

from ctr_samples.starter.places import InputPath, some_of
from ctr_samples.starter.tables import Column, Table, name_of, optional, quoted

_ROWS, _LEAST_ROWS = 20_000, 1000
"""Rows that are read of an input, and at least of each file."""


def columnar_table(place: InputPath, name: str, form: str) -> Table:
    """Sample the beginning and the end of Parquet or ORC files."""
    files = some_of(place.files)
    read = _of_parquet if form == "parquet" else _of_orc
    most = max(_LEAST_ROWS, _ROWS // len(files))
    parts = [(part, place.day_of(file)) for file in files for part in read(file, most)]
    data = _together([part for part, _ in parts])
    of_rows = tuple(day for part, day in parts for _ in range(part.num_rows))
    options = {"format": (form, ""), "path": (place.path, place.days_said)}
    size = sum(file.stat().st_size for file in place.files)
    columns = columns_of(data)
    dated = place.is_dated
    return Table(name, options, columns, data.num_rows, size, place.days, dated, place.day_column, row_days=of_rows)


def _together(parts: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of all parts. A column of integers in some and of floats in others becomes floats, rounded."""
    kinds = pa.unify_schemas([part.schema for part in parts], promote_options="permissive")
    rounded = [
        pa.table({
            name: column.cast(kinds.field(name).type, safe=False) if pa.types.is_integer(column.type) else column
            for name, column in zip(part.column_names, part.columns, strict=True)
        })
        for part in parts
    ]  # fmt: skip
    return pa.concat_tables(rounded, promote_options="permissive")


def _of_parquet(file: Path, rows: int) -> Iterator[pa.Table]:
    opened = parquet.ParquetFile(file)
    for group in sorted({0, opened.num_row_groups - 1} & set(range(opened.num_row_groups))):
        part = opened.read_row_group(group)
        yield from _ends(part, rows)


def _of_orc(file: Path, rows: int) -> Iterator[pa.Table]:
    opened = orc.ORCFile(file)
    for stripe in sorted({0, opened.nstripes - 1} & set(range(opened.nstripes))):
        yield from _ends(pa.Table.from_batches([opened.read_stripe(stripe)]), rows)


def _ends(part: pa.Table, rows: int) -> Iterator[pa.Table]:
    if part.num_rows <= rows:
        yield part
    else:
        yield part.slice(0, rows // 2)
        yield part.slice(part.num_rows - rows // 2)


def columns_of(data: pa.Table) -> list[Column]:
    """Return the columns of an Arrow table. Structs are split into their fields."""
    return list(fields_of(pa.struct(data.schema), data.to_pylist()))


def fields_of(kind: pa.StructType, rows: Sequence[Any], path: tuple[str, ...] = ()) -> Iterator[Column]:
    """Yield the fields of a struct, and of the structs within it, as columns."""
    for field in kind:
        values = [None if row is None else row.get(field.name) for row in rows]
        here = (*path, field.name)
        if pa.types.is_struct(field.type):
            yield from fields_of(field.type, values, here)
            yield from optional(here, values)
        else:
            yield Column(name_of(here), ".".join(map(quoted, here)), ddl(field.type), values)


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
        return "STRUCT<" + ", ".join(f"{quoted(field.name)}: {ddl(field.type)}" for field in kind) + ">"
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
