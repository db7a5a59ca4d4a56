"""Features that are one column of joined rows, its numbers or hashed ids in their shape: as :mod:`.one_feature`, in Arrow.

Most features over joined rows are such: a value of two sources, what a history lists, the age of a row. If no other one is
left, no sample goes to Spark and back.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.types import ArrayType, BooleanType, DoubleType, FloatType, MapType, StringType, StructType

from ctr_samples.config import Feature
from ctr_samples.feature_rules import PAIRS
from ctr_samples.samples.columnar.columns import Flags, Integers, in_order, integers, spread, stable_hashes, there
from ctr_samples.samples.features.pairs import Lists, column_at, doubles, values_of_maps
from ctr_samples.sparksql.columns import INTEGERS
from ctr_samples.sparksql.expressions import type_at

Numbers = npt.NDArray[Any]

_KEYS = {"from_", *PAIRS, "dtype", "shape", "ragged", "pad", "default", "nulls", "encoding"}
_OF_NUMBERS, _OF_IDS = _KEYS | {"fill", "top_k", "order"}, _KEYS | {"hash_buckets", "salt"}
"""What a direct feature may say. With any other key it takes an expression."""
_WHOLE = (BooleanType, *INTEGERS)
_NUMBERS = {"int64": _WHOLE, "float32": (FloatType, DoubleType, *_WHOLE)}
_HASHED = (StringType, *INTEGERS)


@dataclass(frozen=True, slots=True)
class DirectFeature:
    """Makes a feature of the column at ``path``. Pickled for executors.

    A list is cut and padded to ``size``, if it ``pads``. One that ``sorts`` has the numbers of a list or of a map in order.
    ``hashed`` has the salt and the number of ids that values are hashed to, if they are.
    """

    path: Sequence[str]
    kind: pa.DataType
    default: float
    fill: float | None
    is_nullable: bool
    size: int
    pads: bool
    sorts: bool
    smallest: bool
    top_k: int | None
    hashed: tuple[str, int] | None

    @classmethod
    def of(
        cls, name: str, feature: Feature, path: Sequence[str] | None, rows: StructType, histories: Collection[str]
    ) -> Self | None:
        """Return the feature of a column of ``rows``, or None if it takes an expression.

        :func:`~ctr_samples.samples.features.one_feature.feature_column` checks that the column fits the feature.
        """
        kind = None if path is None else type_at(rows, path)
        hashed = None if feature.hash_buckets is None else (feature.salt or name, feature.hash_buckets - 1)
        keys, accepted = (_OF_IDS, _HASHED) if hashed else (_OF_NUMBERS, _NUMBERS.get(feature.dtype, ()))
        item = kind.elementType if isinstance(kind, ArrayType) else kind
        if isinstance(kind, MapType) and not hashed:
            item = kind.valueType
        is_direct = feature.model_dump(exclude_defaults=True).keys() <= keys
        if path is None or not is_direct or not isinstance(item, accepted):
            return None
        default, fill = cast(float, feature.default_value), cast(float | None, feature.fill)
        fits_shape = feature.pad or feature.top_k is not None or path[0] in histories or hashed
        return cls(
            tuple(path),
            pa.int64() if feature.dtype == "int64" else pa.float64(),
            default,
            fill,
            is_nullable=feature.nulls != "default",
            size=prod(feature.shape) if feature.shape else 0,
            pads=bool(feature.shape and fits_shape),
            sorts=isinstance(kind, MapType) or feature.top_k is not None,
            smallest=feature.order == "smallest",
            top_k=feature.top_k,
            hashed=hashed,
        )

    def over(self, rows: pa.RecordBatch) -> pa.Array:
        """Return the values of the feature, as ``bigint`` or ``double``, or lists of them. Runs on executors."""
        column = column_at(rows, self.path)
        if pa.types.is_map(column.type):
            return self._listed(values_of_maps(column))
        return self._listed(Lists.of(column)) if pa.types.is_list(column.type) else self._single(column)

    def _numbers(self, column: pa.Array) -> Numbers:
        if self.hashed is not None:
            salt, buckets = self.hashed
            return stable_hashes(salt, column) % buckets + 1
        return integers(column) if self.kind == pa.int64() else doubles(column)

    def _single(self, column: pa.Array) -> pa.Array:
        known, missing = there(column), self.default if self.fill is None else self.fill
        numbers = np.where(known, self._numbers(column), missing)
        return pa.array(numbers, self.kind, mask=~known if self.is_nullable else None)

    def _listed(self, lists: Lists) -> pa.Array:
        known, sizes, numbers, are_there = lists.there, lists.sizes, self._numbers(lists.items), there(lists.items)
        if self.sorts:
            numbers, sizes = self._in_order(numbers, are_there, lists.rows, len(sizes))
            are_there = np.ones(len(numbers), np.bool_)
        if self.fill is not None:
            numbers = np.where(are_there, numbers, self.fill)
        if self.fill is not None or self.hashed is not None:  # null has an id, too
            are_there = np.ones_like(are_there)
        return self._in_shape(numbers, are_there, sizes, known)

    def _in_shape(self, numbers: Numbers, are_there: Flags, sizes: Integers, known: Flags) -> pa.ListArray:
        """Return lists of their length in the record, from numbers of which each list has some. Not all lists are ``known``."""
        lengths = np.full_like(sizes, self.size) if self.pads else np.where(known, sizes, self.size)
        if self.is_nullable:
            lengths = np.where(known, lengths, 0)
        ends = np.concatenate([[0], np.cumsum(lengths)])
        copied = np.minimum(sizes, lengths)
        taken, places = spread(np.cumsum(sizes) - sizes, copied), spread(ends[:-1], copied)
        values, absent = np.full(ends[-1], self.default, self.kind.to_pandas_dtype()), np.zeros(ends[-1], np.bool_)
        values[places], absent[places] = numbers[taken], ~are_there[taken]
        items = pa.array(values, self.kind, mask=absent if absent.any() else None)
        mask = pa.array(~known) if self.is_nullable else None
        return pa.ListArray.from_arrays(pa.array(ends.astype(np.int32)), items, mask=mask)

    def _in_order(self, numbers: Numbers, are_there: Flags, rows: Integers, count: int) -> tuple[Numbers, Integers]:
        """Return the first numbers of each row in order, without null and NaN, and how many each row has. -0.0 becomes 0.0."""
        kept = are_there & ~np.isnan(numbers)
        numbers, rows = numbers[kept], rows[kept]
        keys = numbers
        if self.kind == pa.float64():
            numbers = numbers + 0.0
            bits = numbers.view(np.int64)
            keys = bits ^ ((bits >> 63) & np.iinfo(np.int64).max)  # integers in the order of the numbers
        numbers = numbers[in_order([rows, keys if self.smallest else ~keys])]
        counts = np.bincount(rows, minlength=count)
        if self.top_k is None:
            return numbers, counts
        most = np.minimum(counts, self.top_k)
        return numbers[spread(np.cumsum(counts) - counts, most)], most
