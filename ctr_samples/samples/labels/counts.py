"""Counts of actions, orphans and delays, and of the values of row labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ctr_samples.config import RowLabel
from ctr_samples.config.units import format_duration
from ctr_samples.errors import InputError
from ctr_samples.samples.columnar.columns import Flags, Integers, greatest, mixed, texts
from ctr_samples.samples.columnar.counts import Counts
from ctr_samples.samples.labels.attribution import Events
from ctr_samples.samples.labels.plans import LabelPlan, keys_among
from ctr_samples.sparksql.columns import micros_of

_MICROSECOND = timedelta(microseconds=1)
_EDGES = tuple(timedelta(seconds=s) for s in (1, 10, 60, 600, 3600, 6 * 3600, 24 * 3600))
_UNITS = tuple(timedelta(seconds=s) for s in (1, 60, 3600))
"""Units to which clocks cut times, from fine to coarse."""
_WITHOUT_VALUE, _NO_FLAG = "without_value", "no_flag"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

MOST_SAMPLED = 100
"""Maximum number of orphans per label listed in the manifest."""


def delay_ends(plan: LabelPlan) -> dict[str, timedelta]:
    """Return the upper end of each delay range up to the window, by name. Includes ``before`` if clocks may differ."""
    early = {"before": -_MICROSECOND} if plan.label.skew else {}
    edges = [edge for edge in _EDGES if edge < plan.label.window]
    return early | {format_duration(edge): edge for edge in (*edges, plan.label.window)}


def check_row_labels(labels: Mapping[str, RowLabel], counts: Counts) -> None:
    """Raise InputError if a row label that must be 0 or 1 has any other value."""
    for name, label in labels.items():
        if others := counts.sums.get(f"{name}.{_NO_FLAG}", 0):
            raise InputError(
                f"labels.{name}.expr: {label.expr} is neither 0 nor 1 for {others:,} impressions; write a condition, such "
                f"as `{label.expr} > 0`, or say `dtype: float32` for the number itself."
            )


def count_row_labels(values: Mapping[str, pa.Array], labels: Mapping[str, RowLabel], counts: Counts) -> None:
    """Count the values of row labels of the period's impressions. Runs on executors."""
    for name, label in labels.items():
        counts.add(f"{name}.{_WITHOUT_VALUE}", values[name].null_count)
        if label.is_flag:
            neither = pc.invert(pc.is_in(values[name].drop_null(), value_set=pa.array([0, 1], values[name].type)))
            counts.add(f"{name}.{_NO_FLAG}", pc.sum(neither).as_py() or 0)


def count_actions(events: Events, mine: Flags, keys: Mapping[str, pa.ChunkedArray], counts: Counts) -> None:
    """Count the actions among events that are ``mine``, by label and delay. Runs on executors.

    ``mine`` and the columns ``keys``, from which orphans are listed, have an entry for each action.
    """
    first = events.shown
    labels, found, delays = events.labels[first:], events.found[first:], events.delays[first:]
    for plan in events.plans:
        own = mine & (labels == events.number(plan))
        counts.add(f"{plan.name}.orphans", (own & ~found).sum())
        for unit in _UNITS:
            name, micros = f"{plan.name}.{format_duration(unit)}", micros_of(unit)
            counts.add(f"{name}.early", (own & ~found & (events.until[first:] < micros)).sum())
            counts.add(f"{name}.finer", (own & events.timed[first:] & (events.at[first:] % micros != 0)).sum())
        ends = delay_ends(plan)
        places = np.searchsorted([micros_of(end) for end in ends.values()], delays[own & found])
        for name, number in zip(ends, np.bincount(places, minlength=len(ends)), strict=True):
            counts.add(f"{plan.name}.delay.{name}", number)
        if plan.label.value is not None:
            counts.add(f"{plan.name}.{_WITHOUT_VALUE}", (own & ~events.valued[first:]).sum())
        if plan.label.orphans == "quarantine":
            rows = np.flatnonzero(own & ~found)
            counts.sample(f"{plan.name}.sample", _ranked(events, rows, keys), MOST_SAMPLED)


def _ranked(events: Events, rows: Integers, keys: Mapping[str, pa.ChunkedArray]) -> Iterator[tuple[int, list[Any]]]:
    """Yield the orphans that may be listed. Ranked by hash, so every run lists the same, regardless of log order."""
    at = rows + events.shown
    hashes = mixed(events.at[at] ^ events.values[at].view(np.int64)) & (2**53 - 1)
    best = greatest(hashes, MOST_SAMPLED)
    rows, hashes, at = rows[best], hashes[best], at[best]
    taken = [texts(column.take(pa.array(rows))) for column in keys.values()]
    times = [int(micros) if timed else None for micros, timed in zip(events.at[at], events.timed[at], strict=True)]
    for rank, time, own in zip(hashes, times, zip(*taken, strict=True), strict=True):
        yield int(rank), [time, *own]


def label_counts(plans: Sequence[LabelPlan], rows: Iterable[str], counts: Counts) -> dict[str, dict[str, Any]]:
    """Return the manifest entry of each label: the day's ``actions``, ``orphans``, ``without_value`` and ``delays``,
    and ``early_orphans`` if there are any. The row labels, ``rows``, have only ``without_value``.

    ``orphan_sample`` lists some orphans with their keys, unless the configuration drops orphans. ``delays`` maps the
    end of each range (``"10s"``: more than a second, at most ten) to the number of actions in it.
    """
    labels: dict[str, dict[str, Any]] = {}
    names = keys_among(plans)
    for plan in plans:
        orphans = counts.sums.get(f"{plan.name}.orphans", 0)
        delays = {name: counts.sums.get(f"{plan.name}.delay.{name}", 0) for name in delay_ends(plan)}
        labels[plan.name] = {
            "actions": orphans + sum(delays.values()),
            "orphans": orphans,
            "without_value": counts.sums.get(f"{plan.name}.{_WITHOUT_VALUE}", 0),
            "delays": delays,
            **_early_orphans(plan.name, counts),
        }
        if plan.label.orphans == "quarantine":
            some = counts.samples.get(f"{plan.name}.sample", ())
            labels[plan.name]["orphan_sample"] = sorted(
                (_orphan(names, row) for _, row in some), key=lambda orphan: [value or "" for value in orphan.values()]
            )
    return labels | {name: {_WITHOUT_VALUE: counts.sums.get(f"{name}.{_WITHOUT_VALUE}", 0)} for name in rows}


def _early_orphans(label: str, counts: Counts) -> dict[str, Any]:
    """Return the manifest entry of orphans that lie less than a second, or a unit of their clock, before an impression
    with their keys. Empty if there are none.
    """
    names = [format_duration(unit) for unit in _UNITS]
    whole = [name for name in names[1:] if not counts.sums.get(f"{label}.{name}.finer", 0)]
    unit = [names[0], *whole][-1]
    early = counts.sums.get(f"{label}.{unit}.early", 0)
    return {"early_orphans": {"within": unit, "count": early}} if early else {}


def _orphan(names: Sequence[str], row: Sequence[Any]) -> dict[str, str | None]:
    micros, *keys = row
    time = None if micros is None else (_EPOCH + micros * _MICROSECOND).isoformat()
    return {"time": time, **dict(zip(names, keys, strict=True))}
