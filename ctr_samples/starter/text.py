"""Samples of text files: their bytes, the dialect of CSV, and the types of what the lines hold."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import pyarrow as pa

from ctr_samples.errors import InputError
from ctr_samples.starter.places import Place, some_of
from ctr_samples.starter.tables import Column, Table, name_of, quoted

_BYTES = 9 << 20
"""About how much of an input is read."""

_PACKED: Mapping[str, tuple[bytes, str, Callable[[Path], Any]]] = {
    "gzip": (b"\x1f\x8b", ".gz", gzip.open),
    "bzip2": (b"BZh", ".bz2", bz2.open),
    "Zstandard": (b"\x28\xb5\x2f\xfd", ".zst", lambda file: pa.input_stream(file, compression="zstd")),
}
"""How a file begins, how its name ends, and what opens it."""
_MOST_ROWS = 60_000
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|NaN")
_INTEGER = re.compile(r"[+-]?(0|[1-9]\d*)")
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")
_LABEL = re.compile(r"[\w .:#()@%$-]{0,64}", re.ASCII)
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MOST_FIELDS = 60
"""An object with more different names is a map."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some text of a file, in whole lines, and whether the file begins with it."""

    text: str
    is_start: bool


def chunks_of(place: Place) -> list[Chunk]:
    """The beginning, the middle and the end of an input, or all of a small one."""
    files = some_of(place.files)
    whole = sum(file.stat().st_size for file in place.files) <= _BYTES
    files = list(place.files) if whole and len(place.files) <= 50 else files
    return [chunk for file in files for chunk in _chunks_of(file, _BYTES // len(files))]


def _chunks_of(file: Path, most: int) -> list[Chunk]:
    unpacked = _unpacked(file)
    with unpacked or file.open("rb") as opened:
        size = None if unpacked else file.stat().st_size
        if size is None or size <= most:
            head = opened.read(most + 1)
            cut = len(head) > most
            return [Chunk(_lines(head, cut_end=cut), is_start=True)]
        head = opened.read(most // 2)
        opened.seek(size - most // 2)
        tail = opened.read()
    return [
        Chunk(_lines(head, cut_end=True), is_start=True),
        Chunk(_lines(tail.partition(b"\n")[2], cut_end=False), is_start=False),
    ]


def _unpacked(file: Path) -> IO[bytes] | None:
    """What is inside a compressed file; None for a plain one. InputError for what the job could not read."""
    with file.open("rb") as raw:
        magic = raw.read(4)
    if magic[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InputError(f"{file} is UTF-16; expected UTF-8. Convert it: `iconv -f UTF-16 -t UTF-8`.")
    for kind, (start, suffix, opened) in _PACKED.items():
        packed = magic.startswith(start)
        if packed != (file.suffix == suffix):
            found = f"{kind}, but its name does not end" if packed else f"no {kind}, but its name ends"
            raise InputError(f"{file} is {found} in {suffix}, by which Spark tells; rename it.")
        if packed:
            return cast("IO[bytes]", opened(file))
    return None


def _lines(data: bytes, *, cut_end: bool) -> str:
    whole = data.rpartition(b"\n")[0] + b"\n" if cut_end else data
    return whole.decode("utf-8-sig", errors="replace")


def text_table(place: Place, name: str) -> Table:
    """A sample of JSON lines or of CSV. InputError for what the job could not read either."""
    chunks = chunks_of(place)
    first = next((char for chunk in chunks for char in chunk.text if not char.isspace()), "")
    if not first:
        raise InputError(f"{place.path} is empty; name an input that has rows.")
    if "\0" in chunks[0].text[:4096]:
        raise InputError(f"{place.path} is no text; expected JSON lines, CSV, Parquet or ORC.")
    if first == "[" and chunks[0].text.lstrip("[ \r\n\t").startswith("{"):
        raise InputError(
            f"{place.path} is one JSON list; expected an object on each line, as `jq -c '.[]'` writes them."
        )
    return _json(place, name, chunks) if first == "{" else _csv(place, name, chunks)


def _table(
    place: Place, name: str, options: dict[str, tuple[Any, str]], columns: list[Column], bad: int, todo: Sequence[str]
) -> Table:
    rows = len(columns[0].values) if columns else 0
    if bad:
        share = bad / (rows + bad)
        rate = min(1.0, max(0.01, float(f"{2 * share:.1g}")))
        options["bad_records"] = (
            {"max_rate": rate},
            f"{bad:,} of the {rows + bad:,} sampled lines do not fit the others",
        )
    size = sum(file.stat().st_size for file in place.files)
    dated = "{date}" in place.path
    return Table(name, options, columns, rows, size, place.days, dated, place.day_column, tuple(todo))


# --- JSON lines


def _json(place: Place, name: str, chunks: Sequence[Chunk]) -> Table:
    rows: list[dict[str, Any]] = []
    bad = 0
    for line in (line for chunk in chunks for line in chunk.text.split("\n") if line.strip()):
        if len(rows) >= _MOST_ROWS:
            break
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if isinstance(row, dict):
            rows.append(row)
        else:
            bad += 1
    if bad > len(rows):
        raise InputError(f"{place.path} holds no JSON lines: {bad:,} of {bad + len(rows):,} lines are no object.")
    kind = _kind_of(rows)
    columns = list(_fields(kind, rows, ()))
    options = {
        "format": ("json", "each line is a JSON object"),
        "path": (place.path, place.days_said),
        "schema": (
            ", ".join(f"{quoted(key)} {_ddl(kind.fields[key])}" for key in kind.fields),
            "as the sampled lines have them",
        ),
    }
    return _table(place, name, options, columns, bad, ())


@dataclass(frozen=True, slots=True)
class _Kind:
    """A type as the values of a JSON field show it."""

    name: str
    fields: dict[str, _Kind]
    item: _Kind | None = None


def _kind_of(values: Sequence[Any]) -> _Kind:
    present = [value for value in values if value is not None]
    kinds = {type(value) for value in present}
    if kinds == {dict}:
        names = list(dict.fromkeys(key for value in present for key in value))
        if len(names) > _MOST_FIELDS or (names and all(not _PLAIN.fullmatch(key) for key in names)):
            return _Kind("MAP", {}, _kind_of([item for value in present for item in value.values()]))
        return _Kind("STRUCT", {key: _kind_of([value.get(key) for value in present]) for key in names})
    if kinds == {list}:
        return _Kind("ARRAY", {}, _kind_of([item for value in present for item in value]))
    if kinds == {bool}:
        return _Kind("BOOLEAN", {})
    if kinds == {int} and all(-(2**63) <= value < 2**63 for value in present):
        return _Kind("BIGINT", {})
    if kinds and kinds <= {int, float}:
        return _Kind("DOUBLE", {})
    return _Kind("STRING", {})


def _ddl(kind: _Kind) -> str:
    if kind.name == "STRUCT":
        return (
            "STRUCT<" + ", ".join(f"{quoted(key)}: {_ddl(of)}" for key, of in kind.fields.items()) + ">"
            if kind.fields
            else "STRING"
        )
    if kind.name == "ARRAY":
        return f"ARRAY<{_ddl(cast(_Kind, kind.item))}>"
    if kind.name == "MAP":
        return f"MAP<STRING, {_ddl(cast(_Kind, kind.item))}>"
    return kind.name


def _fields(kind: _Kind, rows: Sequence[Any], path: tuple[str, ...]) -> Any:
    for key, of in kind.fields.items():
        values = [row.get(key) if isinstance(row, dict) else None for row in rows]
        here = (*path, key)
        if of.name == "STRUCT" and of.fields:
            yield from _fields(of, values, here)
            continue
        if _ddl(of) == "STRING":
            values = [value if isinstance(value, str | None) else json.dumps(value) for value in values]
        yield Column(name_of(here), ".".join(map(quoted, here)), _ddl(of), values)


# --- CSV


def _csv(place: Place, name: str, chunks: Sequence[Chunk]) -> Table:
    delimiter = _delimiter(chunks[0].text)
    parsed = [list(_records(place, chunk.text, delimiter)) for chunk in chunks]
    widths = [len(row) for rows in parsed for row in rows]
    first = parsed[0][0]
    rows = [row for part in parsed for row in part]
    data = [row for row in rows if row != first]  # each file may repeat the names
    header = _is_header(first, data, max(set(widths), key=widths.count))
    if header:
        rows = [row for chunk, part in zip(chunks, parsed, strict=True) for row in part[1 if chunk.is_start else 0 :]]
    if not rows:
        raise InputError(f"{place.path} has a header and no rows; name an input that has rows.")
    width = len(first) if header else max(set(widths), key=widths.count)
    fitting = [row for row in rows if len(row) == width][:_MOST_ROWS]
    options: dict[str, tuple[Any, str]] = {
        "format": ("csv", f"{width} values on each line"),
        "path": (place.path, place.days_said),
    }
    if delimiter != ",":
        options["delimiter"] = (delimiter, "what splits all lines alike")
    names, more = _names(first if header else [], width)
    options |= more
    columns = [_column(names[n], [row[n] for row in fitting], named=header) for n in range(width)]
    schema = ", ".join(f"{column.expr} {column.kind}" for column in columns)
    options["schema"] = (
        schema,
        "as the sampled lines have them" if header else "the file has no names: give better ones",
    )
    todo = () if header else (f"{place.path} has no line of names; `schema` calls its columns c1 to c{width}.",)
    return _table(place, name, options, columns, len(rows) - len(fitting), todo)


def _delimiter(text: str) -> str:
    """What splits the first lines alike. The sniffer of the library takes the blanks and colons within texts for one."""
    lines = text[: 1 << 18].split("\n")[:200]
    best, most = ",", 1
    for delimiter in ("\t", ";", "|", ","):
        widths = [len(row) for row in csv.reader(lines, delimiter=delimiter) if row]
        usual = max(set(widths), key=widths.count) if widths else 1
        if widths and widths[0] == usual and widths.count(usual) >= 0.8 * len(widths) and usual > most:
            best, most = delimiter, usual
    return best


def _records(place: Place, text: str, delimiter: str) -> Any:
    csv.field_size_limit(1 << 24)
    for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
        if any("\n" in cell for cell in row):
            raise InputError(
                f"{place.path} has line breaks inside quotes, but the job reads a row on each line; replace them, or write "
                "the input as Parquet."
            )
        if any(row):
            yield row


def _is_header(first: Sequence[str], rest: Sequence[Sequence[str]], width: int) -> bool:
    """Whether a first line holds names: no value in it could be data, and some column has other values below."""
    if len(first) != width or any(_NUMBER.fullmatch(cell) or not _LABEL.fullmatch(cell) for cell in first):
        return False
    if len(first) > 1 and sum(not cell for cell in first) > 1:
        return False
    if not any(any(c.isalpha() for c in cell) for cell in first) or any(
        re.match(r"\d{4}[-/]\d", cell) for cell in first
    ):
        return False
    some = [row for row in rest[:2000] if len(row) == width]
    values = [{row[n] for row in some} for n in range(width)]
    below = [cell.lower() in ("true", "false", "null") or cell in values[n] for n, cell in enumerate(first) if cell]
    return not any(below)


def _names(first: Sequence[str], width: int) -> tuple[list[str], dict[str, tuple[Any, str]]]:
    """The names of columns, and the keys of the source that say how they are found."""
    if not first:
        return [f"c{n}" for n in range(1, width + 1)], {}
    options: dict[str, tuple[Any, str]] = {"header": (True, "the first line holds names")}
    names = [name or "row" for name in first]
    if len({name.lower() for name in names}) < len(names):
        options["by_position"] = (True, "the first line names a column twice")
        taken: list[str] = []
        for name in names:
            number = sum(name.lower() == other.lower() for other in names[: len(taken)])
            taken.append(f"{name}_{number + 1}" if number else name)
        names = taken
    elif "" in first:
        options["rename"] = ({"": "row"}, "a column without a name, such as the index that pandas writes")
    return names, options


def _column(name: str, cells: Sequence[str], *, named: bool) -> Column:
    kind = _kind_of_cells({cell for cell in cells if cell})
    readers: dict[str, Callable[[str], Any]] = {"BIGINT": int, "DOUBLE": float, "BOOLEAN": _is_true}
    read = readers.get(kind, str)
    known: dict[str, Any] = {"": None}
    for cell in cells:
        if cell not in known:
            known[cell] = read(cell)
    return Column(name, quoted(name), kind, [known[cell] for cell in cells], named)


def _is_true(cell: str) -> bool:
    return cell.lower() == "true"


def _kind_of_cells(values: set[str]) -> str:
    if not values:
        return "STRING"
    if all(_INTEGER.fullmatch(value) and len(value) < 19 for value in values):
        return "BIGINT"
    if all(_NUMBER.fullmatch(value) and not re.match(r"[+-]?0\d", value) for value in values):
        return "DOUBLE" if any(not value.isdigit() or len(value) < 19 for value in values) else "STRING"
    if {value.lower() for value in values} <= {"true", "false"}:
        return "BOOLEAN"
    return "STRING"


def is_decimal_comma(column: Column) -> bool:
    """Whether a column of text holds numbers such as ``1,5``."""
    values = [str(value) for value in column.distinct]
    matching = all(_DECIMAL_COMMA.fullmatch(value) or _INTEGER.fullmatch(value) for value in values)
    return column.is_text and bool(values) and matching and any("," in value for value in values)
