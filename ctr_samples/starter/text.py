"""Sample text files: compression, encoding, JSON lines, and CSV with its delimiter, quotes, names and types."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
from charset_normalizer import from_bytes

from ctr_samples.errors import InputError
from ctr_samples.starter.places import LITTLE, InputPath, some_of
from ctr_samples.starter.questions import Answers, Candidate
from ctr_samples.starter.tables import Column, Table, ddl, fields_of, plain_name, quoted, type_of, unused

_LEAST_BYTES = 64 << 10
"""Bytes to read of each file, at least."""
_PACKED = {"gzip": (b"\x1f\x8b", ".gz"), "bzip2": (b"BZh", ".bz2"), "Zstandard": (b"\x28\xb5\x2f\xfd", ".zst")}
"""Magic bytes and suffix of each compression format."""
_MOST_ROWS = 60_000
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|NaN")
_DIGITS = re.compile(r"[+-]?\d+")
_LEADING_ZERO = re.compile(r"[+-]?0\d")
_TIMELIKE = re.compile(r"\d{1,4}[-/.]\d")
_MOST_BAD = 0.05
"""Largest share of malformed lines that a draft allows."""


@dataclass(frozen=True, slots=True)
class _Chunk:
    """A part of a file, in whole lines, with the day in the path of the file. ``is_start`` marks the first part."""

    text: str
    is_start: bool
    day: date | None


@dataclass
class _Lines:
    """The lines that were read of an input: rows, each with the day in the path of its file, and those that are none."""

    rows: list[tuple[Any, date | None]]
    bad: list[str]
    options: dict[str, tuple[Any, str]]
    columns: list[Column] = field(default_factory=list)
    todo: list[str] = field(default_factory=list)
    where: str = ""

    def __post_init__(self) -> None:
        self.total = len(self.rows) + len(self.bad)
        if len(self.rows) > _MOST_ROWS:
            self.rows = [*self.rows[: _MOST_ROWS // 2], *self.rows[-_MOST_ROWS // 2 :]]

    @property
    def values(self) -> list[Any]:
        """The rows without their days."""
        return [row for row, _ in self.rows]


def text_table(place: InputPath, answers: Answers) -> Table:
    """Sample JSON lines or CSV. Raise InputError for input that the job could not read."""
    encoding, chunks = _chunks_of(place, answers)
    text = "".join(chunk.text for chunk in chunks[:1]).lstrip()
    if not any(chunk.text.strip() for chunk in chunks):
        raise InputError(f"{place.path} is empty; name an input that has rows.")
    if "\0" in text[:4096]:
        raise InputError(f"{place.path} is no text; expected JSON lines, CSV, Parquet or ORC.")
    path, todo = place.path, []
    if re.match(r"\[\s*\{", text):
        chunks, path = [_in_lines(place, chunks)], f"{path}l"
        todo.append(
            "it is one JSON list, and the job reads an object on each line: "
            f"`jq -c '.[]' {place.path} > {path}` writes them"
        )
    lines = (_json if chunks[0].text.lstrip().startswith("{") else _csv)(path, chunks)
    options = {"format": lines.options.pop("format"), "path": (path, place.days_said), **lines.options}
    if lines.bad:
        said = f"{len(lines.bad):,} of the {lines.total:,} sampled lines"
        rate = allowed(len(lines.bad), lines.total)
        options["bad_records"] = ({"max_rate": rate}, f"{said} do not fit the others")
        if len(lines.bad) > rate * lines.total:
            lines.todo.append(
                f"{said} of {path} do not fit the others, such as {lines.bad[0][:40]!r}: mend them. A run allows for "
                f"{rate:.0%} of such lines."
            )
    if encoding != "UTF-8":
        options["encoding"] = (encoding, "the encoding in which all lines are text")
        todo += filter(None, [answers.todo("encoding")])
    table = place.table(options, lines.columns, [day for _, day in lines.rows])
    return replace(table, todo=(*lines.todo, *todo), where=lines.where)


def allowed(bad: int, of: int) -> float:
    """Return the rate of bad rows that a run is to allow for, given those in the sample."""
    return min(_MOST_BAD, max(0.01, float(f"{2 * bad / of:.1g}")))


def _chunks_of(place: InputPath, answers: Answers) -> tuple[str, list[_Chunk]]:
    """Read the beginning and the end of a few files of an input, or all of a small input. Returns the encoding, too."""
    files = some_of(place.files)
    most = max(_LEAST_BYTES, LITTLE // len(files))
    parts = [(data, is_start, place.day_of(file)) for file in files for data, is_start in _parts_of(file, most)]
    encoding = _encoding_of([data for data, *_ in parts], place, answers)
    read = "utf-8-sig" if encoding == "UTF-8" else encoding
    return encoding, [_Chunk(data.decode(read, errors="replace"), is_start, day) for data, is_start, day in parts]


def _parts_of(file: Path, most: int) -> Iterator[tuple[bytes, bool]]:
    """Yield the first lines of a file and, unless it is packed, the last ones; and whether they are the first ones."""
    packing = _packing_of(file)
    with pa.input_stream(str(file), compression=packing) as opened:
        head = opened.read(most)
        if not (more := opened.read(1)):
            yield head, True
            return
        yield (head + more).rpartition(b"\n")[0] + b"\n", True
        if packing is None:
            opened.seek(max(most, file.stat().st_size - most))
            yield opened.read().partition(b"\n")[2], False


def _packing_of(file: Path) -> str | None:
    """Return how Arrow unpacks a file. Raise InputError for files that the job cannot read."""
    with file.open("rb") as raw:
        magic = raw.read(4)
    for kind, (start, suffix) in _PACKED.items():
        packed = magic.startswith(start)
        if packed != (file.suffix == suffix):
            found = f"{kind}, but its name does not end" if packed else f"no {kind}, but its name ends"
            raise InputError(f"{file} is {found} in {suffix}, by which Spark tells; rename it.")
        if packed:
            return {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}[suffix]
    return None


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
    return chosen or "UTF-8"


def _decoded(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except (UnicodeDecodeError, LookupError):
        return None


# --- JSON


def _in_lines(place: InputPath, chunks: Sequence[_Chunk]) -> _Chunk:
    """Return the objects of one JSON list in a line each, as the job reads them."""
    try:
        rows = [row for chunk in chunks for row in json.loads(chunk.text)]
    except ValueError:
        raise InputError(
            f"{place.path} is one large JSON list; expected an object on each line, as `jq -c '.[]'` writes them."
        ) from None
    return _Chunk("\n".join(map(json.dumps, rows)), is_start=True, day=None)


def _json(path: str, chunks: Sequence[_Chunk]) -> _Lines:
    read = [(line, _object(line), chunk.day) for chunk in chunks for line in chunk.text.split("\n") if line.strip()]
    bad = [line for line, row, _ in read if row is None]
    if 2 * len(bad) > len(read):
        raise InputError(f"{path} holds no JSON lines: {len(bad):,} of {len(read):,} lines are no object.")
    rows = [(row, day) for _, row, day in read if row is not None and not _is_command(row)]
    if not rows:
        raise InputError(f"{path} has commands of a bulk upload and no rows; name an input that has rows.")
    lines = _Lines(rows, bad, {"format": ("json", "each line is a JSON object")})
    kind = type_of(lines.values)
    lines.columns = list(fields_of(kind, lines.values))
    schema = ", ".join(f"{quoted(one.name)} {ddl(one.type)}" for one in kind)
    lines.options["schema"] = (schema, "as the sampled lines have them")
    if lines.total < len(read):
        always = max(lines.columns, key=lambda one: len(one.present))
        lines.where = f"{always.expr} is not null"
        lines.todo.append(
            f"{path} has commands of a bulk upload between its rows; `where` leaves out these lines, which have no "
            f"{always.name}."
        )
    return lines


def _object(line: str) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def _is_command(row: Mapping[str, Any]) -> bool:
    """Whether an object is a command of a bulk upload, such as ``{"index": {"_id": 7}}``."""
    inner = next(iter(row.values()), None)
    return len(row) == 1 and isinstance(inner, dict) and all(key.startswith("_") for key in inner)


# --- CSV

_QUOTES: Mapping[tuple[str, str], dict[str, Any]] = {
    ('"', '"'): {},
    ('"', "\\"): {"doublequote": False, "escapechar": "\\"},
    ("", ""): {"quoting": csv.QUOTE_NONE},
    ("'", "'"): {"quotechar": "'"},
}
"""Characters for quotes, and before a quote within quotes. Empty ones are of files in which quotes mean nothing."""


def _csv(path: str, chunks: Sequence[_Chunk]) -> _Lines:
    delimiter, quotes = _dialect_of(chunks[0].text)
    parsed = [list(_records(path, chunk.text, delimiter, quotes)) for chunk in chunks]
    first = parsed[0][0]
    rows = [(row, chunk.day) for chunk, part in zip(chunks, parsed, strict=True) for row in part]
    below = [(row, day) for row, day in rows if row != first]
    usual = Counter(len(row) for row, _ in below or rows).most_common(1)[0][0]
    header = _is_header(first, [row for row, _ in below], usual)
    rows = below if header else rows
    if not rows:
        raise InputError(f"{path} has a header and no rows; name an input that has rows.")
    width = len(first) if header else usual
    bad = [delimiter.join(row) for row, _ in rows if len(row) != width]
    lines = _Lines(
        [one for one in rows if len(one[0]) == width], bad, {"format": ("csv", f"{width} values on each line")}
    )
    if header and any(one.is_start and part[:1] != [first] for one, part in zip(chunks, parsed, strict=True) if part):
        lines.todo.append(
            f"some files of {path} lack the line of names {delimiter.join(first)[:60]!r}: write it into each, since a run "
            "takes the first line of each file for names."
        )
    if delimiter != ",":
        lines.options["delimiter"] = (delimiter, "what splits all lines alike")
    if quotes != ('"', '"'):
        lines.options["quote"] = (quotes[0], "more lines have the usual values so")
    if quotes[1] not in ("", '"'):
        lines.options["escape"] = (quotes[1], "what stands before a quote within quotes")
    titles, cells = first if header else [""] * width, zip(*lines.values, strict=True)
    names, more = _names(titles) if header else ([f"c{n}" for n in range(1, width + 1)], {})
    lines.columns = [_column(*one) for one in zip(names, cells, titles, strict=True)]
    schema = ", ".join(f"{column.expr} {column.kind}" for column in lines.columns)
    why = "as the sampled lines have them" if header else "the file has no names: give better ones"
    lines.options |= {**more, "schema": (schema, why)}
    if not header:
        lines.todo.append(f"{path} has no line of names; `schema` calls its columns c1 to c{width}.")
    return lines


def _dialect_of(text: str) -> tuple[str, tuple[str, str]]:
    """Return the delimiter that splits the first lines evenly, and the quotes with which most lines are even.

    ``csv.Sniffer`` is misled by spaces and colons in text.
    """
    lines = [line for line in text[: 1 << 18].split("\n")[:2000] if line.strip()]

    def widths(delimiter: str, quotes: tuple[str, str]) -> list[int]:
        return [len(row) for line in lines for row in _split([line], delimiter, quotes)]

    def width(delimiter: str) -> int:
        found = widths(delimiter, ('"', '"'))
        usual, count = Counter(found).most_common(1)[0]
        return usual if found[0] == usual and 2 * count >= len(lines) else 1

    best = max("\t;|,", key=width)
    delimiter = best if width(best) > 1 else ","
    return delimiter, max(_QUOTES, key=lambda quotes: Counter(widths(delimiter, quotes)).most_common(1)[0][1])


def _split(lines: Iterable[str], delimiter: str, quotes: tuple[str, str]) -> Iterator[list[str]]:
    csv.field_size_limit(1 << 24)
    return csv.reader(lines, delimiter=delimiter, **_QUOTES[quotes])


def _records(path: str, text: str, delimiter: str, quotes: tuple[str, str]) -> Iterator[list[str]]:
    for row in _split(io.StringIO(text, newline=""), delimiter, quotes):
        if any("\n" in cell for cell in row):
            raise InputError(
                f"{path} has line breaks inside quotes, but the job reads a row on each line; replace them, or write "
                "the input as Parquet."
            )
        if any(row):
            yield row


def _is_header(first: Sequence[str], rest: Sequence[Sequence[str]], width: int) -> bool:
    """Whether the first line is a header: short texts in any language, unlike the values below."""
    named = [cell for cell in first if cell]
    if len(first) != width or len(first) - len(named) > (len(first) > 1) or not any(map(str.isalpha, "".join(named))):
        return False
    if any(_NUMBER.fullmatch(cell) or len(cell) > 64 or _TIMELIKE.match(cell) for cell in named):
        return False
    below = zip(*[row for row in rest[:2000] if len(row) == width], strict=True)
    same = any(cell and cell in cells for cell, cells in zip(first, below, strict=False))
    return not same and not any(cell.lower() in ("true", "false", "null") for cell in named)


def _names(titles: Sequence[str]) -> tuple[list[str], dict[str, tuple[Any, str]]]:
    """Return the column names, and the source options for the header line."""
    options: dict[str, tuple[Any, str]] = {"header": (True, "the first line holds names")}
    names: list[str] = []
    for n, name in enumerate(titles, 1):
        plain = plain_name(name) if name else "row"
        names.append(unused(plain or f"c{n}", {one.lower() for one in names}))
    if len({name.lower() for name in titles}) < len(titles):
        options["by_position"] = (True, "the first line names a column twice")
    elif renamed := {old: new for old, new in zip(titles, names, strict=True) if old != new}:
        index = list(renamed) == [""]
        why = "an index, as pandas writes it" if index else "names that SQL takes without quotes"
        options["rename"] = (renamed, why)
    return names, options


def _column(name: str, cells: Sequence[str], title: str) -> Column:
    """Return a column of CSV. ``title`` is its name in the first line, or empty."""
    values = {cell for cell in cells if cell}
    kind = _kind_of_cells(values)
    readers: dict[str, Callable[[str], Any]] = {"BIGINT": int, "DOUBLE": float, "BOOLEAN": _is_true}
    read = readers.get(kind, str)
    known = {cell: read(cell) for cell in values}
    title_ = title if title != name else ""
    return Column(name, quoted(name), kind, list(map(known.get, cells)), named=plain_name(title) != "", title=title_)


def _is_true(cell: str) -> bool:
    return cell.lower() == "true"


def _kind_of_cells(values: set[str]) -> str:
    """Return the type of a column. Ids too large for a number, or with leading zeros, stay text."""
    if values and {value.lower() for value in values} <= {"true", "false"}:
        return "BOOLEAN"
    if not values or any(not _NUMBER.fullmatch(value) or _LEADING_ZERO.match(value) for value in values):
        return "STRING"
    if all(map(_DIGITS.fullmatch, values)):
        return "BIGINT" if all(-(2**63) <= int(value) < 2**63 for value in values) else "STRING"
    return "DOUBLE" if all(len(value.partition(".")[0]) < 17 for value in values) else "STRING"
