"""Read what a service logged: tf.Examples, Parquet, JSON lines or CSV, with the id of each impression. No Spark."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pq

from ctr_samples.config import Served
from ctr_samples.config.problems import end_sentence, nearest
from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.errors import InputError
from ctr_samples.quality.measure.collecting import columns_of, measured
from ctr_samples.records.foreign import ForeignRecords, find_foreign
from ctr_samples.served.keys import ImpressionIndex
from ctr_samples.served.times import micros_of

ID, TIME = "_id", "_time"
"""Columns of a batch: the id of the impression, and when it was served, if the log says so."""

_BATCH = 1 << 16
_FORMATS = {".parquet": "parquet", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".csv": "csv"}


@dataclass(frozen=True, slots=True)
class ServedLog:
    """The files of a served log, and where they hold the features of the samples with ``contract``.

    ``columns`` maps each feature that the log has to the path of its column, ``absent`` has the others.
    """

    files: ForeignRecords
    contract: ExampleContract
    format: str
    columns: Mapping[str, Sequence[str]]
    id: Sequence[str]
    """Path of the column with the id. Empty if ``keys`` have the paths of the keys of impressions."""
    time: Sequence[str] | None
    keys: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @classmethod
    def open(cls, path: str, contract: ExampleContract, served: Served) -> ServedLog:
        """Find the files, and the columns of the features in the first of them. Raises InputError if there are none, or if
        the log has no id or no feature.
        """
        files = find_foreign(path)
        if files is None:
            raise InputError(
                f"--served {path} has no files of a served log; expected tf.Examples, Parquet, JSON lines or CSV. Samples of "
                "this product are compared with `ctr-samples compare`."
            )
        kind = _format(files.shards[0].path)
        if kind == "tfrecord":
            return cls(files, contract, kind, {name: (name,) for name in specs_of(contract)}, (_key(contract),), None)
        there = next(_tables(files, kind)).schema
        names = {name: tuple((served.columns.get(name) or name).split(".")) for name in specs_of(contract)}
        for name in served.columns:
            if name not in names:
                raise InputError(
                    end_sentence(f"served.columns: the samples have no feature {name!r}{nearest(name, names)}")
                )
            if not _has(there, names[name]):
                raise InputError(
                    f"served.columns.{name}: {path} has no column {served.columns[name]!r}; it has {', '.join(there.names)}."
                )
        found = {name: way for name, way in names.items() if _has(there, way)}
        keys = {} if served.id is not None else {name: tuple(text.split(".")) for name, text in served.keys.items()}
        for name, way in keys.items():
            if not _has(there, way):
                raise InputError(
                    f"served.keys.{name}: {path} has no column {served.keys[name]!r}; it has {', '.join(there.names)}."
                )
        id_ = () if keys else tuple((served.id or _key(contract)).split("."))
        if not keys and not _has(there, id_):
            raise InputError(
                f"{path} has no column {'.'.join(id_)!r} with the id of the impression; it has {', '.join(there.names)}. Say "
                "which one it is with `served.id`."
            )
        if not found:
            raise InputError(
                f"{path} has none of the features of the samples; it has {', '.join(there.names)}. Say under `served.columns` "
                "which column holds which feature."
            )
        time = tuple(served.time.split(".")) if served.time is not None else None
        if time is not None and not _has(there, time):
            raise InputError(f"served.time: {path} has no column {served.time!r}; it has {', '.join(there.names)}.")
        return cls(files, contract, kind, found, id_, time, keys)

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
        for table in _tables(self.files, self.format):
            for batch in table.to_batches(max_chunksize=_BATCH):
                columns = {}
                if self.time is not None:
                    columns[TIME] = pa.array(micros_of(_at(batch, self.time)))
                if index is None:
                    columns[ID] = self._ids(_at(batch, self.id))
                else:
                    times = columns[TIME].to_numpy() if TIME in columns else None
                    columns[ID] = index.find([_at(batch, way) for way in self.keys.values()], times)
                columns |= {name: _at(batch, way) for name, way in self.columns.items()}
                yield pa.RecordBatch.from_pydict(columns)

    def _examples(self) -> Iterator[pa.RecordBatch]:
        keep = [f for f in self.contract.features if f.role in ("feature", "key")]
        contract = replace(self.contract, features=tuple(replace(f, nulls="omit") for f in keep))
        for batches in self.files.batches(contract, None):
            for batch in batches:
                ids = batch.column(self.id[0])
                if ids.null_count:
                    raise InputError(
                        f"{ids.null_count:,} of {len(ids):,} examples of {self.files.title} have no {self.id[0]!r}. Pass it to "
                        "the Assembler: `given={'impression_id': ...}`."
                    )
                yield pa.RecordBatch.from_pydict({ID: ids, **dict(columns_of(batch, contract))})

    def _ids(self, column: pa.Array) -> pa.Array:
        try:
            return column.cast(pa.int64())
        except pa.ArrowInvalid:
            example = next(str(value) for value in column.to_pylist() if value is not None)
            raise InputError(
                f"{self.files.title}: {'.'.join(self.id)!r} holds {example!r}; expected the `impression_id` of the samples, a "
                "whole number. If the service knows only keys, say them under `served.keys`."
            ) from None


def specs_of(contract: ExampleContract) -> dict[str, FeatureSpec]:
    """Return the features that are compared. Parts of a joined vector are features of their own."""
    return {name: spec for name, spec in measured(contract).items() if spec.role == "feature"}


def _key(contract: ExampleContract) -> str:
    return next(iter(contract.names("key")), "impression_id")


def _format(path: str) -> str:
    name = path.removesuffix(".gz")
    return next((kind for end, kind in _FORMATS.items() if name.endswith(end)), "tfrecord")


def _tables(files: ForeignRecords, kind: str) -> Iterator[pa.Table]:
    """Yield the rows of the files, each of which is read as a whole."""
    for file in files.shards:
        data = files.storage.read(file.path)
        data = gzip.decompress(data) if file.path.endswith(".gz") else data
        try:
            yield _READ[kind](pa.BufferReader(data))
        except (pa.ArrowInvalid, OSError) as error:
            said = str(error).splitlines()[0]
            raise InputError(f"{files.storage.locate(file.path)} cannot be read as {kind}: {said}.") from None


_READ: Mapping[str, Any] = {
    "parquet": partial(pq.read_table, use_threads=False),
    "json": pa_json.read_json,
    "csv": pa_csv.read_csv,
}


def _has(schema: pa.Schema, way: Sequence[str]) -> bool:
    kind: Any = schema
    for part in way:
        if isinstance(kind, pa.DataType) and not pa.types.is_struct(kind):
            return False
        index = kind.get_field_index(part)
        if index < 0:
            return False
        kind = kind.field(index).type
    return True


def _at(batch: pa.RecordBatch, way: Sequence[str]) -> pa.Array:
    if not _has(batch.schema, way):
        return pa.nulls(batch.num_rows)
    column = batch.column(way[0])
    return pc.struct_field(column, list(way[1:])) if len(way) > 1 else column
