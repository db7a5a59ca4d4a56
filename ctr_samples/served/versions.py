"""What a service could have seen: all rows of the keys of some impressions, and other forms of their features.

Spark computes every value with the job's own expressions, so a served value that equals one of them was made from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ctr_samples.config import EventView, Feature, JobConfig, SnapshotView, View, WindowView
from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.errors import InputError
from ctr_samples.samples.builder import SampleBuilder
from ctr_samples.samples.features.row import IMPRESSION, ROWS, SampleColumns, made
from ctr_samples.samples.inputs.watched import Inputs
from ctr_samples.samples.views.as_of.matching import KEY, PAYLOAD
from ctr_samples.samples.views.as_of.planning import AVAILABLE_TIME, CLOSED, EVENT_TIME, GONE, SEQUENCE, VALID_TO
from ctr_samples.served.columns import Column
from ctr_samples.sparksql.columns import joint_key, quoted
from ctr_samples.vocabulary import FittedState

NEAREST = 64
"""Rows of a view that are tried for a feature over several tables: those nearest in time to the impression."""
_FEW = 1000
"""Impressions for which such features are tried."""
NO_TIME = np.iinfo(np.int64).min
"""Time of a row that stands for no match, and of an end that does not come."""
_TIMES = ("_group", "_event", "_available", "_end", "_closed")

Micros = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Versions:
    """Rows of a view, by ``group``: the key of an impression, or its number. Row 0 is that of no match.

    ``event`` and ``available`` are microseconds since 1970. A row is over from ``end`` on, for those who know that since
    ``closed``; a tombstone, or an entity that a snapshot lacks, is over from the beginning. ``of`` is the group of each
    impression, -1 for none. ``setting`` is the key of the configuration that delays the rows, if one does.
    """

    group: Micros
    event: Micros
    available: Micros
    end: Micros
    closed: Micros
    features: Mapping[str, Column]
    of: Micros
    max_age: timedelta | None
    delay: timedelta
    setting: str | None


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another form of a feature: what it is called, its definition, and the fitted state that it uses."""

    of: str
    cause: str
    what: str
    feature: Feature
    state: FittedState | None


@dataclass(frozen=True, slots=True)
class Found:
    """What there is for the impressions with ``ids``: their times, the versions of views by feature, and alternatives."""

    ids: Micros
    times: Micros
    versions: Mapping[str, Mapping[str, Versions]] = field(default_factory=dict)
    alternatives: Sequence[tuple[Alternative, Column]] = ()


def found_for(
    inputs: Inputs,
    state: FittedState | None,
    ids: Sequence[int],
    differing: Sequence[str],
    alternatives: Sequence[Alternative],
    contract: ExampleContract,
) -> Found:
    """Find all rows of the keys of some impressions, for the features that differ. Runs some Spark jobs on the driver.

    ``contract`` has one feature per configured feature. Raises the errors of a run.
    """
    config = inputs.config
    specs = {spec.name: spec for spec in contract.features}
    forms = {f"{one.of}__{number}": one for number, one in enumerate(alternatives)}
    wanted = {name: config.features[name] for name in differing} | _crossed(config, differing)
    every = config.model_copy(update={"features": wanted | {name: one.feature for name, one in forms.items()}})
    few, views = SampleBuilder(_with(inputs, every), state).joined_few(ids)
    few = few.localCheckpoint()
    columns = SampleColumns.of(few.limit(0), every.model_copy(update={"features": wanted}), state)
    base = _table(
        few.select(F.col(f"{IMPRESSION}.impression_id").alias("id"), _time(f"{IMPRESSION}.impression_time", "at"))
    )
    known = np.asarray(base.column("id").to_numpy(), np.int64)
    order = np.argsort(known)
    times = np.asarray(base.column("at").to_numpy(), np.int64)[order]
    versions: dict[str, dict[str, Versions]] = {name: {} for name in differing}
    for view in config.views:
        mine = [name for name in differing if columns.homes[name] == view]
        others = [n for n in differing if columns.homes[n] == ROWS and any(p[0] == view for p in columns.paths[n])]
        rows = views.rows(view)
        if AVAILABLE_TIME not in rows.columns:  # a static table has no other versions, but a look-up may fail
            never = F.lit(None).cast("timestamp")
            rows = rows.withColumns({EVENT_TIME: never, AVAILABLE_TIME: never}).where(F.lit(False))
        for names, home in ((mine, view), (others, ROWS)):
            if names:
                made_of = _versions(config, few, rows, view, columns, names, home, known[order], specs)
                for name in names:
                    versions[name][view] = made_of
    return Found(known[order], times, versions, list(_alternatives(few, every, forms, state, known[order], specs)))


def _with(inputs: Inputs, config: JobConfig) -> Inputs:
    return replace(inputs, config=config)


def _crossed(config: JobConfig, names: Sequence[str]) -> dict[str, Feature]:
    return {part: config.features[part] for name in names for part in config.features[name].cross or ()}


def _alternatives(
    few: DataFrame,
    config: JobConfig,
    forms: Mapping[str, Alternative],
    state: FittedState | None,
    ids: Micros,
    specs: Mapping[str, FeatureSpec],
) -> Iterator[tuple[Alternative, Column]]:
    for name, form in forms.items():
        one = config.model_copy(update={"features": {name: form.feature}})
        try:
            columns = SampleColumns.of(few.limit(0), one, form.state or state)
        except (InputError, KeyError):
            continue  # what it is made from is not there any more
        rows = columns.add(few, columns.homes[name])
        table = _table(
            rows.select(F.col(f"{IMPRESSION}.impression_id").alias("id"), F.col(quoted(made(name))).alias("value"))
        )
        places = np.argsort(np.asarray(table.column("id").to_numpy(), np.int64))
        yield form, Column.of(table.column("value").take(pa.array(places)), specs[form.of], form.of)


def _versions(
    config: JobConfig,
    few: DataFrame,
    rows: DataFrame,
    view: str,
    columns: SampleColumns,
    names: Sequence[str],
    home: str,
    ids: Micros,
    specs: Mapping[str, FeatureSpec],
) -> Versions:
    """Compute features over all rows of a view: once for each row, or for each impression and the rows of its key."""
    own = few.select("*", _key_of(config, view, few).alias("_own"))
    kind = few.schema[view].dataType
    payload = F.struct(*[F.col(PAYLOAD)[name].alias(name) for name in rows.schema[PAYLOAD].dataType.names])  # type: ignore[attr-defined]
    ends = [_or_never(VALID_TO, rows).alias("_end"), _or_never(CLOSED, rows).alias("_closed")]
    gone = (F.coalesce(F.col(GONE), F.lit(False)) if GONE in rows.columns else F.lit(False)).alias("_gone")
    sequence = (F.col(SEQUENCE) if SEQUENCE in rows.columns else F.lit(0)).alias("_sequence")
    key = F.col(KEY).cast("string").alias("_key")
    text = rows.select(key, EVENT_TIME, AVAILABLE_TIME, *ends, gone, sequence, payload.alias(PAYLOAD))
    if isinstance(config.views[view], SnapshotView):
        text = text.unionByName(_missing(text, own), allowMissingColumns=True)
    seen = F.col(f"{IMPRESSION}.impression_time")
    if home == ROWS:
        chosen = own.orderBy(F.xxhash64(f"{IMPRESSION}.impression_id")).limit(_FEW)
        pairs = chosen.drop(view).join(text, F.col("_own") == F.col("_key"))
        apart = F.abs(F.unix_micros(EVENT_TIME) - F.unix_micros(seen))
        rank = F.row_number().over(Window.partitionBy(f"{IMPRESSION}.impression_id").orderBy(apart))
        near = pairs.select("*", rank.alias("_rank")).where(F.col("_rank") <= NEAREST)
        age = (F.unix_micros(seen) - F.unix_micros(EVENT_TIME)) / 1_000_000
        nothing = chosen.select(*[c for c in chosen.columns if c != view], F.lit(None).cast(kind).alias(view))
        group = F.col(f"{IMPRESSION}.impression_id").cast("string")
    else:
        keys = own.select(F.col("_own").alias("_wanted")).distinct()
        near = text.join(F.broadcast(keys), F.col("_key") == F.col("_wanted"), "left_semi")
        age = F.lit(None).cast("double")
        nothing = few.limit(1).select(F.lit(None).cast(kind).alias(view))
        group = F.col("_key")
    fields = [F.col(PAYLOAD)[name].alias(name) for name in kind.names if name not in ("age_s", "matched")]  # type: ignore[attr-defined]
    struct = F.struct(*fields, age.alias("age_s"), F.lit(True).alias("matched")).cast(kind)
    others = [c for c in near.columns if c in (IMPRESSION, *config.views, *config.histories) and c != view]
    # A row that is over is told by its end, so that a tombstone is over from the beginning.
    begin = F.unix_micros(EVENT_TIME)
    times = [_time(EVENT_TIME, "_event"), _time(AVAILABLE_TIME, "_available")]
    times += [F.when(F.col("_gone"), begin).otherwise(F.unix_micros("_end")).alias("_end"), _time("_closed", "_closed")]
    there = near.select(*others, struct.alias(view), group.alias("_group"), *times, "_sequence")
    none = F.struct(*[F.col(view)[n].alias(n) for n in kind.names if n != "matched"], F.lit(False).alias("matched"))  # type: ignore[attr-defined]
    of_none = F.lit(None).cast("string") if home != ROWS else group
    absent = nothing.select(
        *others,
        none.cast(kind).alias(view),
        of_none.alias("_group"),
        F.lit(None).cast("long").alias("_event"),
        *[F.lit(None).cast("long").alias(name) for name in ("_available", "_end", "_closed")],
        F.lit(None).cast(near.schema["_sequence"].dataType).alias("_sequence"),
    )
    frame = columns.add(there.unionByName(absent), home)
    table = _table(frame.select(*_TIMES, "_sequence", *[F.col(quoted(made(name))).alias(name) for name in names]))
    groups = _table(
        own.select(F.col(f"{IMPRESSION}.impression_id").alias("id"), F.col("_own").cast("string").alias("key"))
    )
    return _grouped(table, groups, names, home, ids, specs, config.views[view])


def _or_never(column: str, rows: DataFrame) -> SparkColumn:
    return F.col(column) if column in rows.columns else F.lit(None).cast("timestamp")


def _missing(rows: DataFrame, own: DataFrame) -> DataFrame:
    """Return a row that is gone for each snapshot of a view that lacks the key of an impression."""
    keys = own.select(F.col("_own").alias("_key")).where(F.col("_key").isNotNull()).distinct()
    every = keys.crossJoin(F.broadcast(rows.select(EVENT_TIME, AVAILABLE_TIME).distinct()))
    missing = every.join(rows.select("_key", EVENT_TIME), ["_key", EVENT_TIME], "left_anti")
    return missing.withColumns({"_gone": F.lit(True), "_sequence": F.lit(None).cast(rows.schema["_sequence"].dataType)})


def _grouped(
    table: pa.Table,
    own: pa.Table,
    names: Sequence[str],
    home: str,
    ids: Micros,
    specs: Mapping[str, FeatureSpec],
    view: View,
) -> Versions:
    texts = table.column("_group").to_pylist()
    codes = {text: number for number, text in enumerate(sorted({text for text in texts if text is not None}))}
    group = np.array([-1 if text is None else codes[text] for text in texts], np.int64)
    event, available, end, closed = (
        np.asarray(table.column(name).fill_null(NO_TIME).to_numpy(), np.int64) for name in _TIMES[1:]
    )
    sequence = table.column("_sequence").combine_chunks()
    rank = pc.index_in(sequence, value_set=pc.drop_null(sequence).unique().sort()).fill_null(-1).to_numpy()
    order = np.lexsort((rank, available, event, group))
    at = np.argsort(np.asarray(own.column("id").to_numpy(), np.int64))
    keys = [str(number) for number in ids] if home == ROWS else [own.column("key")[int(place)].as_py() for place in at]
    features = {name: Column.of(table.column(name).take(pa.array(order)), specs[name], name) for name in names}
    of = np.array([-1 if key is None else codes.get(key, -1) for key in keys], np.int64)
    return Versions(
        group[order], event[order], available[order], end[order], closed[order], features, of, view.max_age, view.delay,
        _setting(view),
    )  # fmt: skip


def _setting(view: View) -> str | None:
    """Return the key of the configuration that says when the rows of a view are known, or None if a column says it."""
    if isinstance(view, SnapshotView):
        return "publish_delay"
    return None if isinstance(view, EventView | WindowView) and view.available_time else "available_after"


def _key_of(config: JobConfig, view: str, few: DataFrame) -> SparkColumn:
    """Return the key of an impression in a view, as text."""
    parts = [F.col(part if "." in part else f"{IMPRESSION}.{part}") for part in config.views[view].joined_on]
    return joint_key(parts).cast("string")


def _time(column: str, name: str) -> SparkColumn:
    return F.unix_micros(F.col(column)).alias(name)


def _table(frame: DataFrame) -> pa.Table:
    return frame.toArrow()


def other_states(config: JobConfig, names: Sequence[str], states: Sequence[FittedState]) -> Iterator[Alternative]:
    """Yield each fitted feature with other versions of the fitted state."""
    for name in names:
        for state in states if config.features[name].is_fitted else ():
            what = f"with version {state.version} of the fitted state, of {state.through}"
            yield Alternative(name, "state", what, config.features[name], state)


def other_definitions(
    config: JobConfig, names: Sequence[str], others: Sequence[tuple[str, Mapping[str, Feature]]]
) -> Iterator[Alternative]:
    """Yield each feature as other generations of the samples define it."""
    for name in names:
        for when, features in others:
            other = features.get(name)
            if other is not None and other != config.features[name] and not other.cross:
                yield Alternative(name, "definition", f"as the samples of {when} define it", other, None)
