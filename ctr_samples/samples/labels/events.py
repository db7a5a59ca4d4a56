"""Impressions and actions as rows of one frame, from one pass over the impression log, ready to meet by key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial, reduce
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, NullType, StringType, StructField, StructType

from ctr_samples.config import Impressions, JobConfig, RowLabel
from ctr_samples.samples.columnar.blocks import Place
from ctr_samples.samples.columnar.columns import Integers, integers, place_of_texts, there
from ctr_samples.samples.columnar.stages import place_of
from ctr_samples.samples.impressions import does_match, identity_of, is_near, line_columns, row_label, shown_list
from ctr_samples.samples.labels.plans import LabelPlan, Stop, impression_reach, keys_among, rows_among
from ctr_samples.samples.period import Span
from ctr_samples.sparksql.columns import hash_of_fields, key_column, number_column, quoted, time_column

ACTION = "_action"
"""Column of an action: struct<label, time, value>. Configured names never begin with an underscore."""

ACTION_TYPE = "struct<label: string, time: timestamp, value: double>"


def key_of_action(name: str) -> str:
    """Return the column name for a key of an action."""
    return f"_key_{name}"


def actions_of_logs(plans: Sequence[LabelPlan], span: Span, source_of: Callable[[str], DataFrame]) -> list[DataFrame]:
    """Return the relevant actions of a day. Labels of one log with the same keys share a pass over it."""
    near = is_near_action(F.col(f"{ACTION}.time"), span, plans)
    return [actions_of(source_of(alike[0].label.source), alike).where(near) for alike in of_one_log(plans)]


def of_one_log(plans: Sequence[LabelPlan]) -> list[list[LabelPlan]]:
    """Group the labels that share a log, its keys and the order of their key sets."""
    tables: dict[Any, list[LabelPlan]] = {}
    for plan in plans:
        tables.setdefault((plan.label.source, tuple(plan.keys.items()), plan.tried), []).append(plan)
    return list(tables.values())


def actions_of(frame: DataFrame, plans: Sequence[LabelPlan]) -> DataFrame:
    """Return the actions of labels that share a source and its keys, in one pass over the source.

    Columns: one per key (:func:`key_of_action`), and ``_action``: struct<label, time, value>. A row that counts for
    two labels gives two rows.
    """
    keys = [column.alias(key_of_action(key)) for key, column in action_keys(frame, plans[0]).items()]
    parts = [F.when(does_match(frame, plan.label.where, where_of(plan)), action_of(frame, plan)) for plan in plans]
    return frame.select(*keys, F.explode(F.array_compact(F.array(*parts))).alias(ACTION))


def action_keys(frame: DataFrame, plan: LabelPlan) -> dict[str, Column]:
    """Return the keys of an action, by name."""
    return {key: key_column(frame, text, f"labels.{plan.name}.{key}") for key, text in plan.keys.items()}


def where_of(plan: LabelPlan) -> str:
    """Return the configuration key of a label's condition."""
    return f"labels.{plan.name}.where"


def action_of(frame: DataFrame, plan: LabelPlan) -> Column:
    """Return a row as an action of a label: struct<label, time, value>."""
    where = f"labels.{plan.name}"
    value = plan.label.value
    number = F.lit(1.0) if value is None else number_column(frame, value, f"{where}.value")
    return F.struct(
        F.lit(plan.name).alias("label"),
        time_column(frame, plan.time, f"{where}.time").alias("time"),
        number.alias("value"),
    )


def is_near_action(time: Column, span: Span, plans: Sequence[LabelPlan]) -> Column:
    """Whether an action may belong to an impression of the day, or happened that day.

    True if the action has no time.
    """
    skew, window = (
        max((getattr(plan.label, key) for plan in plans), default=timedelta()) for key in ("skew", "window")
    )
    return span.reaches(time, skew, window) | time.isNull()


IS_ACTION = "_is_action"
AT, TIE = "_at", "_tie"
"""Columns of events: the time in microseconds, and the tie-breaker, an impression's id."""

_SHOWN = "_shown "
"""Prefix of the columns of an event's impression. Spark hands over flat columns faster than structs."""

LABEL, VALUE, CONTENT = "_label", "_value", "_content"
"""Further columns: label and number of an action, and a hash of an impression."""


def place_at(stop: int) -> str:
    """Return the column with the place of an event at a stop."""
    return f"_place {stop}"


def shown_as(name: str) -> str:
    """Return the column of events with a column of their impressions."""
    return f"{_SHOWN}{name}"


def of_shown(name: str) -> Column:
    """Return a column of an event's impression. It is null for an action."""
    return F.col(quoted(shown_as(name)))


def shown_in(events: StructType) -> StructType:
    """Return the type of the impressions among events."""
    fields = [field for field in events if field.name.startswith(_SHOWN)]
    return StructType([StructField(field.name.removeprefix(_SHOWN), field.dataType) for field in fields])


_ENTRY, _LINE = "_entry", "_line"
_PLACE = ("_place", "_item")


def events_of(
    source_of: Callable[[str], DataFrame], config: JobConfig, plans: Sequence[LabelPlan], span: Span
) -> DataFrame:
    """Return the impressions on and near a day, and the actions of ``plans``, ready to meet. Lazy.

    Includes impressions within :func:`impression_reach` of the day, repeats and impressions that lack a time or key.
    ``source_of`` returns a log by its name.
    """
    shown, reach, time = config.impressions, impression_reach(config, span), F.timestamp_micros(AT)
    lines = _Lines(source_of(shown.source), shown, rows_among(config.labels))
    near = F.when(F.col(IS_ACTION), is_near_action(time, span, plans)).otherwise(is_near(span, time, reach))
    frames = _frames(lines, source_of, config, plans)
    events = reduce(DataFrame.unionByName, [frame.where(near) for frame in frames])
    kinds = shown_in(events.schema)
    content = hash_of_fields([of_shown(name) for name in lines.in_order], [kinds[n].dataType for n in lines.in_order])
    return _named(events.withColumn(CONTENT, content))


def events_among(impressions: DataFrame, actions: Sequence[DataFrame], plans: Sequence[LabelPlan]) -> DataFrame:
    """Return impressions and the actions of :func:`actions_of`, ready to meet. Lazy.

    ``impressions`` must have ``impression_id``, ``impression_time`` and all keys used for matching.
    """
    names = keys_among(plans)
    shown = _shown_rows(impressions, names)
    frames = _with_keys_of_one_type([shown, *[_action_rows(frame, names, shown) for frame in actions]], names)
    events = reduce(DataFrame.unionByName, frames)
    return _named(events.withColumn(CONTENT, F.lit(0).cast("bigint")))


def _named(events: DataFrame) -> DataFrame:
    """Add the label and the value of actions."""
    columns = {LABEL: f"{ACTION}.label", VALUE: f"{ACTION}.value"}
    named = {name: F.when(F.col(IS_ACTION), F.col(path)) for name, path in columns.items()}
    return events.withColumns(named).drop(ACTION, IS_ACTION)


def placed(events: DataFrame, some: Sequence[Stop], repeated: Sequence[Column] = ()) -> DataFrame:
    """Add the places of events: equal for rows with equal keys of a stop. At the first stop, an impression that lacks
    one of them lies in the place of its ``repeated`` columns, if there are any. :func:`places_of` completes them.
    """
    own = F.when(F.col(LABEL).isNotNull(), F.xxhash64(AT, LABEL))
    places = {}
    for number, stop in enumerate(some):
        keys = [F.col(_column_of(events.columns, name)) for name in stop.keys]
        of_known = F.lit(None).cast("bigint") if _text_keys(events.schema, stop) else place_of(keys)
        known = reduce(Column.__and__, [key.isNotNull() for key in keys], F.lit(bool(keys)))
        without = own.otherwise(F.xxhash64(*repeated) if repeated and number == 0 else F.col(TIE))
        places[place_at(number)] = F.when(known, of_known).otherwise(without) if keys else without
    return events.withColumns(places)


def places_of(events: StructType, number: int, stop: Stop) -> Place:
    """Return the places of :func:`placed` events at a stop. Python hashes keys of text, which is faster and shuffles less."""
    keys = _text_keys(events, stop)
    return partial(_places, place_at(number), keys) if keys else place_at(number)


def _places(others: str, keys: Sequence[str], rows: pa.RecordBatch) -> Integers:
    """Return the places of rows: the hash of their keys or, if one is missing, what the column ``others`` has. Runs on
    executors.
    """
    given = rows.column(others)
    return np.where(there(given), integers(given), place_of_texts([rows.column(name) for name in keys]))


def _text_keys(events: StructType, stop: Stop) -> list[str]:
    """Return the columns of events with the keys of a stop, if all are text."""
    columns = [_column_of(events.names, name) for name in stop.keys]
    return columns if all(isinstance(events[name].dataType, StringType) for name in columns) else []


def _column_of(events: Sequence[str], name: str) -> str:
    """Return the column of events with a key. Actions have none that no label needs."""
    return key if (key := key_of_action(name)) in events else shown_as(name)


def all_events(source_of: Callable[[str], DataFrame], config: JobConfig, plans: Sequence[LabelPlan]) -> DataFrame:
    """Return all impressions and actions of the logs, at any time, including repeats and dropped impressions. Lazy."""
    lines = _Lines(source_of(config.impressions.source), config.impressions, rows_among(config.labels))
    return reduce(DataFrame.unionByName, _frames(lines, source_of, config, plans))


def _frames(
    lines: _Lines, source_of: Callable[[str], DataFrame], config: JobConfig, plans: Sequence[LabelPlan]
) -> list[DataFrame]:
    """Return the events of each log."""
    names, source = keys_among(plans), config.impressions.source
    frames = [lines.events(names, [plan for plan in plans if plan.label.source == source])]
    others = of_one_log([plan for plan in plans if plan.label.source != source])
    frames += [_action_rows(actions_of(source_of(some[0].label.source), some), names, frames[0]) for some in others]
    return _with_keys_of_one_type(frames, names)


def _shown_rows(impressions: DataFrame, names: Sequence[str]) -> DataFrame:
    return impressions.select(
        *[F.col(name).alias(key_of_action(name)) for name in names],
        F.unix_micros("impression_time").alias(AT),
        F.col("impression_id").alias(TIE),
        F.lit(False).alias(IS_ACTION),
        *[F.col(quoted(name)).alias(shown_as(name)) for name in impressions.columns],
        F.lit(None).cast(ACTION_TYPE).alias(ACTION),
    )


def _action_rows(actions: DataFrame, names: Sequence[str], shown: DataFrame) -> DataFrame:
    """Return the actions of one log in the columns of the impressions' frame. Missing keys are null."""
    keys = [key_of_action(name) for name in names]
    return actions.select(
        *[F.col(key) if key in actions.columns else F.lit(None).alias(key) for key in keys],
        F.unix_micros(f"{ACTION}.time").alias(AT),
        F.lit(0).cast("bigint").alias(TIE),
        F.lit(True).alias(IS_ACTION),
        *[F.lit(None).cast(field.dataType).alias(shown_as(field.name)) for field in shown_in(shown.schema)],
        F.col(ACTION),
    )


def _with_keys_of_one_type(frames: Sequence[DataFrame], names: Sequence[str]) -> list[DataFrame]:
    """Make keys comparable: keep the type if all logs agree, else convert to text."""
    keys = [key_of_action(name) for name in names]
    texts = [key for key in keys if len({frame.schema[key].dataType for frame in frames} - {NullType()}) > 1]
    return [
        frame.withColumns({key: F.col(key).cast("string") for key in texts}) if texts else frame for frame in frames
    ]


class _Lines:
    """A log whose lines are impressions, lists of impressions, actions of some labels, or a mix. Used only for planning."""

    def __init__(self, log: DataFrame, shown: Impressions, rows: Mapping[str, RowLabel]) -> None:
        self._log, self._shown = log, shown
        self._columns = [*shown.column_names, *[row_label(name) for name in rows]]
        self._line = F.struct(*line_columns(log, shown, rows))
        self._type = _struct_type(log, self._line)

    @property
    def in_order(self) -> list[str]:
        """Columns of an impression in the order used to hash its content."""
        listed = ["position", "article"] if self._shown.explode else []
        return [name for name in self._type.fieldNames() if name not in listed] + listed

    def events(self, names: Sequence[str], plans: Sequence[LabelPlan]) -> DataFrame:
        """Return the events of all lines. ``names`` are needed keys, ``plans`` the labels with actions in this log."""
        keyed = [(plan, action_keys(self._log, alike[0])) for alike in of_one_log(plans) for plan in alike]
        key_types = self._key_types(names, [keys for _, keys in keyed])
        # A line becomes a number for each entry: copying numbers costs less than copying entries.
        is_shown = does_match(self._log, self._shown.where, "impressions.where")
        matches = [is_shown, *[does_match(self._log, plan.label.where, where_of(plan)) for plan, _ in keyed]]
        numbers = F.explode(F.array(*[F.when(holds, number) for number, holds in enumerate(matches)]))
        each = self._log.withColumn(_ENTRY, numbers).where(F.col(_ENTRY).isNotNull())
        entries = each.select(
            F.when(F.col(_ENTRY) == 0, self._line).alias(_LINE),
            *[self._key(name, kind, keyed).alias(key_of_action(name)) for name, kind in key_types.items()],
            F.when(F.col(_ENTRY) > 0, self._action([plan for plan, _ in keyed])).alias(ACTION),
        )
        return self._with_impressions(entries, key_types)

    def _key(self, name: str, kind: DataType, keyed: Sequence[tuple[LabelPlan, Mapping[str, Column]]]) -> Column:
        """Return a key of an entry's action."""
        texts = [plan.keys.get(name) for plan, _ in keyed]
        columns = {plan.keys[name]: keys[name] for plan, keys in keyed if name in keys}
        return _of_entry(texts, columns, kind)

    def _action(self, plans: Sequence[LabelPlan]) -> Column:
        """Return the action of an entry, given that it is one."""
        actions = [(plan, action_of(self._log, plan)) for plan in plans]
        kind = _struct_type(self._log, F.lit(None).cast(ACTION_TYPE))
        fields = {
            "label": _of_entry(
                [plan.name for plan in plans], {p.name: F.lit(p.name) for p in plans}, kind["label"].dataType
            ),
            "time": _of_entry([p.time for p in plans], {p.time: a["time"] for p, a in actions}, kind["time"].dataType),
            "value": _of_entry(
                [p.label.value or "" for p in plans],
                {p.label.value or "": a["value"] for p, a in actions},
                kind["value"].dataType,
            ),
        }
        return F.struct(*[column.alias(name) for name, column in fields.items()])

    def _with_impressions(self, entries: DataFrame, key_types: Mapping[str, DataType]) -> DataFrame:
        """Turn entries into events, with one event for each item shown in a line."""
        place = {}
        if self._shown.explode:
            entries = entries.select("*", F.posexplode(shown_list(F.col(f"{_LINE}.article"))).alias(*_PLACE))
            place = dict(zip(("position", "article"), _PLACE, strict=True))

        def at(name: str) -> Column:
            return F.col(place[name]) if name in place else F.col(f"{_LINE}.{quoted(name)}")

        is_action = F.col(ACTION).isNotNull()
        of_impression = {
            name: identity_of(self._shown, at) if name == "impression_id" else at(name) for name in self._columns
        }
        keys = [
            F.when(is_action, F.col(key_of_action(name))).otherwise(at(name).cast(kind)).alias(key_of_action(name))
            for name, kind in key_types.items()
        ]
        time = F.when(is_action, F.col(f"{ACTION}.time")).otherwise(at("impression_time"))
        events = entries.select(
            *keys,
            F.unix_micros(time).alias(AT),
            is_action.alias(IS_ACTION),
            *[F.when(~is_action, column).alias(shown_as(name)) for name, column in of_impression.items()],
            ACTION,
        )
        # Hashed once: Spark would not notice that two branches compute the same.
        return events.withColumn(TIE, F.coalesce(of_shown("impression_id"), F.lit(0).cast("bigint")))

    def _key_types(self, names: Sequence[str], actions: Sequence[Mapping[str, Column]]) -> dict[str, DataType]:
        """Return the types of the keys: the log's type if impressions and actions agree, else text."""
        of_actions = [_struct_type(self._log, F.struct(*[c.alias(n) for n, c in keys.items()])) for keys in actions]
        types: dict[str, DataType] = {}
        for name in names:
            kind = self._type[name].dataType
            if self._shown.explode == name:
                assert isinstance(kind, ArrayType)
                kind = kind.elementType
            kinds = {kind, *[keys[name].dataType for keys in of_actions if name in keys.fieldNames()]} - {NullType()}
            types[name] = kinds.pop() if len(kinds) == 1 else StringType()
        return types


def _of_entry(texts: Sequence[str | None], columns: Mapping[str, Column], kind: DataType) -> Column:
    """Return the column of an entry: the one whose text is that of its action. Entries with equal texts share it."""
    chosen = F.lit(None).cast(kind)
    for text, column in columns.items():
        numbers = [number for number, other in enumerate(texts, 1) if other == text]
        mine = F.col(_ENTRY) > 0 if len(numbers) == len(texts) else F.col(_ENTRY).isin(numbers)
        chosen = F.when(mine, column.cast(kind)).otherwise(chosen)
    return chosen


def _struct_type(frame: DataFrame, struct: Column) -> StructType:
    kind = frame.select(struct.alias(_LINE)).schema[_LINE].dataType
    assert isinstance(kind, StructType)
    return kind
