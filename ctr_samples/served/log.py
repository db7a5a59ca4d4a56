"""Read what a service logged: tf.Examples, Parquet, JSON lines or CSV, with the id of each impression. No Spark.

Tables are read one file at a time. Their text stays as it is written.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pq

from ctr_samples.codec.kernel_columns import is_list
from ctr_samples.config import JobConfig, Served
from ctr_samples.config.problems import end_sentence, nearest
from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.errors import InputError
from ctr_samples.quality.measure.collecting import columns_of, measured
from ctr_samples.records.foreign import ForeignRecords, find_foreign
from ctr_samples.served.keys import ImpressionIndex

ID, TIME = "_id", "_time"
"""Columns of a batch: the id of the impression, and when it was served, if the log says so."""

_BATCH = 1 << 16
_EXACT = 2.0**53
"""Above it, not every whole number is a float."""
_FORMATS = {".parquet": "parquet", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".csv": "csv"}
_ERRORS = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError)
_UNITS = ((1e11, 1_000_000), (1e14, 1000), (1e17, 1))
"""Numbers below each limit count seconds, milliseconds, or microseconds since 1970, for times until the year 5000."""

Way = Sequence[str]
"""Names of a column and of the fields in it."""


@dataclass(frozen=True, slots=True)
class ServedLog:
    """The files of a served log, and where they hold the features of the samples with ``contract``.

    ``columns`` maps each feature that the log has to the path of its column, ``absent`` has the others.
    """

    files: ForeignRecords
    contract: ExampleContract
    format: str
    columns: Mapping[str, Way]
    id: Way
    """Path of the column with the id. Empty if ``keys`` have the paths of the keys of impressions."""
    time: Way | None
    keys: Mapping[str, Way] = field(default_factory=dict)

    @classmethod
    def open(cls, path: str, contract: ExampleContract, served: Served) -> ServedLog:
        """Find the files, and the columns of the features in any of them. Raises InputError if there are none, or if
        the log has no id or no feature.
        """
        files = find_foreign(path)
        if files is None:
            raise InputError(
                f"--served {path} has no files of a served log; expected tf.Examples, Parquet, JSON lines or CSV. Samples of "
                "this product are compared with `ctr-samples compare`."
            )
        kind, specs = _format_of(files), specs_of(contract)
        key = next(iter(contract.names("key")), "impression_id")
        if kind == "tfrecord":
            return cls(files, contract, kind, {name: (name,) for name in specs}, (key,), None)
        there = _schema_of(files, kind)
        it_has = f"it has {', '.join(there.names)}."

        def way_of(setting: str, text: str) -> Way:
            if not _has(there, way := _way(there, text)):
                raise InputError(f"served.{setting}: {path} has no column {text!r}; {it_has}")
            return way

        columns = {name: way for name in specs if _has(there, way := _way(there, name))}
        for name, text in served.columns.items():
            if name not in specs:
                raise InputError(
                    end_sentence(f"served.columns: the samples have no feature {name!r}{nearest(name, specs)}")
                )
            columns[name] = way_of(f"columns.{name}", text)
        keys = {} if served.id is not None else {n: way_of(f"keys.{n}", text) for n, text in served.keys.items()}
        id_ = () if keys else _way(there, served.id or key)
        if not keys and not _has(there, id_):
            raise InputError(
                f"{path} has no column {'.'.join(id_)!r} with the id of the impression; {it_has[:-1]}. Say which one it is "
                "with `served.id`."
            )
        if not columns:
            raise InputError(
                f"{path} has none of the features of the samples; {it_has} Say under `served.columns` which column holds "
                "which feature."
            )
        time = None if served.time is None else way_of("time", served.time)
        return cls(files, contract, kind, {name: columns[name] for name in specs if name in columns}, id_, time, keys)

    @property
    def absent(self) -> list[str]:
        """Features that the log does not have."""
        return [name for name in specs_of(self.contract) if name not in self.columns]

    def batches(self, index: ImpressionIndex | None) -> Iterator[pa.RecordBatch]:
        """Yield the lines of the log with ``_id``, ``_time`` and a column for each feature that it has. ``index`` finds the ids
        of a log with keys.

        Raises DamagedFile for a file that cannot be read, and InputError for ids that are no whole numbers.
        """
        if self.format == "tfrecord":
            yield from self._examples()
            return
        specs = specs_of(self.contract)
        texts = [way for name, way in self.columns.items() if specs[name].dtype == "bytes"]
        texts += [*self.keys.values(), *([self.time] if self.time is not None else [])]
        for file in self.files.shards:
            with _refused(self.files, file.path, self.format):
                table = self._table(file.path, texts)
            for batch in table.to_batches(max_chunksize=_BATCH):
                columns = {}
                if self.time is not None:
                    columns[TIME] = pa.array(micros_of(_at(batch, self.time)))
                if index is None:
                    columns[ID] = self._ids(_at(batch, self.id))
                else:
                    times = columns[TIME].to_numpy() if TIME in columns else None
                    columns[ID] = index.find([self._text_of_key(batch, way) for way in self.keys.values()], times)
                for name, way in self.columns.items():
                    columns[name] = plain(_at(batch, way), specs[name], self._where(way))
                yield pa.RecordBatch.from_pydict(columns)

    def _table(self, path: str, texts: Collection[Way]) -> pa.Table:
        """Return the rows of a file. ``texts`` has the columns that hold text even where it looks like something else."""
        content = _content(self.files, path)
        if self.format == "json":
            return _of_json(content)
        if self.format == "parquet":
            return pq.read_table(pa.BufferReader(content), use_threads=False)
        types = pa_csv.ConvertOptions(column_types={".".join(way): pa.string() for way in texts})
        return pa_csv.read_csv(pa.BufferReader(content), convert_options=types)

    def _examples(self) -> Iterator[pa.RecordBatch]:
        joined = self.contract.layout in ("dense", "legacy_121")
        keep = [replace(f, nulls="omit") for f in self.contract.features if f.role in ("feature", "key")]
        if not joined:  # values of any number are compared
            keep = [f if f.role == "key" else replace(f, shape=None) for f in keep]
        contract = replace(self.contract, features=tuple(keep))
        for batches in self.files.batches(contract, None):
            for batch in batches:
                ids = batch.column(self.id[0])
                if ids.null_count:
                    raise InputError(
                        f"{ids.null_count:,} of {len(ids):,} examples of {self.files.title} have no {self.id[0]!r}. Pass it to "
                        "the Assembler: `given={'impression_id': ...}`."
                    )
                for spec in contract.features if joined else ():
                    if nulls := batch.column(spec.name).null_count:
                        raise InputError(
                            f"{nulls:,} of {len(ids):,} examples of {self.files.title} have no {spec.name!r} of {spec.size} "
                            "numbers, in which the samples join their features. Serve with the contract of the samples."
                        )
                yield pa.RecordBatch.from_pydict({ID: ids, **dict(columns_of(batch, contract))})

    def _where(self, way: Way) -> str:
        return f"{self.files.title}: the column {'.'.join(way)!r}"

    def _text_of_key(self, batch: pa.RecordBatch, way: Way) -> pa.Array:
        column = _at(batch, way)
        try:
            text = column.cast(pa.string())
        except _ERRORS:
            raise InputError(
                f"{self._where(way)} is {column.type}; expected keys of impressions, text or whole numbers. Check "
                "`served.keys`."
            ) from None
        return pc.if_else(pc.equal(text, ""), None, text) if self.format == "csv" else text

    def _ids(self, column: pa.Array) -> pa.Array:
        if pa.types.is_uint64(column.type):
            column = column.view(pa.int64())
        if pa.types.is_floating(column.type) and (pc.max(pc.abs(column)).as_py() or 0) >= _EXACT:
            raise InputError(
                f"{self.files.title}: {'.'.join(self.id)!r} holds floats, in which ids lose their last digits; log them as "
                "whole numbers or as text."
            )
        try:
            return column.cast(pa.int64())
        except _ERRORS:
            example = next(str(value) for value in column.to_pylist() if value is not None)
            raise InputError(
                f"{self.files.title}: {'.'.join(self.id)!r} holds {example!r}; expected the `impression_id` of the samples, a "
                "whole number. If the service knows only keys, say them under `served.keys`."
            ) from None


def specs_of(contract: ExampleContract) -> dict[str, FeatureSpec]:
    """Return the features that are compared. Parts of a joined vector are features of their own."""
    return {name: spec for name, spec in measured(contract).items() if spec.role == "feature"}


def without_biases(contract: ExampleContract, config: JobConfig) -> ExampleContract:
    """Return the contract without features with a ``bias``: a service gets a constant in their place."""
    biases = {name for name, feature in config.features.items() if feature.bias is not None}
    return replace(contract, features=tuple(f for f in contract.features if f.name not in biases))


def _has(schema: pa.Schema, way: Way) -> bool:
    kind: Any = schema
    for part in way:
        if isinstance(kind, pa.DataType) and not pa.types.is_struct(kind):
            return False
        index = kind.get_field_index(part)
        if index < 0:
            return False
        kind = kind.field(index).type
    return True


def _way(schema: pa.Schema, text: str) -> Way:
    """Return the way to a column of this name or, if there is none, to a field of a column."""
    return (text,) if text in schema.names else tuple(text.split("."))


def _at(batch: pa.RecordBatch, way: Way) -> pa.Array:
    if not _has(batch.schema, way):
        return pa.nulls(batch.num_rows)
    column = batch.column(way[0])
    return pc.struct_field(column, list(way[1:])) if len(way) > 1 else column


def _format_of(files: ForeignRecords) -> str:
    """Return the format of the files, by the name of the first one or, without a known ending, by its first byte."""
    path = files.shards[0].path
    name = path.removesuffix(".gz")
    known = next((kind for end, kind in _FORMATS.items() if name.endswith(end)), None)
    return known or ("json" if _content(files, path, 1)[:1] == b"{" else "tfrecord")


def _schema_of(files: ForeignRecords, kind: str) -> pa.Schema:
    """Return all columns that any of the files has. The types are those that the names of fields need."""
    found = []
    for file in files.shards:
        content = _content(files, file.path, 1 if kind == "csv" else None)
        with _refused(files, file.path, kind):
            if kind == "parquet":
                schema = pq.read_schema(pa.BufferReader(content))
            elif kind == "json":
                schema = _of_json(content).schema
            else:
                schema = pa_csv.open_csv(pa.BufferReader(content)).schema
        found.append(pa.schema([pa.field(field.name, _shape(field.type)) for field in schema]))
    return pa.unify_schemas(found, promote_options="permissive")


def _shape(kind: pa.DataType) -> pa.DataType:
    """Return a type that says only which fields a column has."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _shape(field.type)) for field in kind])
    return pa.null()


@contextmanager
def _refused(files: ForeignRecords, path: str, kind: str) -> Iterator[None]:
    """Raise InputError for a file that has another format."""
    try:
        yield
    except (*_ERRORS, OSError, ValueError) as error:
        said = str(error).splitlines()[0].rstrip(".")
        raise InputError(f"{files.storage.locate(path)} cannot be read as {kind}: {said}.") from None


def _content(files: ForeignRecords, path: str, lines: int | None = None) -> bytes:
    """Return a file, or its first lines."""
    try:
        with files.storage.open(path) as file, gzip.open(file) if path.endswith(".gz") else file as content:
            return b"".join(islice(content, lines)) if lines is not None else content.read()
    except (EOFError, OSError, zlib.error) as error:
        raise InputError(f"{files.storage.locate(path)} is no whole gzip file: {error}.") from None


def _of_json(data: bytes) -> pa.Table:
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
    while is_list(leaf):
        leaf = leaf.value_type
    if spec.dtype == "bytes":
        wanted = [] if _is_text(leaf) or pa.types.is_binary(leaf) or pa.types.is_large_binary(leaf) else [pa.string()]
    else:
        is_number = pa.types.is_integer(leaf) or pa.types.is_floating(leaf) or pa.types.is_boolean(leaf)
        maybe_whole = spec.dtype == "int64" or _is_text(leaf)
        wanted = [] if is_number else [pa.int64(), pa.float64()] if maybe_whole else [pa.float64()]
    if not wanted or pa.types.is_null(leaf):
        return column
    for kind in wanted:
        try:
            return column.cast(_with_leaf(column.type, kind))
        except _ERRORS:
            continue
    what = "text" if spec.dtype == "bytes" else "numbers"
    raise InputError(
        f"{where} is {column.type}; expected {what}, as the samples have them. Say under `served.columns` which column holds "
        "the feature."
    )


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _with_leaf(kind: pa.DataType, leaf: pa.DataType) -> pa.DataType:
    return pa.list_(_with_leaf(kind.value_type, leaf)) if is_list(kind) else leaf


def micros_of(times: pa.Array) -> npt.NDArray[np.int64]:
    """Return times as microseconds since 1970. Raises InputError for text without a zone, and for times that are missing."""
    kind = times.type
    if times.null_count:
        raise InputError(f"served.time: {times.null_count:,} served lines have no time; leave them out of the log.")
    if pa.types.is_timestamp(kind):
        if kind.tz is None:
            raise InputError("served.time: the times have no zone; expected instants, such as timestamps in UTC.")
        return _micros(times)
    if _is_text(kind):
        if not pc.all(pc.match_substring_regex(times, r"^-?\d+(\.\d+)?$")).as_py():
            return _micros(_instants(times))
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise InputError(f"served.time: the column is {kind}; expected times, or numbers since 1970.")
    numbers = np.asarray(times.cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64)
    largest = float(np.abs(numbers).max(initial=0.0))
    factor = next((factor for limit, factor in _UNITS if largest < limit), None)
    if factor is None:
        raise InputError(f"served.time: {largest:.0f} is no time; expected seconds, ms or µs since 1970.")
    return np.asarray(np.round(numbers * factor), np.int64)


def _micros(times: pa.Array) -> npt.NDArray[np.int64]:
    return np.asarray(times.cast(pa.timestamp("us", "UTC"), safe=False).cast(pa.int64()).to_numpy(), np.int64)


def _instants(texts: pa.Array) -> pa.Array:
    zoned = pc.match_substring_regex(texts, r"(Z|[+-]\d\d:?\d\d)$")
    if not pc.all(zoned).as_py():
        without = texts.filter(pc.invert(zoned))[0].as_py()
        raise InputError(f"served.time: {without!r} has no zone; expected one, as in '2019-06-05T10:00:00+08:00'.")
    try:
        return texts.cast(pa.timestamp("ns", "UTC"))
    except pa.ArrowInvalid as error:
        raise InputError(f"served.time: {str(error).splitlines()[0]}; expected ISO 8601.") from None
