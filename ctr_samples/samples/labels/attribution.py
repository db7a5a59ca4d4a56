"""Finds for each action the one impression that it belongs to, or none.

The rule, for an action at time t of a label with window W and skew S, among the impressions with its key and article:

1. The last one shown at or before t takes it, if that was at most W ago.
2. Else the first one shown after t takes it, if that is at most S later: the clocks of two machines disagree.
3. Else the next kind of key is tried: first the request, then the user, where the configuration has both. So an action
   that carries no request id, or one that finds nothing in time, may still find its impression by user.
4. An action that no key places is an orphan.

An impression of the same microsecond as others of its key comes after those with a smaller id. Nothing here depends on the
order of the logs. Impressions and actions travel as the rows of one frame; each kind of key costs one shuffle of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import NullType

from ctr_samples.samples.labels.actions import ACTION
from ctr_samples.samples.labels.plans import LabelPlan
from ctr_samples.samples.labels.reduction import label_values, merged, state_of
from ctr_samples.sparksql.columns import micros_of

IS_ACTION = "_is_action"
ORPHAN = "_orphan"
DELAY = "_delay"
ACTION_KEYS = "_action_keys"
"""Columns of :func:`attribute`: what a row is, whether an action is an orphan, its delay in microseconds, its keys as text."""

KINDS = ("request", "user")
"""The kinds of key, in the order in which they are tried."""

_SHOWN, _AT, _TIE = "_shown", "_at", "_tie"


def attribute(
    impressions: DataFrame, actions: Mapping[str, Sequence[DataFrame]], plans: Sequence[LabelPlan]
) -> DataFrame:
    """Impressions with their labels, and the actions themselves as further rows (``_is_action``), to be counted.

    ``impressions`` must have ``impression_id``, ``impression_time``, ``article`` and the keys that are tried; ``actions`` are
    frames of :func:`actions_of` by the kind of key that is tried first. Adds ``_is_action``, ``_orphan``, ``_delay``,
    ``_action``, ``_action_keys`` and, for each plan, its label column and for reduced values ``<label>__mask``. Lazy.
    """
    shown = _shown_rows(impressions, actions)
    frames = {kind: [_action_rows(frame, kind, shown) for frame in some] for kind, some in actions.items()}
    rows, *frames_in_order = _with_keys_of_one_type([shown, *[frame for some in frames.values() for frame in some]])
    waiting = iter(frames_in_order)
    arriving = {kind: [next(waiting) for _ in some] for kind, some in frames.items()}
    states: dict[str, list[Column]] = {plan.name: [] for plan in plans}
    for kind in KINDS:
        tried = [plan for plan in plans if kind in plan.tried]
        if not tried:
            continue
        rows = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), arriving.get(kind, []), rows)
        rows = _placed(rows, kind, tried)
        for plan in tried:
            states[plan.name].append(F.col(_state(kind, plan)))
    labels = [column for plan in plans for column in label_values(plan, merged(plan, states[plan.name]))]
    orphan = (F.col(IS_ACTION) & F.col(DELAY).isNull()).alias(ORPHAN)
    keys = F.struct(*[F.col(_key(k)).cast("string").alias(k) for k in (*KINDS, "article")]).alias(ACTION_KEYS)
    return rows.select(f"{_SHOWN}.*", IS_ACTION, orphan, DELAY, ACTION, keys, *labels)


def _shown_rows(impressions: DataFrame, actions: Mapping[str, Sequence[DataFrame]]) -> DataFrame:
    action_type = next(iter(actions.values()))[0].schema[ACTION].dataType
    keys = [(F.col(k) if k in impressions.columns else F.lit(None)).alias(_key(k)) for k in (*KINDS, "article")]
    return impressions.select(
        *keys,
        F.unix_micros("impression_time").alias(_AT),
        F.col("impression_id").alias(_TIE),
        F.lit(False).alias(IS_ACTION),
        F.struct(*[F.col(c) for c in impressions.columns]).alias(_SHOWN),
        F.lit(None).cast(action_type).alias(ACTION),
        F.lit(None).cast("bigint").alias(DELAY),
    )


def _action_rows(actions: DataFrame, kind: str, shown: DataFrame) -> DataFrame:
    other = next(k for k in KINDS if k != kind)
    return actions.select(
        F.col("key").alias(_key(kind)),
        F.col("fallback").alias(_key(other)),
        F.col("article").alias(_key("article")),
        F.unix_micros(f"{ACTION}.time").alias(_AT),
        F.lit(0).cast("bigint").alias(_TIE),
        F.lit(True).alias(IS_ACTION),
        F.lit(None).cast(shown.schema[_SHOWN].dataType).alias(_SHOWN),
        F.col(ACTION),
        F.lit(None).cast("bigint").alias(DELAY),
    )


def _with_keys_of_one_type(frames: Sequence[DataFrame]) -> list[DataFrame]:
    """Keys ready to compare: as they are where all logs agree, else as text."""
    keys = [_key(kind) for kind in (*KINDS, "article")]
    texts = [key for key in keys if len({frame.schema[key].dataType for frame in frames} - {NullType()}) > 1]
    return [
        frame.withColumns({key: F.col(key).cast("string") for key in texts}) if texts else frame for frame in frames
    ]


def _placed(rows: DataFrame, kind: str, plans: Sequence[LabelPlan]) -> DataFrame:
    """Places the actions that are not placed yet by one kind of key, and adds the states of the labels that it finds."""
    # What cannot match, or has, gets a key of its own: null keys would all gather on one task.
    key = F.when(F.col(DELAY).isNull(), F.col(_key(kind)))
    own = F.when(F.col(IS_ACTION), F.coalesce(F.col(_AT), F.lit(0))).otherwise(F.col(_TIE))
    alone = F.when(key.isNull(), F.concat(F.col(IS_ACTION).cast("string"), own.cast("string")))
    keyed = rows.withColumns({"_by": key, "_alone": alone, "_shown_at": F.when(~F.col(IS_ACTION), F.col(_AT))})
    together = ["_by", _key("article"), "_alone"]
    order = [_AT, IS_ACTION, _TIE, f"{ACTION}.label", f"{ACTION}.value"]
    in_order = Window.partitionBy(*together).orderBy(*order)
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    numbered = keyed.withColumns(
        {
            "_number": F.count("_shown_at").over(so_far),
            "_since": F.col(_AT) - F.last("_shown_at", ignorenulls=True).over(so_far),
            "_until": _until_next(plans, together, order),
        }
    )
    waits = F.col(IS_ACTION) & F.col("_by").isNotNull()
    after = waits & (F.col("_since") <= _of_label(plans, {plan.name: plan.label.window for plan in plans}))
    before = waits & (F.col("_until") <= _of_label(plans, {plan.name: plan.label.skew for plan in plans}))
    takes = F.when(~F.col(IS_ACTION) | after, F.col("_number")).when(before, F.col("_number") + 1)
    delay = F.when(after, F.col("_since")).when(before, -F.col("_until"))
    taken = numbered.withColumns({"_takes": takes, "_found": delay})
    # In order, since a sum of floats depends on it.
    of_one = (
        Window.partitionBy(*together, "_takes")
        .orderBy(*order)
        .rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    )
    states = {_state(kind, plan): state_of(plan, F.col("_found").isNotNull(), of_one) for plan in plans}
    return taken.withColumns({**states, DELAY: F.coalesce(F.col(DELAY), F.col("_found"))}).drop(
        "_by", "_alone", "_shown_at", "_number", "_since", "_until", "_takes", "_found"
    )


def _until_next(plans: Sequence[LabelPlan], together: Sequence[str], order: Sequence[str]) -> Column:
    """Microseconds to the next impression of the key; only looked for where a label tolerates any."""
    if not any(plan.label.skew for plan in plans):
        return F.lit(None).cast("bigint")
    # `lead` passes over the partition once; a frame that reaches its end would be read again for each row.
    window = f"partition by {', '.join(together)} order by {', '.join(order)}"
    return F.expr(f"lead(_shown_at) ignore nulls over ({window})") - F.col(_AT)


def _of_label(plans: Sequence[LabelPlan], spans: Mapping[str, timedelta]) -> Column:
    """The span of an action's label, in microseconds; null for the labels that do not try this key."""
    chosen = F.lit(None).cast("bigint")
    for plan in plans:
        micros = F.lit(micros_of(spans[plan.name]))
        chosen = F.when(F.col(f"{ACTION}.label") == plan.name, micros).otherwise(chosen)
    return chosen


def _key(kind: str) -> str:
    return f"_{kind}_key"


def _state(kind: str, plan: LabelPlan) -> str:
    return f"_{kind}_{plan.name}"
