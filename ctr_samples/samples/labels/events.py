"""Impressions and actions as rows of one frame, from one pass over the impression log, ready for sorting by key.

Rows with the same first key set are in one partition. So a single shuffle of narrow rows suffices to find repeats and
to attribute actions by these keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, NullType, StringType, StructType

from ctr_samples.config import Impressions, JobConfig, RowLabel
from ctr_samples.samples.impressions import (
    DROPPED,
    does_match,
    identity_of,
    is_near,
    is_repeat,
    keys_of_repeats,
    line_columns,
    row_label,
    shown_list,
    why_dropped,
)
from ctr_samples.samples.labels.actions import (
    ACTION,
    ACTION_TYPE,
    action_keys,
    action_of,
    actions_of,
    is_near_action,
    key_of_action,
    of_one_log,
    where_of,
)
from ctr_samples.samples.labels.attribution import (
    AT,
    DELAY,
    IS_ACTION,
    SHOWN,
    TIE,
    TOGETHER,
    action_rows,
    with_keys_of_one_type,
)
from ctr_samples.samples.labels.plans import LabelPlan, impression_reach, keys_among, rounds, rows_among
from ctr_samples.samples.period import Span
from ctr_samples.sparksql.columns import hash_of_fields, quoted

_ENTRY, _LINE = "_entry", "_line"
_PLACE = ("_place", "_item")


def events_of(
    source_of: Callable[[str], DataFrame], config: JobConfig, plans: Sequence[LabelPlan], span: Span
) -> DataFrame:
    """Return the impressions on and near a day, and the actions of ``plans``, for :func:`attribute_rows`.

    Includes impressions within :func:`impression_reach` of the day. An impression is a struct ``_shown``; ``_dropped``
    is the reason for dropping it, if any. ``source_of`` returns a log by its name. Lazy.
    """
    shown, reach, time = config.impressions, impression_reach(config), F.timestamp_micros(AT)
    lines = _Lines(source_of(shown.source), shown, rows_among(config.labels))
    near = F.when(F.col(IS_ACTION), is_near_action(time, span, plans)).otherwise(is_near(span, time, reach))
    frames = _frames(lines, source_of, config, plans)
    events = reduce(DataFrame.unionByName, [frame.where(near) for frame in frames])
    together = events.withColumn(TOGETHER, _together(shown, rounds(plans)[0][0])).repartition(F.col(TOGETHER))
    kinds = _struct_type(events, F.col(SHOWN))
    content = hash_of_fields([of_shown(name) for name in lines.in_order], [kinds[n].dataType for n in lines.in_order])
    repeated = is_repeat(shown, content, of_shown, [F.col(TOGETHER), F.col(IS_ACTION)])
    return together.withColumn(DROPPED, F.when(~F.col(IS_ACTION), why_dropped(shown, repeated, of_shown)))


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
    frames += [action_rows(actions_of(source_of(some[0].label.source), some), names, frames[0]) for some in others]
    return with_keys_of_one_type(frames, names)


def of_shown(name: str) -> Column:
    """Return a column of an event's impression."""
    return F.col(f"{SHOWN}.{quoted(name)}")


def _together(shown: Impressions, tried: Sequence[str]) -> Column:
    """Hash shared by events with the same keys, and by an impression and its repeats."""
    keys = [F.col(key_of_action(name)) for name in tried]
    known = reduce(Column.__and__, [key.isNotNull() for key in keys])
    alone = F.when(F.col(IS_ACTION), F.xxhash64(AT, f"{ACTION}.label", *keys))
    return F.when(known, F.xxhash64(*keys)).otherwise(alone.otherwise(F.xxhash64(*keys_of_repeats(shown, of_shown))))


class _Lines:
    """A log whose lines are impressions, lists of impressions, actions of some labels, or a mix. Used only for
    planning.
    """

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
        keyed = [(alike, action_keys(self._log, alike[0])) for alike in of_one_log(plans)]
        key_types = self._key_types(names, [keys for _, keys in keyed])
        no_line, no_action = F.lit(None).cast(self._type), F.lit(None).cast(ACTION_TYPE)

        def entry(line: Column, keys: Mapping[str, Column], action: Column) -> Column:
            own = [
                keys.get(name, F.lit(None)).cast(kind).alias(key_of_action(name)) for name, kind in key_types.items()
            ]
            return F.struct(line.alias(_LINE), *own, action.alias(ACTION))

        is_shown = does_match(self._log, self._shown.where, "impressions.where")
        entries = [F.when(is_shown, entry(self._line, {}, no_action))]
        for plan, keys in [(plan, keys) for alike, keys in keyed for plan in alike]:
            matches = does_match(self._log, plan.label.where, where_of(plan))
            entries.append(F.when(matches, entry(no_line, keys, action_of(self._log, plan))))
        each = self._log.select(F.explode(F.array(*entries)).alias(_ENTRY)).where(F.col(_ENTRY).isNotNull())
        return self._with_impressions(each.select(f"{_ENTRY}.*"), key_types)

    def _with_impressions(self, entries: DataFrame, key_types: Mapping[str, DataType]) -> DataFrame:
        """Turn entries into events, with one event for each item shown in a line."""
        place = {}
        if self._shown.explode:
            entries = entries.select("*", F.posexplode(shown_list(F.col(f"{_LINE}.article"))).alias(*_PLACE))
            place = dict(zip(("position", "article"), _PLACE, strict=True))

        def at(name: str) -> Column:
            return F.col(place[name]) if name in place else F.col(f"{_LINE}.{quoted(name)}")

        is_action = F.col(ACTION).isNotNull()
        own_id = identity_of(self._shown, at)
        of_impression = [(own_id if name == "impression_id" else at(name)).alias(name) for name in self._columns]
        keys = [
            F.when(is_action, F.col(key_of_action(name))).otherwise(at(name).cast(kind)).alias(key_of_action(name))
            for name, kind in key_types.items()
        ]
        time = F.when(is_action, F.col(f"{ACTION}.time")).otherwise(at("impression_time"))
        return entries.select(
            *keys,
            F.unix_micros(time).alias(AT),
            F.when(is_action, F.lit(0).cast("bigint")).otherwise(own_id).alias(TIE),
            is_action.alias(IS_ACTION),
            F.when(~is_action, F.struct(*of_impression)).alias(SHOWN),
            ACTION,
            F.lit(None).cast("bigint").alias(DELAY),
        )

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


def _struct_type(frame: DataFrame, struct: Column) -> StructType:
    kind = frame.select(struct.alias(_LINE)).schema[_LINE].dataType
    assert isinstance(kind, StructType)
    return kind
