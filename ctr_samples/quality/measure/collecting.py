"""Measure the samples that a task writes, in the same pass. The task returns the measures with its receipt."""

from __future__ import annotations

import base64
import pickle
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ctr_samples.codec import ExampleEncoder
from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.quality.measure.numbers import PRECISION, ColumnMeasures, Flat, Frequent, Mergeable, no_values
from ctr_samples.quality.measure.requests import KEPT_BYTES, Records, RequestMeasures, ends_in_zeros
from ctr_samples.quality.measure.rows import Alike, ValueCounts, bytes_of, sums_with
from ctr_samples.quality.metrics import HOURS

LOOKED_AT = 1 << 12
"""Rows of each split that a task sketches."""
LOOKED_AT_BYTES = 8 << 20
"""Maximum size of the sketched rows in bytes, since the task holds them in memory."""
LOOKING = 32
"""Number of tasks that sketch. Samples are hashed to tasks, so the rows with the smallest hashes in the first tasks are
random. Only these tasks keep records of requests, too, if a request lies in one task.
"""
LEAST_BYTES = 16 << 10
"""Least size of the records of requests that a task keeps."""
MOST_COLUMNS = 250_000
"""Maximum number of columns over all tasks at full precision: Spark rejects task results above 1 GB."""
COARSE = 8
"""Precision beyond that limit: a standard error of 6.5 %."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The measures to collect. Pickled for the executors.

    ``label`` is the 0/1 label of the click rate, and ``flags`` are the other 0/1 labels. ``hour``, ``user``, ``request``
    and ``place`` are columns outside the contract: ``user`` holds the key named ``user_key``, ``request`` the hash of a
    request, whose samples have equal ``request_keys``, and ``place`` the hash of the impression. ``key`` is the key of
    the contract; equal keys are adjacent. Rows are in the order of ``place``, or ``by_request``. ``defaults`` replace
    missing numbers and texts, ``missing`` holds the ids of missing single values. ``hashed`` holds the number of hash
    buckets. ``tasks`` is the number of measuring tasks, whose results are collected in the driver's memory. ``by`` has
    columns of text outside the contract, by name, for whose values samples and positives are counted. ``biases`` are the
    features that serving does not know.
    """

    contract: ExampleContract
    label: str | None = None
    hour: str | None = None
    user: str | None = None
    key: str | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)
    missing: Mapping[str, int] = field(default_factory=dict)
    hashed: Mapping[str, int] = field(default_factory=dict)
    tasks: int = 1
    user_key: str = "user"
    request: str | None = None
    place: str | None = None
    request_keys: Sequence[str] = ()
    by_request: bool = False
    by: Mapping[str, str] = field(default_factory=dict)
    flags: Sequence[str] = ()
    biases: Sequence[str] = ()

    @property
    def precision(self) -> int:
        """Precision of the distinct-value registers, reduced if all registers together would exceed about 0.4 GB."""
        return PRECISION if self.tasks * len(measured(self.contract)) <= MOST_COLUMNS else COARSE


@dataclass(slots=True)
class SplitMeasures(Mergeable):
    """Measures of one split, from one task, or from all of them after they are merged."""

    rows: int = 0
    positives: int = 0
    by_hour: Any = field(default_factory=lambda: np.zeros((2, HOURS), np.int64))
    """Samples and positives of each hour."""
    flags: dict[str, Any] = field(default_factory=dict)
    """Positives of each hour for the other 0/1 labels."""
    by: dict[str, ValueCounts] = field(default_factory=dict)
    columns: dict[str, ColumnMeasures] = field(default_factory=dict)
    users: Frequent = field(default_factory=Frequent)
    requests: Frequent = field(default_factory=Frequent)
    alike: Alike = field(default_factory=Alike)
    biases: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Sums of each bias with each other feature, see :func:`sums_with`."""


@dataclass(slots=True)
class TaskMeasures(Mergeable):
    """Measures of one task, or of all tasks after they are merged."""

    same_keys: int = 0
    bytes: dict[str, int] = field(default_factory=dict)
    splits: dict[str, SplitMeasures] = field(default_factory=dict)
    sampled_requests: RequestMeasures = field(default_factory=RequestMeasures)

    def packed(self) -> str:
        """Return the measures as compressed text, since the driver collects the results of all tasks."""
        return base64.b64encode(zlib.compress(pickle.dumps(self))).decode()

    def add(self, packed: str) -> None:
        """Add the packed measures of another task."""
        self.merge(pickle.loads(zlib.decompress(base64.b64decode(packed))))  # noqa: S301  from our own tasks


class Collector:
    """Measures the batches of one task. Runs on an executor, in the encoding thread. Errors fail the task attempt."""

    def __init__(self, wanted: Wanted, partition: int) -> None:
        self._wanted = wanted
        self._looks = partition < LOOKING
        self._measures = TaskMeasures()
        self._splits: dict[str, _Split] = {}
        self._last_key: Any = None
        self._requests = RequestCollector(wanted, partition) if wanted.request and wanted.place else None

    def observe(self, rows: pa.RecordBatch, split: str) -> None:
        """Measure rows of a split, in written order."""
        if split not in self._splits:
            self._splits[split] = _Split(self._wanted, self._looks)
        self._splits[split].observe(rows)
        measures = self._measures
        if self._looks and not measures.bytes:
            measures.bytes = bytes_of(rows, self._wanted.contract)
        if self._wanted.key is not None and rows.num_rows:
            keys = rows.column(self._wanted.key).to_numpy(zero_copy_only=False)
            measures.same_keys += int(np.count_nonzero(keys[1:] == keys[:-1])) + int(self._last_key == keys[0])
            self._last_key = keys[-1]
        if self._requests is not None:
            self._requests.observe(rows)

    def close(self) -> str:
        """Return all measures, packed."""
        self._measures.splits = {name: split.close() for name, split in self._splits.items()}
        if self._requests is not None:
            self._measures.sampled_requests = self._requests.close()
        return self._measures.packed()


class RequestCollector:
    """Samples the requests of one task. Runs on an executor. Errors fail the task attempt."""

    def __init__(self, wanted: Wanted, partition: int) -> None:
        self._wanted = wanted
        # By request, a request lies in one task, in neighbouring rows.
        self._keeps = not wanted.by_request or partition < LOOKING
        self._most = max(LEAST_BYTES, KEPT_BYTES // (min(wanted.tasks, LOOKING) if wanted.by_request else wanted.tasks))
        self._measures = RequestMeasures(records=Records(self._most))
        self._encoder = ExampleEncoder(wanted.contract)
        self._waiting: list[pa.RecordBatch] = []
        self._size = 0

    def observe(self, rows: pa.RecordBatch) -> None:
        """Sample rows of any split."""
        column = rows.column(self._wanted.request)
        if column.null_count:
            return
        counts, records, requests = self._measures.counts, self._measures.records, column.to_numpy()
        counts.add(*np.unique(requests[ends_in_zeros(requests, counts.level)], return_counts=True))
        kept = np.flatnonzero(ends_in_zeros(requests, records.level))
        if not self._keeps or not len(kept):
            return
        self._waiting.append(rows.take(pa.array(kept)))
        self._size += self._waiting[-1].nbytes
        if self._size > self._most:
            self._encode()

    def _encode(self) -> None:
        wanted = self._wanted
        for rows in self._waiting:
            encoded = self._encoder.encode(rows.select(wanted.contract.names()))
            records = [bytes(encoded.records(row, row + 1)) for row in range(len(encoded))]
            requests, places = (rows.column(name).to_numpy() for name in (wanted.request, wanted.place))
            self._measures.records.add(requests, places, records)
        self._waiting, self._size = [], 0

    def close(self) -> RequestMeasures:
        """Return the sample."""
        self._encode()
        self._measures.counts.reduce()
        return self._measures


class _Split:
    """Measures one split in one task."""

    def __init__(self, wanted: Wanted, looks: bool) -> None:
        self._wanted = wanted
        self._measures = SplitMeasures(
            flags={name: np.zeros(HOURS, np.int64) for name in wanted.flags},
            by={name: ValueCounts() for name in wanted.by},
            columns={name: ColumnMeasures(registers=no_values(wanted.precision)) for name in measured(wanted.contract)},
        )
        self._room = LOOKED_AT if looks else 0
        self._kept: list[pa.RecordBatch] = []
        self._largest = 2**63 - 1

    def observe(self, rows: pa.RecordBatch) -> None:
        if not rows.num_rows:
            return
        wanted, measures = self._wanted, self._measures
        label = self._label(rows, wanted.label)
        measures.rows += rows.num_rows
        measures.positives += 0 if label is None else int(label.sum())
        if wanted.hour is not None:
            hours = rows.column(wanted.hour).to_numpy(zero_copy_only=False)
            measures.by_hour[0] += np.bincount(hours, minlength=HOURS)
            if label is not None:
                measures.by_hour[1] += np.bincount(hours, label, HOURS).astype(np.int64)
            for name in measures.flags:
                measures.flags[name] += np.bincount(hours, self._label(rows, name), HOURS).astype(np.int64)
        if label is not None:
            for name, column_name in wanted.by.items():
                measures.by[name].observe(rows.column(column_name), label)
        for name, column in columns_of(rows, wanted.contract):
            measures.columns[name].observe(column, wanted.defaults.get(name), wanted.missing.get(name))
        if wanted.by_request:
            # Tasks differ in size here, and all samples of a user may be in one of them, so sketched rows do not do.
            self._count_users(rows)
        if self._room > 0:
            self._keep(rows)

    def _count_users(self, rows: pa.RecordBatch) -> None:
        if self._wanted.user is not None:
            users = rows.column(self._wanted.user)
            self._measures.users.observe(users.drop_null(), None)
            self._measures.users.seen += users.null_count

    def _keep(self, rows: pa.RecordBatch) -> None:
        """Keep the rows with the smallest hashes for sketching. In the order by impression these are the first rows, so
        sketch once enough are kept.
        """
        if self._wanted.by_request and self._wanted.place is not None:
            self._keep_smallest(rows, self._wanted.place)
            return
        fitting = max(1, LOOKED_AT_BYTES * rows.num_rows // max(1, rows.nbytes)) - sum(r.num_rows for r in self._kept)
        kept = rows.slice(0, max(0, min(self._room, fitting)))
        self._kept.append(kept)
        self._room -= kept.num_rows
        if self._room == 0 or kept.num_rows < rows.num_rows:
            self._look()

    def _keep_smallest(self, rows: pa.RecordBatch, place: str) -> None:
        below = rows.filter(pc.less(rows.column(place), self._largest))
        if not below.num_rows:
            return
        self._kept.append(below)
        kept = sum(batch.num_rows for batch in self._kept)
        room = max(1, LOOKED_AT_BYTES * kept // max(1, sum(batch.nbytes for batch in self._kept)))
        if kept > 2 * min(self._room, room):
            whole = _combined(self._kept)
            smallest = np.argsort(whole.column(place).to_numpy(), kind="stable")[: min(self._room, room)]
            self._kept = [whole.take(pa.array(smallest))]
            self._largest = self._kept[0].column(place)[-1].as_py()

    def _look(self) -> None:
        self._room = 0
        if not self._kept:
            return
        rows = _combined(self._kept)
        self._kept = []
        label = self._label(rows, self._wanted.label)
        contract = self._wanted.contract
        specs = measured(contract)
        for name, column in columns_of(rows, contract):
            as_numbers, as_values = kinds(specs[name])
            default = self._wanted.missing.get(name, self._wanted.defaults.get(name))
            self._measures.columns[name].look(column, label, default, as_numbers=as_numbers, as_values=as_values)
        if self._wanted.request is not None:
            self._measures.requests.observe(rows.column(self._wanted.request).drop_null(), None)
        if not self._wanted.by_request:
            self._count_users(rows)
        self._measures.biases = sums_with(rows, self._wanted.biases, contract.names("feature"))
        self._measures.alike = Alike.of(rows, contract, np.zeros(rows.num_rows) if label is None else label)

    def _label(self, rows: pa.RecordBatch, name: str | None) -> npt.NDArray[Any] | None:
        return None if name is None else (rows.column(name).to_numpy(zero_copy_only=False) != 0).astype(np.int64)

    def close(self) -> SplitMeasures:
        self._look()
        return self._measures


def _combined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def measured(contract: ExampleContract) -> dict[str, FeatureSpec]:
    """Return the specs of the measured columns: all except the key. A dense vector is replaced by its parts."""
    specs = {spec.name: spec for spec in contract.features if spec.role != "key"}
    vector = _joined(contract)
    if vector is not None:
        del specs[vector.name]
        specs |= {
            part.name: FeatureSpec(part.name, "float32", () if part.size == 1 else (part.size,))
            for part in contract.parts
        }
    return specs


def columns_of(rows: pa.RecordBatch, contract: ExampleContract) -> Sequence[tuple[str, pa.Array]]:
    """Return the names and arrays of the measured columns of a batch."""
    vector = _joined(contract)
    columns = [(s.name, rows.column(s.name)) for s in contract.features if s.role != "key" and s is not vector]
    if vector is None or vector.size is None:
        return columns
    values = Flat.of(rows.column(vector.name)).values.to_numpy().reshape(rows.num_rows, vector.size)
    for part in contract.parts:
        inside = np.ascontiguousarray(values[:, part.start : part.start + part.size]).reshape(-1)
        array = pa.array(inside)
        columns.append((part.name, array if part.size == 1 else pa.FixedSizeListArray.from_arrays(array, part.size)))
    return columns


def _joined(contract: ExampleContract) -> FeatureSpec | None:
    """Return the vector that joins all features in a dense layout, or None for other layouts."""
    if contract.layout not in ("dense", "legacy_121") or not contract.parts:
        return None
    return next(spec for spec in contract.features if spec.role == "feature")


def kinds(spec: FeatureSpec) -> tuple[bool, bool]:
    """Return whether to sketch a column as numbers, and whether as repeated values. Single integers that are not ids
    are sketched as both.

    Integers in lists are ids: their mean is meaningless, and new ids every day are not drift.
    """
    if spec.dtype in ("float32", "float64"):
        return True, False
    return spec.dtype == "int64" and spec.buckets is None and spec.shape == (), True
