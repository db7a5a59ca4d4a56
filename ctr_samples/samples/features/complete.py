"""Complete samples from impressions, their views and the features that are already computed. Runs on executors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import ByteType, DataType, FloatType, LongType, StringType, StructField, StructType

from ctr_samples.config import JobConfig
from ctr_samples.config.base import SAMPLE_WEIGHT
from ctr_samples.contract import ExampleContract
from ctr_samples.samples.columnar.blocks import Counts
from ctr_samples.samples.columnar.columns import Flags, flags, integers
from ctr_samples.samples.features.contracts import laid_out_kind, lay_out
from ctr_samples.samples.features.row import (
    HOUR,
    IMPRESSION,
    REQUEST,
    ROWS,
    SHUFFLE,
    SPLIT,
    TRAIN,
    USER,
    WEIGHT,
    SampleColumns,
    made,
    value_of,
)
from ctr_samples.samples.labels.counts import LabelMasks

JOINED = "joined"
"""Count of the samples that are complete."""

_BESIDE: Mapping[str, DataType] = {
    SPLIT: ByteType(),
    REQUEST: LongType(),
    SHUFFLE: LongType(),
    HOUR: ByteType(),
    USER: StringType(),
}
_ID = "impression_id"


@dataclass(frozen=True, slots=True)
class MakeSamples:
    """Collects the columns of a sample, lays them out, and counts the samples. Pickled for executors.

    ``paths`` has the column of each feature, or a struct and the field. ``masks`` makes the masks of labels. ``negatives`` is
    the rate at which negatives of train are kept, or None if rules give each sample a weight, ``heavy`` the key whose shares
    are measured, or None, and ``by`` has the columns of impressions by whose values rates are counted.
    """

    contract: ExampleContract
    layout: str
    labels: tuple[str, ...]
    paths: Mapping[str, tuple[str, ...]]
    masks: LabelMasks
    negatives: float | None = None
    heavy: str | None = None
    by: tuple[str, ...] = ()
    also: Sequence[str] = ()
    """Further columns, which stay under the names of :func:`beside`, since a feature may have the name of a view."""

    @classmethod
    def of(cls, columns: SampleColumns, config: JobConfig, masks: LabelMasks, also: Sequence[str] = ()) -> Self:
        """Return the step for samples whose features are computed by ``columns``."""
        paths = {
            name: (made(name),) if home in (ROWS, IMPRESSION) else (home, made(name))
            for name, home in columns.homes.items()
        }
        rate = None if config.sampling is None else config.sampling.negatives
        heavy, by = config.measured_key, config.impressions.rates_by
        return cls(columns.contract, config.output.layout, tuple(config.labels), paths, masks, rate, heavy, by, also)

    def kind(self, features: StructType, also: Sequence[StructField] = ()) -> StructType:
        """Return the type of the samples, given the types of the features, and of further columns."""
        record = [
            StructField(f.name, FloatType() if f.dtype == "float32" else LongType())
            for f in self.contract.features
            if f.role != "feature"
        ]
        kinds = StructType([*features, *record])
        # These columns are measured, and written to no record.
        others = [StructField(name, kind) for name, kind in _BESIDE.items()]
        others += [StructField(value_of(name), StringType()) for name in self.by]
        others += [StructField(beside(field.name), field.dataType, field.nullable) for field in also]
        return StructType([*laid_out_kind(kinds, self.contract, self.layout), *others])

    def __call__(self, rows: pa.RecordBatch, counts: Counts) -> Iterator[pa.RecordBatch]:
        """Yield the samples of a batch, and count them."""
        counts.add(JOINED, rows.num_rows)
        columns = self.masks.columns(rows, _column(rows, (IMPRESSION, "impression_time")), rows.column(HOUR), counts)
        columns |= {name: rows.column(name) for name in self.contract.names("label", "mask") if name not in columns}
        columns[_ID] = _column(rows, (IMPRESSION, _ID))
        if self.negatives is not None:
            columns[SAMPLE_WEIGHT] = weights_of(rows, self.labels, self.negatives)
        elif SAMPLE_WEIGHT in self.contract.names():
            columns[SAMPLE_WEIGHT] = rows.column(WEIGHT)
        columns_beside = {name: rows.column(name) for name in _BESIDE if name != USER}
        heavy = None if self.heavy is None else _column(rows, (IMPRESSION, self.heavy)).cast(pa.string())
        columns_beside[USER] = pa.nulls(rows.num_rows, pa.string()) if heavy is None else heavy
        columns_beside |= {value_of(name): _column(rows, (IMPRESSION, name)).cast(pa.string()) for name in self.by}
        columns_beside |= {beside(name): rows.column(name) for name in self.also}
        columns |= {name: _column(rows, path) for name, path in self.paths.items()}
        yield pa.RecordBatch.from_pydict(lay_out(columns, self.contract, self.layout) | columns_beside)


def beside(name: str) -> str:
    """Return the name under which a further column stands beside a sample."""
    return f"_beside {name}"


def _column(rows: pa.RecordBatch, path: Sequence[str]) -> pa.Array:
    first, *fields = path
    return reduce(pc.struct_field, fields, rows.column(first))


def weights_of(rows: pa.RecordBatch, labels: Iterable[str], rate: float) -> pa.Array:
    """Return the weight of each sample, of which negatives of train are kept at a ``rate``."""
    weights = np.where(negatives_of_train(rows, labels), 1.0 / rate, 1.0)
    return pa.array(weights.astype(np.float32))


def negatives_of_train(rows: pa.RecordBatch, labels: Iterable[str]) -> Flags:
    """Return whether each sample is in train and all its labels are zero. Other splits keep the positive rate of logs."""
    negative: Flags = integers(rows.column(SPLIT)) == TRAIN
    for name in labels:
        negative &= flags(pc.equal(rows.column(name), pa.scalar(0, rows.column(name).type)))
    return negative
