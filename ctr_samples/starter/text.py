"""Sample text files: decompression, CSV dialect, and value types."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import IO, Any, cast

import pyarrow as pa
from charset_normalizer import from_bytes

from ctr_samples.errors import InputError
from ctr_samples.starter.places import LITTLE, InputPath, some_of
from ctr_samples.starter.questions import Answers, Candidate
from ctr_samples.starter.tables import Column, Table, ddl, fields_of, plain_name, quoted, unused

_LEAST_BYTES = 64 << 10
"""Bytes to read of each file, at least."""

_PACKED: Mapping[str, tuple[bytes, str, Callable[[Path], Any]]] = {
    "gzip": (b"\x1f\x8b", ".gz", gzip.open),
    "bzip2": (b"BZh", ".bz2", bz2.open),
    "Zstandard": (b"\x28\xb5\x2f\xfd", ".zst", lambda file: pa.input_stream(file, compression="zstd")),
}
"""Magic bytes, suffix and open function of each compression format."""
_MOST_ROWS = 60_000
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|NaN")
_INTEGER = re.compile(r"[+-]?(0|[1-9]\d*)")
_DIGITS = re.compile(r"[+-]?\d+")
_TIMELIKE = re.compile(r"\d{1,4}[-/.]\d")
_MOST_BAD = 0.05
"""Largest share of malformed lines that a draft allows."""
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MOST_FIELDS = 60
"""Number of distinct keys above which a JSON object becomes a map."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a file, in whole lines. ``is_start`` marks the first part."""

    text: str
    is_start: bool
    day: date | None = None
    """Day in the path of the file."""


def chunks_of(place: InputPath, answers: Answers) -> tuple[str, list[Chunk]]:
    """Read the beginning and the end of a few files of an input, or all of a small input. Returns the encoding, too."""
    files = some_of(place.files)
    most = max(_LEAST_BYTES, LITTLE // len(files))
    parts = [(data, is_start, place.day_of(file)) for file in files for data, is_start in _parts_of(file, most)]
    encoding = _encoding_of([data for data, *_ in parts], place, answers)
    read = "utf-8-sig" if encoding == "UTF-8" else encoding
    return encoding, [Chunk(data.decode(read, errors="replace"), is_start, day) for data, is_start, day in parts]


def _parts_of(file: Path, most: int) -> Iterator[tuple[bytes, bool]]:
    """Yield the first and the last lines of a file, and whether they are the first ones."""
    unpacked = _unpacked(file)
    with unpacked or file.open("rb") as opened:
        size = None if unpacked else file.stat().st_size
        if size is None or size <= most:
            head = opened.read(most + 1)
            yield (head.rpartition(b"\n")[0] + b"\n" if len(head) > most else head), True
            return
        yield opened.read(most // 2).rpartition(b"\n")[0] + b"\n", True
        opened.seek(size - most // 2)
        yield opened.read().partition(b"\n")[2], False


_ENCODINGS = {
    **{f"cp{number}": f"windows-{number}" for number in range(1250, 1259)},
    "koi8_r": "KOI8-R",
    "cp932": "MS932",
    "euc_jp": "EUC-JP",
    "cp949": "MS949",
    "gb18030": "GB18030",
    "big5": "Big5",
}
"""Encodings to consider, with their names in Java, which Python knows as well."""
_MOST_SAMPLED = 256 << 10


def _encoding_of(parts: Sequence[bytes], place: InputPath, answers: Answers) -> str:
    """Return the encoding of text: UTF-8 if it can be, else that with which charset-normalizer reads the least mess."""
    if parts[0][:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "UTF-16"
    data = b"\n".join(parts)
    if _decoded(data, "UTF-8") is not None:
        return "UTF-8"
    foreign = b"\n".join(line for line in data.splitlines() if not line.isascii())[:_MOST_SAMPLED]
    found = dict.fromkeys(answers.names("encoding"), (0.0, True, 0.0))
    for match in from_bytes(foreign, cp_isolation=list(_ENCODINGS)):
        known = _ENCODINGS[match.encoding] in answers.given.get("encoding", ())
        found[_ENCODINGS[match.encoding]] = (-round(match.chaos, 1), known, match.coherence)
    candidates = []
    for name, facts in found.items():
        if (text := _decoded(data, name)) is not None:
            words = dict.fromkeys(word for word in re.findall(r"[^\W_]+", text) if not word.isascii())
            candidates.append(Candidate(name, name, f"reads {', '.join(words)[:60]}", facts))
    chosen = answers.to("encoding", f"In which encoding is {place.name}?", candidates, may_be_none=False)
    return "UTF-8" if chosen is None else str(chosen.value)


def _decoded(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except (UnicodeDecodeError, LookupError):
        return None


def _unpacked(file: Path) -> IO[bytes] | None:
    """Open a compressed file, or return None for a plain file. Raise InputError for files that the job cannot read."""
    with file.open("rb") as raw:
        magic = raw.read(4)
    for kind, (start, suffix, opened) in _PACKED.items():
        packed = magic.startswith(start)
        if packed != (file.suffix == suffix):
            found = f"{kind}, but its name does not end" if packed else f"no {kind}, but its name ends"
            raise InputError(f"{file} is {found} in {suffix}, by which Spark tells; rename it.")
        if packed:
            return cast("IO[bytes]", opened(file))
    return None


def text_table(place: InputPath, name: str, answers: Answers) -> Table:
    """Sample JSON lines or CSV. Raise InputError for input that the job could not read."""
    encoding, chunks = chunks_of(place, answers)
    first = next((char for chunk in chunks for char in chunk.text if not char.isspace()), "")
    if not first:
        raise InputError(f"{place.path} is empty; name an input that has rows.")
    if "\0" in chunks[0].text[:4096]:
        raise InputError(f"{place.path} is no text; expected JSON lines, CSV, Parquet or ORC.")
    if first == "[" and chunks[0].text.lstrip("[ \r\n\t").startswith("{"):
        place, chunks = _in_lines(place, chunks)
        first = "{"
    table = _json(place, name, chunks) if first == "{" else _csv(place, name, chunks)
    if encoding == "UTF-8":
        return table
    options = {**table.options, "encoding": (encoding, "the encoding in which all lines are text")}
    return replace(table, options=options, todo=(*table.todo, *filter(None, [answers.todo("encoding")])))


def _in_lines(place: InputPath, chunks: Sequence[Chunk]) -> tuple[InputPath, list[Chunk]]:
    """Return the objects of one JSON list in a line each, which the job reads, and the path that they are to have."""
    try:
        rows = [row for chunk in chunks for row in json.loads(chunk.text)]
    except ValueError:
        raise InputError(
            f"{place.path} is one large JSON list; expected an object on each line, as `jq -c '.[]'` writes them."
        ) from None
    lines = "\n".join(json.dumps(row) for row in rows)
    return replace(place, path=f"{place.path}l", rewritten=f"jq -c '.[]' {place.path} > {place.path}l"), [
        Chunk(lines, True)
    ]


def _table(
    place: InputPath, name: str, options: dict[str, tuple[Any, str]], columns: list[Column], lines: _Lines
) -> Table:
    todo, bad = [*lines.todo], len(lines.bad)
    if bad:
        total = bad + len(lines.rows)
        rate = min(_MOST_BAD, max(0.01, float(f"{2 * bad / total:.1g}")))
        said = f"{bad:,} of the {total:,} sampled lines"
        options["bad_records"] = ({"max_rate": rate}, f"{said} do not fit the others")
        if bad > rate * total:
            todo.append(
                f"{said} of {place.path} do not fit the others, such as {lines.bad[0][:40]!r}: mend them. A run allows for "
                f"{rate:.0%} of such lines."
            )
    if place.rewritten:
        todo.append(f"it is one JSON list, and the job reads an object on each line: `{place.rewritten}` writes them")
    size = sum(file.stat().st_size for file in place.files)
    days = tuple(day for _, day in lines.sampled)
    return Table(
        name,
        options,
        columns,
        len(days),
        size,
        place.days,
        place.is_dated,
        place.day_column,
        tuple(todo),
        days,
        lines.where,
    )


@dataclass
class _Lines:
    """The lines that were read of an input: rows, each with the day in the path of its file, and those that are none."""

    rows: list[tuple[Any, date | None]]
    bad: list[str]
    where: str = ""
    todo: list[str] = field(default_factory=list)

    @property
    def sampled(self) -> list[tuple[Any, date | None]]:
        """All rows, or the first and last ones if there are too many."""
        half = _MOST_ROWS // 2
        return self.rows if len(self.rows) <= _MOST_ROWS else [*self.rows[:half], *self.rows[-half:]]


def _json(place: InputPath, name: str, chunks: Sequence[Chunk]) -> Table:
    read = [(line, _object(line), chunk.day) for chunk in chunks for line in chunk.text.split("\n") if line.strip()]
    objects = [(row, day) for _, row, day in read if row is not None]
    lines = _Lines([one for one in objects if not _is_command(one[0])], [line for line, row, _ in read if row is None])
    if len(lines.bad) > len(objects):
        raise InputError(f"{place.path} holds no JSON lines: {len(lines.bad):,} of {len(read):,} lines are no object.")
    if not lines.rows:
        raise InputError(f"{place.path} has commands of a bulk upload and no rows; name an input that has rows.")
    rows = [row for row, _ in lines.sampled]
    kind = _type_of(rows)
    columns = list(fields_of(kind, [_as_type(kind, row) for row in rows]))
    if len(lines.rows) < len(objects):
        always = next((one for one in columns if len(one.present) == len(rows)), columns[0])
        lines.where = f"{always.expr} is not null"
        lines.todo.append(
            f"{place.path} has commands of a bulk upload between its rows; `where` leaves out these lines, which have no "
            f"{always.name}."
        )
    options = {
        "format": ("json", "each line is a JSON object"),
        "path": (place.path, place.days_said),
        "schema": (", ".join(f"{quoted(one.name)} {ddl(one.type)}" for one in kind), "as the sampled lines have them"),
    }
    return _table(place, name, options, columns, lines)


def _object(line: str) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def _is_command(row: Mapping[str, Any]) -> bool:
    """Whether an object is a bulk upload command, such as ``{"index": {"_id": 7}}``."""
    inner = (
        next(iter(row.values())) if len(row) == 1 and row.keys() <= {"index", "create", "update", "delete"} else None
    )
    return isinstance(inner, dict) and all(key.startswith("_") for key in inner)


def _type_of(values: Sequence[Any]) -> pa.DataType:
    """Return the type of a JSON field: that of all its values, or text."""
    present = [value for value in values if value is not None]
    kinds = {type(value) for value in present}
    if kinds == {dict}:
        names = list(dict.fromkeys(key for value in present for key in value))
        if len(names) > _MOST_FIELDS or (names and not any(map(_PLAIN.fullmatch, names))):
            return pa.map_(pa.string(), _type_of([item for value in present for item in value.values()]))
        fields = [(name, _type_of([value.get(name) for value in present])) for name in names]
        return pa.struct(fields) if fields else pa.string()
    if kinds == {list}:
        return pa.list_(_type_of([item for value in present for item in value]))
    if kinds == {bool}:
        return pa.bool_()
    if kinds == {int} and all(-(2**63) <= value < 2**63 for value in present):
        return pa.int64()
    return pa.float64() if float in kinds and kinds <= {int, float} else pa.string()


def _as_type(kind: pa.DataType, value: Any) -> Any:
    """Return a JSON value as its type reads it. Text of a value that is none is the JSON of it, as in Spark."""
    if pa.types.is_struct(kind):
        return value and {field.name: _as_type(field.type, value.get(field.name)) for field in kind}
    if pa.types.is_list(kind):
        return value and [_as_type(kind.value_type, item) for item in value]
    return json.dumps(value) if pa.types.is_string(kind) and not isinstance(value, str | None) else value


def _csv(place: InputPath, name: str, chunks: Sequence[Chunk]) -> Table:
    delimiter = _delimiter(chunks[0].text)
    quotes = _quotes_of(chunks[0].text, delimiter)
    parsed = [list(_records(place, chunk.text, delimiter, quotes)) for chunk in chunks]
    first, todo = parsed[0][0], []
    rows = [(row, chunk.day) for chunk, part in zip(chunks, parsed, strict=True) for row in part if row != first]
    widths = [len(row) for row, _ in rows] or [len(first)]
    usual = max(set(widths), key=lambda width: (widths.count(width), width == len(first)))
    header = _is_header(first, [row for row, _ in rows], usual)
    if not header:
        rows = [(row, chunk.day) for chunk, part in zip(chunks, parsed, strict=True) for row in part]
    elif any(chunk.is_start and part[0] != first for chunk, part in zip(chunks, parsed, strict=True) if part):
        todo.append(
            f"some files of {place.path} lack the line of names {delimiter.join(first)[:60]!r}: write it into each, since a "
            "run takes the first line of each file for names."
        )
    if not rows:
        raise InputError(f"{place.path} has a header and no rows; name an input that has rows.")
    width = len(first) if header else usual
    bad = [delimiter.join(row) for row, _ in rows if len(row) != width]
    lines = _Lines([one for one in rows if len(one[0]) == width], bad, todo=todo)
    cells = [row for row, _ in lines.sampled]
    options: dict[str, tuple[Any, str]] = {
        "format": ("csv", f"{width} values on each line"),
        "path": (place.path, place.days_said),
    }
    if delimiter != ",":
        options["delimiter"] = (delimiter, "what splits all lines alike")
    if quotes != _QUOTES[0]:
        quote, escape = quotes
        options["quote"] = (quote, "more lines have the usual values so")
        if quote and escape != '"':
            options["escape"] = (escape, "what stands before a quote within quotes")
    names, more = _names(first if header else [], width)
    options |= more
    titles = dict(zip(names, first, strict=False)) if header else {}
    columns = [_column(name, [row[n] for row in cells], titles.get(name, "")) for n, name in enumerate(names)]
    columns = [replace(one, named=header and plain_name(titles[one.name]) != "") for one in columns]
    schema = ", ".join(f"{column.expr} {column.kind}" for column in columns)
    options["schema"] = (
        schema,
        "as the sampled lines have them" if header else "the file has no names: give better ones",
    )
    if not header:
        lines.todo.append(f"{place.path} has no line of names; `schema` calls its columns c1 to c{width}.")
    return _table(place, name, options, columns, lines)


def _delimiter(text: str) -> str:
    """Find the delimiter that splits the first lines evenly. ``csv.Sniffer`` is misled by spaces and colons in text."""
    lines = text[: 1 << 18].split("\n")[:200]
    best, most = ",", 1
    for delimiter in ("\t", ";", "|", ","):
        widths = [len(row) for row in csv.reader(lines, delimiter=delimiter) if row]
        usual = max(set(widths), key=widths.count) if widths else 1
        if widths and widths[0] == usual and widths.count(usual) >= 0.5 * len(widths) and usual > most:
            best, most = delimiter, usual
    return best


_QUOTES = (('"', '"'), ('"', "\\"), ("", ""), ("'", "'"))
"""Characters for quotes, and before a quote within quotes. Empty ones are of files in which quotes mean nothing."""


def _split(lines: Iterable[str], delimiter: str, quotes: tuple[str, str]) -> Iterator[list[str]]:
    quote, escape = quotes
    if not quote:
        return csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE)
    doubled, escape_ = quote == escape, None if quote == escape else escape
    return csv.reader(lines, delimiter=delimiter, quotechar=quote, doublequote=doubled, escapechar=escape_)


def _quotes_of(text: str, delimiter: str) -> tuple[str, str]:
    """Return the first quotes with which most lines, split one by one, have the usual number of values."""
    lines = text[: 1 << 18].split("\n")[:2000]

    def fitting(quotes: tuple[str, str]) -> int:
        widths = [len(row) for line in lines if line for row in _split([line], delimiter, quotes)]
        return widths.count(max(set(widths), key=widths.count)) if widths else 0

    return max(_QUOTES, key=fitting)


def _records(place: InputPath, text: str, delimiter: str, quotes: tuple[str, str]) -> Iterator[list[str]]:
    csv.field_size_limit(1 << 24)
    for row in _split(io.StringIO(text, newline=""), delimiter, quotes):
        if any("\n" in cell for cell in row):
            raise InputError(
                f"{place.path} has line breaks inside quotes, but the job reads a row on each line; replace them, or write "
                "the input as Parquet."
            )
        if any(row):
            yield row


def _is_header(first: Sequence[str], rest: Sequence[Sequence[str]], width: int) -> bool:
    """Whether the first line is a header: short texts in any language, unlike the values below."""
    if len(first) != width or sum(not cell for cell in first) > (len(first) > 1):
        return False
    if any(_NUMBER.fullmatch(cell) or len(cell) > 64 or _TIMELIKE.match(cell) for cell in first):
        return False
    if not any(any(c.isalpha() for c in cell) for cell in first):
        return False
    some = [row for row in rest[:2000] if len(row) == width]
    below = [{row[n] for row in some} for n in range(width)]
    shapes = [{_shape(value) for value in values if value} for values in below]
    return not any(
        cell.lower() in ("true", "false", "null") or cell in below[n] or {_shape(cell)} == shapes[n] != set()
        for n, cell in enumerate(first)
        if cell
    )


def _shape(cell: str) -> str:
    """Return the shape of a code, such as ``A9`` for ``U123``. A cell without digits stays unchanged."""
    return re.sub(r"[^\W\d_]+", "A", re.sub(r"\d+", "9", cell)) if any(c.isdigit() for c in cell) else cell


def _names(first: Sequence[str], width: int) -> tuple[list[str], dict[str, tuple[Any, str]]]:
    """Return the column names, and the source options for the header line."""
    if not first:
        return [f"c{n}" for n in range(1, width + 1)], {}
    options: dict[str, tuple[Any, str]] = {"header": (True, "the first line holds names")}
    names: list[str] = []
    for n, name in enumerate(first, 1):
        plain = plain_name(name) if name else "row"
        names.append(unused(plain or f"c{n}", {one.lower() for one in names}))
    if len({name.lower() for name in first}) < len(first):
        options["by_position"] = (True, "the first line names a column twice")
    elif renamed := {old: new for old, new in zip(first, names, strict=True) if old != new}:
        why = "a column without a name, such as the index that pandas writes" if "" in renamed else ""
        options["rename"] = (renamed, why if len(renamed) == 1 and why else "names that SQL takes without quotes")
    return names, options


def _column(name: str, cells: Sequence[str], title: str) -> Column:
    kind = _kind_of_cells({cell for cell in cells if cell})
    readers: dict[str, Callable[[str], Any]] = {
        "BIGINT": int,
        "DOUBLE": float,
        "BOOLEAN": lambda cell: cell.lower() == "true",
    }
    read = readers.get(kind, str)
    known = {cell: read(cell) if cell else None for cell in set(cells)}
    return Column(name, quoted(name), kind, [known[cell] for cell in cells], title=title if title != name else "")


def _kind_of_cells(values: set[str]) -> str:
    if not values:
        return "STRING"
    if all(
        _DIGITS.fullmatch(value) for value in values
    ):  # ids too large for a number, or with leading zeros, stay text
        whole = all(_INTEGER.fullmatch(value) and -(2**63) <= int(value) < 2**63 for value in values)
        return "BIGINT" if whole else "STRING"
    if all(_NUMBER.fullmatch(value) and not re.match(r"[+-]?0\d", value) for value in values):
        return "DOUBLE" if all(len(value.partition(".")[0]) < 17 for value in values) else "STRING"
    if {value.lower() for value in values} <= {"true", "false"}:
        return "BOOLEAN"
    return "STRING"
