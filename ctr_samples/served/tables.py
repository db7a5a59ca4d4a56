"""Rows of a served log from Parquet, JSON lines or CSV, one file at a time. Text stays as it is written."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Collection, Iterator, Sequence
from itertools import islice

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pq

from ctr_samples.contract import FeatureSpec
from ctr_samples.errors import InputError
from ctr_samples.records.foreign import ForeignRecords

_FORMATS = {".parquet": "parquet", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".csv": "csv"}
_ERRORS = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError)

Way = Sequence[str]
"""Names of a column and of the fields in it."""


def format_of(files: ForeignRecords) -> str:
    """Return the format of the files, by the name of the first one or, without a known ending, by its first byte."""
    path = files.shards[0].path
    name = path.removesuffix(".gz")
    known = next((kind for end, kind in _FORMATS.items() if name.endswith(end)), None)
    return known or ("json" if _head(files, path, 1)[:1] == b"{" else "tfrecord")


def tables_of(files: ForeignRecords, kind: str, texts: Collection[Way]) -> Iterator[pa.Table]:
    """Yield the rows of each file. ``texts`` has the columns that hold text even where it looks like something else.

    Raises InputError for a file that cannot be read.
    """
    for file in files.shards:
        try:
            yield _table(_content(files, file.path), kind, texts)
        except (*_ERRORS, OSError) as error:
            said = str(error).splitlines()[0].rstrip(".")
            raise InputError(f"{files.storage.locate(file.path)} cannot be read as {kind}: {said}.") from None


def schema_of(files: ForeignRecords, kind: str) -> pa.Schema:
    """Return all columns that any of the files has. The types are those that the names of fields need."""
    found = []
    for file in files.shards:
        try:
            if kind == "parquet":
                schema = pq.read_schema(pa.BufferReader(_content(files, file.path)))
            elif kind == "json":
                schema = _table(_content(files, file.path), kind, ()).schema
            else:
                schema = pa_csv.open_csv(pa.BufferReader(_head(files, file.path, 1))).schema
        except (*_ERRORS, OSError, ValueError) as error:
            said = str(error).splitlines()[0].rstrip(".")
            raise InputError(f"{files.storage.locate(file.path)} cannot be read as {kind}: {said}.") from None
        found.append(pa.schema([pa.field(field.name, _shape(field.type)) for field in schema]))
    return pa.unify_schemas(found, promote_options="permissive")


def _shape(kind: pa.DataType) -> pa.DataType:
    """Return a type that says only which fields a column has."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _shape(field.type)) for field in kind])
    return pa.null()


def _content(files: ForeignRecords, path: str) -> bytes:
    return _head(files, path, None)


def _head(files: ForeignRecords, path: str, lines: int | None) -> bytes:
    """Return the first lines of a file, or all."""
    try:
        with files.storage.open(path) as file, gzip.open(file) if path.endswith(".gz") else file as content:
            return b"".join(islice(content, lines)) if lines is not None else content.read()
    except (EOFError, OSError, zlib.error) as error:
        raise InputError(f"{files.storage.locate(path)} is no whole gzip file: {error}.") from None


def _table(data: bytes, kind: str, texts: Collection[Way]) -> pa.Table:
    if kind == "parquet":
        return pq.read_table(pa.BufferReader(data), use_threads=False)
    if kind == "csv":
        types = {".".join(way): pa.string() for way in texts}
        return pa_csv.read_csv(pa.BufferReader(data), convert_options=pa_csv.ConvertOptions(column_types=types))
    if not data.strip():
        return pa.table({})
    table = pa_json.read_json(pa.BufferReader(data))
    schema = pa.schema([field.with_type(_with_text(field.type)) for field in table.schema])
    if schema == table.schema:
        return table
    return pa_json.read_json(pa.BufferReader(data), parse_options=pa_json.ParseOptions(explicit_schema=schema))


def _with_text(kind: pa.DataType) -> pa.DataType:
    """Return a type with text in place of times: JSON has none, but Arrow reads text that looks like a time as one."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_with_text(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_with_text(kind.value_type))
    return pa.string() if pa.types.is_temporal(kind) else kind


def plain(column: pa.Array, spec: FeatureSpec, where: str) -> pa.Array:
    """Return a column as text or as numbers, whichever the feature has. Raises InputError if it is neither."""
    leaf = column.type
    while pa.types.is_list(leaf) or pa.types.is_large_list(leaf) or pa.types.is_fixed_size_list(leaf):
        leaf = leaf.value_type
    is_text = pa.types.is_string(leaf) or pa.types.is_large_string(leaf)
    if spec.dtype == "bytes":
        wanted = [] if is_text or pa.types.is_binary(leaf) or pa.types.is_large_binary(leaf) else [pa.string()]
    else:
        wanted = [pa.int64(), pa.float64()] if is_text else []
    if not wanted or pa.types.is_null(leaf):
        return column
    for kind in wanted:
        try:
            return column.cast(_with_leaf(column.type, kind))
        except _ERRORS:
            continue
    what = "text" if spec.dtype == "bytes" else "numbers"
    raise InputError(
        f"{where} is {column.type}; expected {what}, as the samples have. Say under `served.columns` which column holds the "
        "feature."
    )


def _with_leaf(kind: pa.DataType, leaf: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(_with_leaf(kind.value_type, leaf))
    return leaf
