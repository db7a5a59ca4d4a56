"""Sample the inputs: files, directories, dated paths, and catalog tables. Parquet, ORC and tables have types of their own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from pyarrow import orc, parquet

from ctr_samples.errors import InputError
from ctr_samples.starter.amounts import with_numbers
from ctr_samples.starter.places import ENDINGS, InputPath, find_places, some_of
from ctr_samples.starter.questions import Answers
from ctr_samples.starter.tables import Table, columns_of, unused
from ctr_samples.starter.text import text_table

_TABLE = re.compile(r"\w+(\.\w+){1,2}", re.ASCII)


def look_at(
    inputs: Sequence[str], read_table: Callable[[str], pa.Table], answers: Answers | None = None
) -> list[Table]:
    """Sample each input. ``read_table`` returns some rows of a catalog table in Arrow format.

    Raises InputError if none of the inputs has any data.
    """
    answers = answers or Answers()
    tables = [table for one in inputs for table in _look(one, read_table, answers)]
    if not tables:
        raise InputError(f"There is no data under {', '.join(inputs)}; expected JSON lines, CSV, Parquet or ORC.")
    return list(_named_apart(tables))


def _look(one: str, read_table: Callable[[str], pa.Table], answers: Answers) -> Iterator[Table]:
    if _TABLE.fullmatch(one) and not ENDINGS.search(one) and not Path(one).exists():
        yield _of_catalog(one, read_table)
        return
    places = find_places(one)
    for place in places:
        try:
            yield _of_files(place, answers)
        except InputError:
            if len(places) == 1:
                raise


def _of_files(place: InputPath, answers: Answers) -> Table:
    with place.files[0].open("rb") as opened:
        magic = opened.read(4)
    form = "parquet" if magic == b"PAR1" else "orc" if magic.startswith(b"ORC") else ""
    if not form and place.files[0].suffix in (".parquet", ".orc"):
        raise InputError(
            f"{place.files[0]} is no {place.files[0].suffix[1:].title()} file; write it again, or rename it."
        )
    table = columnar_table(place, place.name, form) if form else text_table(place, place.name, answers)
    return table.only(map(with_numbers, table.columns))


def _of_catalog(name: str, read_table: Callable[[str], pa.Table]) -> Table:
    data = read_table(name)
    columns = columns_of(data)
    options = {"format": ("table", ""), "table": (name, "the catalog knows it")}
    day = next(
        (c for c in columns if c.name.lower() in ("dt", "ds", "date", "day") and c.time and not c.time.has_clock), None
    )
    days: tuple[object, ...] = ()
    if day is not None and day.time is not None:
        options["date_column"] = (day.name, "it holds the day")
        days = tuple(sorted(day.time.days))
    rows = len(columns[0].values) if columns else 0
    if not rows:
        raise InputError(f"The table {name} is empty; name an input that has rows.")
    return Table(name.rpartition(".")[2].lower(), options, columns, rows, 0, days, False, day.name if day else None)  # type: ignore[arg-type]


def _named_apart(tables: Sequence[Table]) -> Iterator[Table]:
    taken: set[str] = set()
    for table in tables:
        name = unused(table.name, taken)
        taken.add(name.lower())
        yield replace(table, name=name)


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
