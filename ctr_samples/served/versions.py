"""What a service could have seen: all rows of the keys of some impressions, and other forms of their features.

Spark computes every value with the job's own expressions, so a served value that equals one of them was made from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ctr_samples.config import JobConfig, SnapshotView
from ctr_samples.errors import InputError
from ctr_samples.samples.builder import SampleBuilder
from ctr_samples.samples.features.row import IMPRESSION, ROWS, SampleColumns, made
from ctr_samples.samples.inputs.watched import Inputs
from ctr_samples.samples.views.as_of.matching import KEY, PAYLOAD
from ctr_samples.samples.views.as_of.planning import AVAILABLE_TIME, CLOSED, EVENT_TIME, GONE, SEQUENCE, VALID_TO
from ctr_samples.served.causes import Alternative
from ctr_samples.served.columns import Column, Ints
from ctr_samples.served.delays import NO_TIME, Versions
from ctr_samples.sparksql.columns import joint_key, quoted
from ctr_samples.vocabulary import FittedState

NEAREST = 64
"""Rows of a view that are tried for a feature over several tables: those nearest in time to the impression."""
_FEW = 1000
"""Impressions for which such features are tried."""
_TIMES = ("_event", "_available", "_end", "_closed")
_ID, _AT = f"{IMPRESSION}.impression_id", f"{IMPRESSION}.impression_time"


Others = Mapping[str, Sequence[tuple[Alternative, Column]]]
"""Values of features in other forms, by feature."""


@dataclass(frozen=True, slots=True)
class Explanations:
    """What there is for the impressions with ``ids``: the rows of views, and values in other forms, by feature."""

    ids: Ints
    versions: Mapping[str, Mapping[str, Versions]]
    others: Others


def found_for(
    inputs: Inputs,
    state: FittedState | None,
    ids: Sequence[int],
    names: Sequence[str],
    alternatives: Sequence[Alternative],
) -> Explanations:
    """Find all rows of the keys of some impressions, for some features. Runs some Spark jobs on the driver.

    Raises the errors of a run.
    """
    config = inputs.config
    forms = {f"{one.of}__{number}": one for number, one in enumerate(alternatives)}
    crossed = [part for name in names for part in config.features[name].cross or ()]
    wanted = config.model_copy(update={"features": {name: config.features[name] for name in (*names, *crossed)}})
    with_forms = {**wanted.features, **{name: one.feature for name, one in forms.items()}}
    every = config.model_copy(update={"features": with_forms})
    rows, views = SampleBuilder(replace(inputs, config=every), state).joined_few(ids)
    few = _Few.of(rows.localCheckpoint(), wanted, state)
    versions: dict[str, dict[str, Versions]] = {name: {} for name in names}
    for view in config.views:
        for home in (view, ROWS):
            of_home = [name for name in names if few.reads(name, view, home)]
            if of_home:
                of_view = few.versions(view, views.rows(view), of_home, home)
                for name in of_home:
                    versions[name][view] = of_view
    return Explanations(few.ids, versions, few.others(forms, state))


@dataclass(frozen=True, slots=True)
class _Few:
    """Some impressions with their joined rows, and the features that are sought. ``base`` has their ids, times and keys of
    views, in the order of the ids.
    """

    rows: DataFrame
    config: JobConfig
    columns: SampleColumns
    base: pa.Table

    @classmethod
    def of(cls, rows: DataFrame, config: JobConfig, state: FittedState | None) -> Self:
        keys = [_key_of(config, view).alias(f"key.{view}") for view in config.views]
        base = rows.select(F.col(_ID).alias("id"), F.unix_micros(_AT).alias("at"), *keys).toArrow().sort_by("id")
        return cls(rows, config, SampleColumns.of(rows.limit(0), config, state), base)

    @property
    def ids(self) -> Ints:
        return np.asarray(self.base.column("id").to_numpy(), np.int64)

    def reads(self, name: str, view: str, home: str) -> bool:
        """Whether a feature has a home, and reads a view."""
        paths = self.columns.paths[name]
        return self.columns.homes[name] == home and (home == view or any(path[0] == view for path in paths))

    def values(self, table: pa.Table, name: str, column: str) -> Column:
        """Return the values of a feature in a column."""
        specs = {spec.name: spec for spec in self.columns.contract.features}
        return Column.of(table.column(column), specs[name])

    def others(self, forms: Mapping[str, Alternative], state: FittedState | None) -> Others:
        """Return the values of features in other forms."""
        found: dict[str, list[tuple[Alternative, Column]]] = {}
        for name, form in forms.items():
            one = self.config.model_copy(update={"features": {name: form.feature}})
            try:
                columns = SampleColumns.of(self.rows.limit(0), one, form.state or state)
            except (InputError, KeyError):
                continue  # what it is made from is not there any more
            rows = columns.add(self.rows, columns.homes[name])
            table = (
                rows.select(F.col(_ID).alias("id"), F.col(quoted(made(name))).alias("value")).toArrow().sort_by("id")
            )
            found.setdefault(form.of, []).append((form, self.values(table, form.of, "value")))
        return found

    def versions(self, view: str, rows: DataFrame, names: Sequence[str], home: str) -> Versions:
        """Compute features over all rows of a view: once for each row, or for each impression and the rows of its key."""
        kind, others = cast(StructType, self.rows.schema[view].dataType), [c for c in self.rows.columns if c != view]
        rows = _timed(rows)
        own = self.rows.withColumn("_own", _key_of(self.config, view))
        if isinstance(self.config.views[view], SnapshotView):
            rows = rows.unionByName(_missing(rows, own), allowMissingColumns=True)
        if home == ROWS:
            chosen = own.orderBy(F.xxhash64(_ID)).limit(_FEW).drop(view)
            apart = F.unix_micros(_AT) - F.unix_micros(EVENT_TIME)
            rank = F.row_number().over(Window.partitionBy(_ID).orderBy(F.abs(apart)))
            pairs = chosen.join(rows, F.col("_own") == F.col("_key")).select("*", rank.alias("_rank"))
            near, nothing = pairs.where(F.col("_rank") <= NEAREST), chosen
            age, group, of_nothing = apart / 1_000_000, F.col(_ID).cast("string"), F.col(_ID).cast("string")
        else:
            keys = own.select(F.col("_own").alias("_wanted")).distinct()
            near = rows.join(F.broadcast(keys), F.col("_key") == F.col("_wanted"), "left_semi")
            nothing, others = self.rows.limit(1), []
            age, group, of_nothing = F.lit(None), F.col("_key"), F.lit(None).cast("string")
        payload = {n: F.col(PAYLOAD)[n] for n in rows.schema[PAYLOAD].dataType.names}  # type: ignore[attr-defined]
        matched = _struct(kind, {**payload, "age_s": age, "matched": F.lit(True)})
        there = near.select(*others, matched.alias(view), group.alias("_group"), *_TIMES, "_sequence")
        none = _struct(kind, {"matched": F.lit(False)})
        absent = nothing.select(*others, none.alias(view), of_nothing.alias("_group"))
        frame = self.columns.add(there.unionByName(absent, allowMissingColumns=True), home)
        features = [F.col(quoted(made(name))).alias(name) for name in names]
        table = frame.select("_group", *_TIMES, "_sequence", *features).toArrow()
        return self._grouped(view, table, names, home)

    def _grouped(self, view: str, table: pa.Table, names: Sequence[str], home: str) -> Versions:
        """Return rows in the order of their groups, in these of their times."""
        groups = _ranked(table.column("_group"), table.column("_group"))
        sequence = _ranked(table.column("_sequence"), table.column("_sequence"))
        event, available, end, closed = (
            np.asarray(table.column(name).fill_null(NO_TIME).to_numpy(), np.int64) for name in _TIMES
        )
        order = np.lexsort((sequence, available, event, groups))
        sorted_table = table.take(pa.array(order))
        of = self.base.column("id" if home == ROWS else f"key.{view}").cast(pa.string())
        return Versions(
            self.config.views[view],
            groups[order],
            event[order],
            available[order],
            end[order],
            closed[order],
            {name: self.values(sorted_table, name, name) for name in names},
            _ranked(of, table.column("_group")),
            np.asarray(self.base.column("at").to_numpy(), np.int64),
        )


def _timed(rows: DataFrame) -> DataFrame:
    """Return the rows of a view with all that a row may have beside its key: times, whether it is gone, a sequence."""
    if AVAILABLE_TIME not in rows.columns:  # a static table has no other versions, but a look-up may fail
        never = F.lit(None).cast("timestamp")
        rows = rows.withColumns({EVENT_TIME: never, AVAILABLE_TIME: never}).where(F.lit(False))
    # A row that is over is told by its end, so that a tombstone is over from the beginning.
    end = F.unix_micros(VALID_TO) if VALID_TO in rows.columns else F.lit(None).cast("long")
    if GONE in rows.columns:
        end = F.when(F.col(GONE), F.unix_micros(EVENT_TIME)).otherwise(end)
    closed = F.unix_micros(CLOSED) if CLOSED in rows.columns else F.lit(None).cast("long")
    times = (F.unix_micros(EVENT_TIME), F.unix_micros(AVAILABLE_TIME), end, closed)
    return rows.select(
        F.col(KEY).cast("string").alias("_key"),
        EVENT_TIME,
        AVAILABLE_TIME,
        *(time.alias(name) for name, time in zip(_TIMES, times, strict=True)),
        (F.col(SEQUENCE) if SEQUENCE in rows.columns else F.lit(0)).alias("_sequence"),
        PAYLOAD,
    )


def _missing(rows: DataFrame, own: DataFrame) -> DataFrame:
    """Return a row that is gone for each snapshot of a view that lacks the key of an impression."""
    keys = own.select(F.col("_own").alias("_key")).where(F.col("_key").isNotNull()).distinct()
    snapshots = rows.select(EVENT_TIME, AVAILABLE_TIME, "_event", "_available").distinct()
    every = keys.crossJoin(F.broadcast(snapshots)).withColumn("_end", F.col("_event"))
    return every.join(rows.select("_key", EVENT_TIME), ["_key", EVENT_TIME], "left_anti")


def _struct(kind: StructType, values: Mapping[str, SparkColumn]) -> SparkColumn:
    """Return a struct with some values, and null in its other fields."""
    fields = [values.get(one.name, F.lit(None)).cast(one.dataType).alias(one.name) for one in kind.fields]
    return F.struct(*fields).cast(kind)


def _key_of(config: JobConfig, view: str) -> SparkColumn:
    """Return the key of an impression in a view, as text."""
    parts = [F.col(part if "." in part else f"{IMPRESSION}.{part}") for part in config.views[view].joined_on]
    return joint_key(parts).cast("string")


def _ranked(values: pa.ChunkedArray, among: pa.ChunkedArray) -> Ints:
    """Return the place of each value in the order of others, -1 for those that are none of them."""
    order = pc.drop_null(among).unique().sort()
    return np.asarray(pc.index_in(values, value_set=order).fill_null(-1).to_numpy(), np.int64)
