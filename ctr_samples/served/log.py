"""Read what a service logged: tf.Examples, Parquet, JSON lines or CSV, with the id of each impression. No Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ctr_samples.config import JobConfig, Served
from ctr_samples.config.problems import end_sentence, nearest
from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.errors import InputError
from ctr_samples.quality.measure.collecting import columns_of, measured
from ctr_samples.records.foreign import ForeignRecords, find_foreign
from ctr_samples.served.keys import ImpressionIndex
from ctr_samples.served.tables import Way, format_of, plain, schema_of, tables_of
from ctr_samples.served.times import micros_of

ID, TIME = "_id", "_time"
"""Columns of a batch: the id of the impression, and when it was served, if the log says so."""

_BATCH = 1 << 16
_EXACT = 2.0**53
"""Above it, not every whole number is a float."""


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
        kind = format_of(files)
        if kind == "tfrecord":
            return cls(files, contract, kind, {name: (name,) for name in specs_of(contract)}, (_key(contract),), None)
        there = schema_of(files, kind)
        names = {name: _way(there, served.columns.get(name) or name) for name in specs_of(contract)}
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
        keys = {} if served.id is not None else {name: _way(there, text) for name, text in served.keys.items()}
        for name, way in keys.items():
            if not _has(there, way):
                raise InputError(
                    f"served.keys.{name}: {path} has no column {served.keys[name]!r}; it has {', '.join(there.names)}."
                )
        id_ = () if keys else _way(there, served.id or _key(contract))
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
        time = None if served.time is None else _way(there, served.time)
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
        specs = specs_of(self.contract)
        texts = [way for name, way in self.columns.items() if specs[name].dtype == "bytes"]
        texts += [*self.keys.values(), *([self.time] if self.time is not None else [])]
        for table in tables_of(self.files, self.format, texts):
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
                    where = f"{self.files.title}: the column {'.'.join(way)!r}"
                    columns[name] = plain(_at(batch, way), specs[name], where)
                yield pa.RecordBatch.from_pydict(columns)

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

    def _text_of_key(self, batch: pa.RecordBatch, way: Way) -> pa.Array:
        column = _at(batch, way)
        try:
            text = column.cast(pa.string())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise InputError(
                f"{self.files.title}: the column {'.'.join(way)!r} is {column.type}; expected keys of impressions, text or "
                "whole numbers. Check `served.keys`."
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
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
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


def _key(contract: ExampleContract) -> str:
    return next(iter(contract.names("key")), "impression_id")


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
