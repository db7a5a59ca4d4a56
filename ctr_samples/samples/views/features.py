"""Views whose keys or counts need rows of other views, and the features of views that are computed once for each row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from ctr_samples.config import DailyCountView, View, WindowView
from ctr_samples.errors import InputError
from ctr_samples.samples.columnar.stages import Stage
from ctr_samples.samples.features.row import AGE, IMPRESSION, SampleColumns, made
from ctr_samples.samples.impressions import matching_rows
from ctr_samples.samples.inputs.watched import Inputs
from ctr_samples.samples.views.aggregates import filled
from ctr_samples.samples.views.as_of.joining import join_by_shuffle
from ctr_samples.samples.views.as_of.matching import PAYLOAD
from ctr_samples.samples.views.as_of.planning import VALID_TO, Join
from ctr_samples.samples.views.rows import as_of, is_empty, usable, view_rows
from ctr_samples.sparksql.columns import content_hash, joint_key, key_column, quoted, time_column
from ctr_samples.sparksql.expressions import columns_of_data, referenced_paths

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


_ACTION = "the action"
"""Column with all columns of an action, whose names might be that of a view."""


def with_looked_up(inputs: Inputs, source: DataFrame, name: str, view: View) -> DataFrame:
    """Add a struct for each view under ``look_up``: its row that was valid just before the action and known by then.

    Returns the rows that may match ``where`` and that have a time, with the columns that the view needs. Lazy. Raises
    InputError if the source has a column with the name of such a view.
    """
    if not isinstance(view, WindowView | DailyCountView) or not view.look_up:
        return source
    where = f"views.{name}"
    for other in view.look_up:
        if other.lower() in {column.lower() for column in source.columns}:
            raise InputError(
                f"{where}.look_up: the source {view.source!r} has a column {other!r} already, so `{other}.x` would have two "
                "meanings; rename the view."
            )
    paths = {
        tuple(part.lower() for part in path)
        for text in _texts(view)
        for path in referenced_paths(source.sparkSession, text, where)
    }
    own = {path[0] for path in paths}
    rows = matching_rows(source, view.where_of_source, f"{where}.where")
    rows = rows.select(*[F.col(quoted(column)) for column in source.columns if column.lower() in own])
    time = time_column(rows, view.event_time, f"{where}.event_time")
    keys = {
        other: joint_key([key_column(rows, text, f"{where}.look_up.{other}") for text in texts]).alias(other)
        for other, texts in view.look_up.items()
    }
    known = {"impression_id": content_hash(rows), "impression_time": time}
    action = F.struct(*[column.alias(part) for part, column in known.items()], *keys.values()).alias(IMPRESSION)
    packed = rows.where(time.isNotNull()).select(F.struct("*").alias(_ACTION), action)
    joins = [_join(inputs, other, [path[1:] for path in paths if path[0] == other.lower()]) for other in view.look_up]
    stage = reduce(lambda left, join: join_by_shuffle(left, [join], inputs.partitions()), joins, Stage.of(packed))
    return stage.rows().select(f"{_ACTION}.*", *view.look_up)


def _join(inputs: Inputs, name: str, wanted: Sequence[tuple[str, ...]]) -> Join:
    """Return the rows of a view with the ``wanted`` columns. An empty path stands for the whole row."""
    view = inputs.config.views[name]
    source = inputs.uncounted(view.source)
    columns = [
        column for column in columns_of_data(source) if any(not path or path[0] == column.lower() for path in wanted)
    ]
    rows = usable(view_rows(source, name, view, columns))
    return Join(as_of(name, view, [name]), rows.where(~is_empty()) if VALID_TO in rows.columns else rows)


def _texts(view: WindowView | DailyCountView) -> Iterator[str]:
    """Yield all expressions over a row of the view's source."""
    yield from (view.event_time, *view.keys)
    if view.where is not None:
        yield view.where
    for texts in view.look_up.values():
        yield from texts
    if isinstance(view, DailyCountView):
        yield from view.daily_counts.counts.values()
    else:
        counted = view.aggregates
        if view.available_time is not None:
            yield view.available_time
        yield from (*counted.counts.values(), *counted.sums.values(), *counted.distinct.values())
