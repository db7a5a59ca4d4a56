"""Features that are computed over the rows of a view, before the join: once for each row instead of each impression."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from ctr_samples.config import View, WindowView
from ctr_samples.samples.features.row import AGE, SampleColumns, made
from ctr_samples.samples.views.aggregates import filled
from ctr_samples.samples.views.as_of.matching import PAYLOAD
from ctr_samples.sparksql.columns import quoted

_ROW = "the row"
"""Column with all columns of a row, whose names might be that of a view."""


@dataclass(frozen=True, slots=True)
class ViewFeatures:
    """The features of one view. ``kind`` is the struct that they refer to, and ``kept`` has its columns that stay."""

    name: str
    view: View
    columns: SampleColumns
    kind: StructType
    kept: tuple[str, ...]

    @property
    def payload(self) -> StructType:
        """Type of the payload of the computed rows."""
        features = [StructField(made(name), self.columns.kinds[name].dataType) for name in self.columns.at(self.name)]
        return StructType([*features, *[self.kind[name] for name in self.kept]])

    def over(self, rows: DataFrame) -> DataFrame:
        """Return rows of the view with their features as ``payload``. Lazy."""
        own = [rows[PAYLOAD][field.name].alias(field.name) for field in self._fields()]
        struct = self.complete(rows.select(F.struct("*").alias(_ROW), self._struct(own, matched=True)))
        computed = self.columns.add(struct, self.name)
        others = [F.col(_ROW)[name].alias(name) for name in rows.columns if name != PAYLOAD]
        return computed.select(*others, self.taken().alias(PAYLOAD))

    def of_nothing(self) -> Column:
        """Return the struct of an impression without a row."""
        return self._struct([F.lit(None).cast(f.dataType).alias(f.name) for f in self._fields()], matched=False)

    def complete(self, rows: DataFrame) -> DataFrame:
        """Fill empty windows with zeros in the struct of the view."""
        if not isinstance(self.view, WindowView):
            return rows
        others = [F.col(quoted(name)) for name in rows.columns if name != self.name]
        return rows.select(*others, filled(rows, self.name, self.view.aggregates))

    def taken(self, *, variants: bool = True) -> Column:
        """Return the payload, given the struct of the view and its features, perhaps without columns with a VARIANT."""
        features = [F.col(made(name)) for name in self.columns.at(self.name)]
        kept = [name for name in self.kept if variants or "variant" not in self.kind[name].dataType.simpleString()]
        return F.struct(*features, *[F.col(quoted(self.name))[name].alias(name) for name in kept])

    def _fields(self) -> list[StructField]:
        return [field for field in self.kind if field.name not in (AGE, "matched")]

    def _struct(self, own: Sequence[Column], *, matched: bool) -> Column:
        age = F.lit(None).cast("double").alias(AGE)
        return F.struct(*own, age, F.lit(matched).alias("matched")).alias(self.name)


def absent_payloads(
    spark: SparkSession, columns: SampleColumns, views: Sequence[ViewFeatures]
) -> dict[str, pa.StructArray]:
    """Return the payload of each view for an impression without a row. Runs a Spark job of one row, and another one if
    vocabularies give ids to features of views.

    A column with a VARIANT is left out. It is null there, and PySpark cannot collect one that is null in a struct.
    """
    if not views:
        return {}
    rows = spark.range(1).select(*[view.of_nothing() for view in views])
    for view in views:
        rows = view.complete(rows)
    computed = columns.add_to_one(rows, [view.name for view in views])
    table = computed.select(*[view.taken(variants=False).alias(view.name) for view in views]).toArrow()
    return {view.name: table[view.name].combine_chunks() for view in views}
