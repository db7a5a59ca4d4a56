"""Attribution of each action to at most one impression.

The rule, for an action at time t of a label with window W and skew S, among the impressions with the same values for a
set of keys:

1. The last impression at or before t claims the action, if it was shown at most W before t.
2. Else the first impression after t claims it, if it was shown at most S after t: two clocks may disagree.
3. Else the next set of keys is tried. By default the first set is the request with the item shown; for an action
   without a request id, the next is the user with the item. An action with a request id may belong to an impression of
   another request only if ``match`` allows it. An action that lacks a key of a set has no match by that set.
4. An action without a match in any set is an orphan.

Impressions of one key in the same microsecond are ordered by id. The result does not depend on the order of the logs.
Impressions and actions are rows of one frame, and each set of keys costs one shuffle of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import reduce
from types import MappingProxyType

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, NullType

from ctr_samples.samples.labels.actions import ACTION, key_of_action
from ctr_samples.samples.labels.plans import LabelPlan, keys_among, rounds
from ctr_samples.samples.labels.reduction import label_values, merged, state_of
from ctr_samples.sparksql.columns import micros_of

IS_ACTION = "_is_action"
ORPHAN = "_orphan"
DELAY = "_delay"
ACTION_KEYS = "_action_keys"
"""Columns of :func:`attribute`: whether a row is an action, whether it is an orphan, its delay in microseconds, and its
keys as text.
"""

SHOWN, AT, TIE = "_shown", "_at", "_tie"
"""Columns of the rows sorted by key: the impression as a struct, its time in microseconds, and the tie-breaker."""

TOGETHER = "_together"
"""Extra column of rows that are already partitioned. It is equal for all rows with the same first key set."""


def attribute(
    impressions: DataFrame, actions: Mapping[tuple[str, ...], Sequence[DataFrame]], plans: Sequence[LabelPlan]
) -> DataFrame:
    """Add labels to impressions. The actions become further rows (``_is_action``) for counting.

    ``impressions`` must have ``impression_id``, ``impression_time`` and all keys used for matching. ``actions`` maps
    the first key set to frames of :func:`actions_of`. Adds ``_is_action``, ``_orphan``, ``_delay``, ``_action``,
    ``_action_keys`` and, for each plan, its label column, plus ``<label>__mask`` for reduced values. Lazy.
    """
    names = keys_among(plans)
    action_type = next(iter(actions.values()))[0].schema[ACTION].dataType
    shown = _shown_rows(impressions, names, action_type)
    frames = {tried: [action_rows(frame, names, shown) for frame in some] for tried, some in actions.items()}
    every = [shown, *[frame for some in frames.values() for frame in some]]
    rows, *frames_in_order = with_keys_of_one_type(every, names)
    waiting = iter(frames_in_order)
    return attribute_rows(rows, plans, {tried: [next(waiting) for _ in some] for tried, some in frames.items()})


def attribute_rows(
    rows: DataFrame,
    plans: Sequence[LabelPlan],
    arriving: Mapping[tuple[str, ...], Sequence[DataFrame]] = MappingProxyType({}),
) -> DataFrame:
    """Like :func:`attribute`, for impressions and actions in one frame. ``arriving`` holds actions to add.

    A column ``_together`` shows that the rows are already partitioned by the first key set, so it needs no shuffle.
    """
    names = keys_among(plans)
    states: dict[str, list[Column]] = {plan.name: [] for plan in plans}
    waiting = dict(arriving)
    for number, (tried, trying) in enumerate(rounds(plans)):
        rows = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), waiting.pop(tried, []), rows)
        rows = _placed(rows, number, tried, trying)
        for plan in trying:
            states[plan.name].append(F.col(_state(number, plan)))
    labels = [column for plan in plans for column in label_values(plan, merged(plan, states[plan.name]))]
    orphan = (F.col(IS_ACTION) & F.col(DELAY).isNull()).alias(ORPHAN)
    keys = F.struct(*[F.col(key_of_action(name)).cast("string").alias(name) for name in names]).alias(ACTION_KEYS)
    return rows.select(f"{SHOWN}.*", IS_ACTION, orphan, DELAY, ACTION, keys, *labels)


def _shown_rows(impressions: DataFrame, names: Sequence[str], action_type: DataType) -> DataFrame:
    return impressions.select(
        *[F.col(name).alias(key_of_action(name)) for name in names],
        F.unix_micros("impression_time").alias(AT),
        F.col("impression_id").alias(TIE),
        F.lit(False).alias(IS_ACTION),
        F.struct(*[F.col(f"`{c}`") for c in impressions.columns]).alias(SHOWN),
        F.lit(None).cast(action_type).alias(ACTION),
        F.lit(None).cast("bigint").alias(DELAY),
    )


def action_rows(actions: DataFrame, names: Sequence[str], shown: DataFrame) -> DataFrame:
    """Return the actions of one log in the columns of the impressions' frame. Missing keys are null."""
    keys = [key_of_action(name) for name in names]
    return actions.select(
        *[F.col(key) if key in actions.columns else F.lit(None).alias(key) for key in keys],
        F.unix_micros(f"{ACTION}.time").alias(AT),
        F.lit(0).cast("bigint").alias(TIE),
        F.lit(True).alias(IS_ACTION),
        F.lit(None).cast(shown.schema[SHOWN].dataType).alias(SHOWN),
        F.col(ACTION),
        F.lit(None).cast("bigint").alias(DELAY),
    )


def with_keys_of_one_type(frames: Sequence[DataFrame], names: Sequence[str]) -> list[DataFrame]:
    """Make keys comparable: keep the type if all logs agree, else convert to text."""
    keys = [key_of_action(name) for name in names]
    texts = [key for key in keys if len({frame.schema[key].dataType for frame in frames} - {NullType()}) > 1]
    return [
        frame.withColumns({key: F.col(key).cast("string") for key in texts}) if texts else frame for frame in frames
    ]


def _placed(rows: DataFrame, number: int, tried: Sequence[str], plans: Sequence[LabelPlan]) -> DataFrame:
    """Attribute the unmatched actions by one set of keys, and add the states of their labels."""
    # Each row that cannot match, or already has, gets a unique key. Null keys would all pile up in one task.
    keys = [key_of_action(name) for name in tried]
    waiting = reduce(Column.__and__, [F.col(key).isNotNull() for key in keys], F.col(DELAY).isNull())
    bound = [plan.name for plan in plans if plan.is_bound_to_its_request and plan.first != tuple(tried)]
    if bound:
        of_a_request = F.col(f"{ACTION}.label").isin(bound) & F.col(key_of_action("request")).isNotNull()
        waiting &= F.coalesce(~of_a_request, F.lit(True))
    own = F.when(F.col(IS_ACTION), F.coalesce(F.col(AT), F.lit(0))).otherwise(F.col(TIE))
    alone = F.when(~waiting, F.concat(F.col(IS_ACTION).cast("string"), own.cast("string")))
    keyed = rows.withColumns({"_alone": alone, "_shown_at": F.when(~F.col(IS_ACTION), F.col(AT))})
    hashed = [TOGETHER] if number == 0 and TOGETHER in rows.columns else []
    together = [*hashed, *keys, "_alone"]
    order = [AT, IS_ACTION, TIE, f"{ACTION}.label", f"{ACTION}.value"]
    in_order = Window.partitionBy(*together).orderBy(*order)
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    numbered = keyed.withColumns(
        {
            "_number": F.count("_shown_at").over(so_far),
            "_since": F.col(AT) - F.last("_shown_at", ignorenulls=True).over(so_far),
            "_until": _until_next(plans, together, order),
        }
    )
    waits = F.col(IS_ACTION) & F.col("_alone").isNull()
    after = waits & (F.col("_since") <= _of_label(plans, {plan.name: plan.label.window for plan in plans}))
    before = waits & (F.col("_until") <= _of_label(plans, {plan.name: plan.label.skew for plan in plans}))
    takes = F.when(~F.col(IS_ACTION) | after, F.col("_number")).when(before, F.col("_number") + 1)
    delay = F.when(after, F.col("_since")).when(before, -F.col("_until"))
    taken = numbered.withColumns({"_takes": takes, "_found": delay})
    # Sorted, since a float sum depends on the order.
    of_one = (
        Window.partitionBy(*together, "_takes")
        .orderBy(*order)
        .rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    )
    states = {_state(number, plan): state_of(plan, F.col("_found").isNotNull(), of_one) for plan in plans}
    return taken.withColumns({**states, DELAY: F.coalesce(F.col(DELAY), F.col("_found"))}).drop(
        *hashed, "_alone", "_shown_at", "_number", "_since", "_until", "_takes", "_found"
    )


def _until_next(plans: Sequence[LabelPlan], together: Sequence[str], order: Sequence[str]) -> Column:
    """Return the microseconds to the next impression of the key. Computed only if a label tolerates clock skew."""
    if not any(plan.label.skew for plan in plans):
        return F.lit(None).cast("bigint")
    # `lead` scans the partition once. A window frame to its end would be read again for each row.
    window = f"partition by {', '.join(together)} order by {', '.join(order)}"
    return F.expr(f"lead(_shown_at) ignore nulls over ({window})") - F.col(AT)


def _of_label(plans: Sequence[LabelPlan], spans: Mapping[str, timedelta]) -> Column:
    """Return a duration for the label of an action, in microseconds. Null for labels that do not use this key set."""
    chosen = F.lit(None).cast("bigint")
    for plan in plans:
        micros = F.lit(micros_of(spans[plan.name]))
        chosen = F.when(F.col(f"{ACTION}.label") == plan.name, micros).otherwise(chosen)
    return chosen


def _state(number: int, plan: LabelPlan) -> str:
    return f"_{number}_{plan.name}"
