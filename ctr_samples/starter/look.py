"""Sample the inputs: files, directories, dated paths, and catalog tables. Parquet, ORC and tables have types of their own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from pyarrow import orc, parquet

from ctr_samples.errors import InputError
from ctr_samples.starter.places import ENDINGS, InputPath, find_places, some_of
from ctr_samples.starter.questions import Answers
from ctr_samples.starter.tables import Options, Table, columns_of, unused, with_numbers
from ctr_samples.starter.text import text_table

_TABLE = re.compile(r"\w+(\.\w+){1,2}", re.ASCII)
_DAYS = ("dt", "ds", "date", "day")
_ROWS, _LEAST_ROWS = 20_000, 1000
"""Rows that are read of an input, and at least of each file."""


def look_at(
    inputs: Sequence[str], read_table: Callable[[str], pa.Table], answers: Answers | None = None
) -> list[Table]:
    """Sample each input. ``read_table`` returns some rows of a catalog table in Arrow format.

    Raises InputError if none of the inputs has any data.
    """
    answers = answers or Answers()
    found: dict[str, Table] = {}
    for table in (table for one in inputs for table in _look(one, read_table, answers)):
        name = unused(table.name, found)
        found[name.lower()] = replace(table, name=name)
    if not found:
        raise InputError(f"There is no data under {', '.join(inputs)}; expected JSON lines, CSV, Parquet or ORC.")
    return list(found.values())


def _look(one: str, read_table: Callable[[str], pa.Table], answers: Answers) -> Iterator[Table]:
    if _TABLE.fullmatch(one) and not ENDINGS.search(one) and not Path(one).exists():
        yield _of_catalog(one, read_table(one))
        return
    places = find_places(one)
    for place in places:
        try:
            table = _of_files(place, answers)
            yield table.only(map(with_numbers, table.columns))
        except InputError:
            if len(places) == 1:
                raise


def _of_files(place: InputPath, answers: Answers) -> Table:
    with place.files[0].open("rb") as opened:
        magic = opened.read(4)
    if magic == b"PAR1":
        return _columnar_table(place, "parquet")
    if magic.startswith(b"ORC"):
        return _columnar_table(place, "orc")
    if (suffix := place.files[0].suffix) in (".parquet", ".orc"):
        raise InputError(f"{place.files[0]} is no {suffix[1:].title()} file; write it again, or rename it.")
    return text_table(place, answers)


def _of_catalog(name: str, data: pa.Table) -> Table:
    if not data.num_rows:
        raise InputError(f"The table {name} is empty; name an input that has rows.")
    columns = columns_of(data)
    options: Options = {"format": ("table", ""), "table": (name, "the catalog knows it")}
    table = Table(name.rpartition(".")[2].lower(), options, columns, data.num_rows, 0)
    day = table.find(lambda c: c.name.lower() in _DAYS and c.time is not None and not c.time.has_clock)
    if day is None or day.time is None:
        return table
    options = {**options, "date_column": (day.name, "it holds the day")}
    return replace(table, options=options, days=tuple(sorted(day.time.days)), day_column=day.name)


def _columnar_table(place: InputPath, form: str) -> Table:
    """Sample the beginning and the end of Parquet or ORC files."""
    files = some_of(place.files)
    most = max(_LEAST_ROWS, _ROWS // len(files))
    parts = [(part, place.day_of(file)) for file in files for part in _parts_of(file, form, most)]
    row_days = [day for part, day in parts for _ in range(part.num_rows)]
    options = {"format": (form, ""), "path": (place.path, place.days_said)}
    return place.table(options, columns_of(_together([part for part, _ in parts])), row_days)


def _together(parts: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of all parts. A column of integers in some and of floats in others becomes floats, rounded."""
    kinds = pa.unify_schemas([part.schema for part in parts], promote_options="permissive")
    own = [pa.schema([kinds.field(name) for name in part.column_names]) for part in parts]
    rounded = [part.cast(kind, safe=False) for part, kind in zip(parts, own, strict=True)]
    return pa.concat_tables(rounded, promote_options="permissive")


def _parts_of(file: Path, form: str, rows: int) -> Iterator[pa.Table]:
    """Yield the first and the last rows of the first and the last group of rows, or stripe, of a file."""
    if form == "parquet":
        opened = parquet.ParquetFile(file)
        count, read = opened.num_row_groups, opened.read_row_group
    else:
        opened = orc.ORCFile(file)
        count, read = opened.nstripes, lambda number: pa.Table.from_batches([opened.read_stripe(number)])
    for number in sorted({0, count - 1} & set(range(count))):
        part = read(number)
        if part.num_rows <= rows:
            yield part
        else:
            yield from (part.slice(0, rows // 2), part.slice(part.num_rows - rows // 2))
