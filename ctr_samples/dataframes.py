"""The nightly job's joins for any DataFrames: features as of each impression, labels, windowed counts and histories.

These functions run the same code as the job, in the caller's session: text is parsed as a timestamp in the session's
time zone. ``on`` names the key columns, which both frames have. Times, conditions and numbers are SQL expressions, as
in the configuration. A key is text or an integer. Each function returns the impressions, one row each, with an
additional column. All are lazy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ctr_samples.config import ActionLabel, EventView, History, View, WindowView
from ctr_samples.config.base import HISTORY_COLUMNS
from ctr_samples.errors import InputError
from ctr_samples.samples import histories
from ctr_samples.samples.columnar.stages import Stage
from ctr_samples.samples.histories import HistoryPlan
from ctr_samples.samples.labels.events import actions_of, events_among
from ctr_samples.samples.labels.labelling import Labelling
from ctr_samples.samples.labels.plans import LabelPlan, label_columns
from ctr_samples.samples.period import EVER
from ctr_samples.samples.views.aggregates import filled
from ctr_samples.samples.views.as_of.joining import join_by_broadcast, join_by_shuffle
from ctr_samples.samples.views.as_of.planning import VALID_TO, Join
from ctr_samples.samples.views.rows import as_of, is_empty, usable, view_rows
from ctr_samples.sparksql.columns import content_hash, joint_key, key_column, quoted, time_column

__all__ = ["as_of_join", "attribute_labels", "join_history", "windowed_aggregates"]

Keys = str | Sequence[str]

_SHOWN, _IMPRESSION, _KEY = "_shown", "impression", "_key"


def as_of_join(
    impressions: DataFrame,
    features: DataFrame,
    *,
    on: Keys,
    time: str,
    event_time: str,
    name: str = "features",
    columns: Sequence[str] | None = None,
    method: Literal["union", "intervals"] = "union",
    ttl: str = "unbounded",
    **clocks: Any,
) -> DataFrame:
    """Join each impression with the table row that was valid just before it and known by then, as a struct ``name``.

    ``time`` is the impression time and ``event_time`` the time from which a row is valid. The struct has
    ``columns`` (by default all but the keys), ``age_s`` and ``matched``. ``intervals`` is for tables of a few
    megabytes, which are broadcast. ``clocks`` are further keys of an event view in docs/configuration.md:
    ``available_after``, ``available_time``, ``valid_to``, ``closed_available``, ``inclusive``, ``sequence``,
    ``tombstone``, ``where``. Raises InputError or ValidationError for an invalid key.

    >>> shown = spark.sql("SELECT 'ann' AS user, timestamp'2019-06-05 10:00:00' AS at")
    >>> plans = spark.sql('''
    ...     SELECT 'ann' AS user, 'basic' AS plan, timestamp'2019-06-01 00:00:00' AS since
    ...     UNION ALL SELECT 'ann', 'gold', timestamp'2019-06-05 09:30:00'
    ... ''')
    >>> joined = as_of_join(shown, plans, on="user", time="at", event_time="since", available_after="1h", ttl="30d")
    >>> joined.select("user", "features.plan", "features.age_s", "features.matched").show()
    +----+-----+--------+-------+
    |user| plan|   age_s|matched|
    +----+-----+--------+-------+
    | ann|basic|381600.0|   true|
    +----+-----+--------+-------+
    <BLANKLINE>
    """
    view = EventView.model_validate(
        {"source": "features", "entity": "user", "key": _KEY, "event_time": event_time, "ttl": ttl, **clocks}
    )
    keys = _names(on)
    wanted = [c for c in features.columns if c not in keys] if columns is None else columns
    return _viewed(impressions, features, name, view, keys, time, wanted, method)


def windowed_aggregates(
    impressions: DataFrame,
    actions: DataFrame,
    *,
    on: Keys,
    time: str,
    event_time: str,
    windows: Sequence[str],
    name: str = "aggregates",
    step: str = "1m",
    available_after: str = "0s",
    available_time: str | None = None,
    where: str | None = None,
    **measures: Mapping[str, Any],
) -> DataFrame:
    """Add aggregates of each impression's key over windows that end just before it, as a struct ``name``.

    ``measures`` are ``counts``, ``sums``, ``distinct`` and ``rates``, each a dict as under `aggregates` of a view in
    docs/configuration.md. The struct has one column per measure and window, such as ``clicks_1h``; without any action
    the value is 0, or the prior of a rate. An action counts once its ``step`` is over and ``available_after`` has
    passed; with ``available_time``, once a step is over by whose end it was known.

    >>> shown = spark.sql("SELECT 7 AS item, timestamp'2019-06-05 10:00:00' AS at")
    >>> log = spark.sql('''
    ...     SELECT 7 AS item, true AS click, timestamp'2019-06-05 09:30:00' AS at
    ...     UNION ALL SELECT 7, false, timestamp'2019-06-05 09:40:00' UNION ALL SELECT 7, true, timestamp'2019-06-04 21:00:00'
    ... ''')
    >>> counts = {"clicks": "click", "shown": "true"}
    >>> counted = windowed_aggregates(shown, log, on="item", time="at", event_time="at", windows=["1h", "1d"], counts=counts)
    >>> counted.select("aggregates.clicks_1h", "aggregates.clicks_1d", "aggregates.shown_1h").show()
    +---------+---------+--------+
    |clicks_1h|clicks_1d|shown_1h|
    +---------+---------+--------+
    |        1|        2|       2|
    +---------+---------+--------+
    <BLANKLINE>
    """
    view = WindowView.model_validate(
        {
            "source": "actions",
            "entity": "user",
            "key": _KEY,
            "where": where,
            "event_time": event_time,
            **({"available_time": available_time} if available_time else {"available_after": available_after}),
            "aggregates": {"windows": windows, "step": step, **measures},
        }
    )
    joined = _viewed(impressions, actions, name, view, _names(on), time, view.aggregates.column_names, "union")
    return joined.withColumn(name, filled(joined, name, view.aggregates))


def attribute_labels(
    impressions: DataFrame,
    actions: DataFrame,
    *,
    on: Keys,
    time: str,
    action_time: str,
    window: str,
    name: str = "clicked",
    **rules: Any,
) -> DataFrame:
    """Label impressions by their actions: each action is attributed to the last impression of its key before it.

    ``rules`` are further keys of a label in docs/configuration.md: ``where``, ``skew``, ``value`` and ``reduce``.
    Without a ``value`` the label is 1 if there is an action within the ``window``, else 0. With a ``value`` there is
    also ``<name>__mask``.

    >>> shown = spark.sql('''
    ...     SELECT 1 AS id, 'ann' AS user, 'lamp' AS item, timestamp'2019-06-05 10:00:00' AS at
    ...     UNION ALL SELECT 2, 'ann', 'lamp', timestamp'2019-06-05 10:10:00'
    ... ''')
    >>> clicks = spark.sql("SELECT 'ann' AS user, 'lamp' AS item, timestamp'2019-06-05 10:12:00' AS clicked_at")
    >>> labelled = attribute_labels(shown, clicks, on=["user", "item"], time="at", action_time="clicked_at", window="30m")
    >>> labelled.orderBy("id").select("id", "clicked").show()
    +---+-------+
    | id|clicked|
    +---+-------+
    |  1|      0|
    |  2|      1|
    +---+-------+
    <BLANKLINE>
    """
    label = ActionLabel.model_validate({"source": "actions", "time": action_time, "window": window, **rules})
    plan = LabelPlan(name, label, action_time, {"user": _KEY}, (("user",),))
    shown = _packed(impressions, _names(on), time, name).select(_SHOWN, f"{_IMPRESSION}.*")
    events = events_among(shown, [actions_of(_keyed(actions, _names(on)), [plan])], [plan])
    labelled = Labelling([plan], EVER).stage(events, _partitions(impressions)).rows()
    return labelled.select(f"{_SHOWN}.*", *label_columns({name: label}))


def join_history(
    impressions: DataFrame,
    actions: DataFrame,
    *,
    on: Keys,
    time: str,
    action_time: str,
    item: str,
    last: int,
    name: str = "history",
    **rules: Any,
) -> DataFrame:
    """Add the ``last`` distinct items of each impression's key before it, newest first, as a struct of lists.

    ``rules`` are further keys of a history in docs/configuration.md: ``where``, ``within``, ``available_after``,
    ``available_time`` and ``columns``. The struct has ``items``, ``ages_s``, the ``columns``, ``length`` and ``matched``.

    >>> shown = spark.sql("SELECT 'ann' AS user, timestamp'2019-06-05 10:00:00' AS at")
    >>> log = spark.sql('''
    ...     SELECT 'ann' AS user, 'lamp' AS item, timestamp'2019-06-05 09:00:00' AS at
    ...     UNION ALL SELECT 'ann', 'desk', timestamp'2019-06-05 09:30:00'
    ...     UNION ALL SELECT 'bob', 'bed', timestamp'2019-06-05 09:40:00'
    ... ''')
    >>> joined = join_history(shown, log, on="user", time="at", action_time="at", item="item", last=5)
    >>> joined.select("user", "history.items", "history.ages_s").show()
    +----+------------+----------------+
    |user|       items|          ages_s|
    +----+------------+----------------+
    | ann|[desk, lamp]|[1800.0, 3600.0]|
    +----+------------+----------------+
    <BLANKLINE>
    """
    history = History.model_validate(
        {
            "source": "actions",
            "user": _KEY,
            "time": action_time,
            "item": item,
            "last": last,
            "within": "unbounded",
            **rules,
        }
    )
    for column in history.columns:
        if column.lower() in HISTORY_COLUMNS:
            raise InputError(f"columns: {column!r} is a name that every history has; choose another name.")
    keys = _names(on)
    known = histories.actions_of_history(_keyed(actions, keys), name, history, EVER)
    plan = HistoryPlan(name, last, history.within, history.delay, columns=tuple(history.columns))
    left = Stage.of(_packed(impressions, keys, time, name))
    joined = histories.join_history(left, known, plan, _partitions(impressions)).rows()
    return joined.select(f"{_SHOWN}.*", name)


def _viewed(
    impressions: DataFrame,
    source: DataFrame,
    name: str,
    view: View,
    keys: Sequence[str],
    time: str,
    columns: Sequence[str],
    method: Literal["union", "intervals"],
) -> DataFrame:
    rows = usable(view_rows(_keyed(source, keys), name, view, columns))
    if VALID_TO in rows.columns:
        rows = rows.where(~is_empty())
    left, join = Stage.of(_packed(impressions, keys, time, name)), Join(as_of(name, view, ["user"]), rows)
    if method == "intervals":
        joined = join_by_broadcast(left, [join])
    else:
        joined = join_by_shuffle(left, [join], _partitions(impressions))
    return joined.rows().select(f"{_SHOWN}.*", name)


def _partitions(frame: DataFrame) -> int:
    return int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)


def _packed(impressions: DataFrame, keys: Sequence[str], time: str, name: str) -> DataFrame:
    """Pack the original impression into a struct, next to the columns that the job's joins need."""
    if name.lower() in {column.lower() for column in impressions.columns}:
        raise InputError(f"name: the impressions have a column {name!r} already; choose another name.")
    # Equal rows may share an id: if the id breaks a tie, either may come first.
    needed = {
        "impression_id": content_hash(impressions),
        "impression_time": time_column(impressions, time, "time"),
        "user": _key(impressions, keys),
    }
    whole = F.struct(*[F.col(quoted(c)) for c in impressions.columns]).alias(_SHOWN)
    return impressions.select(whole, F.struct(*[c.alias(n) for n, c in needed.items()]).alias(_IMPRESSION))


def _keyed(frame: DataFrame, keys: Sequence[str]) -> DataFrame:
    return frame.withColumn(_KEY, _key(frame, keys))


def _key(frame: DataFrame, keys: Sequence[str]) -> Column:
    """Combine one or more columns into a single key, null if any of them is null."""
    return joint_key([key_column(frame, quoted(key), "on") for key in keys])


def _names(on: Keys) -> list[str]:
    return [on] if isinstance(on, str) else list(on)
