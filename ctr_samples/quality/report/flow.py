"""The account as a flow: impressions, what was dropped and why, samples, splits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ctr_samples.quality.report.charts import bar
from ctr_samples.quality.report.documents import by_split, figures
from ctr_samples.quality.report.tables import Table, table
from ctr_samples.quality.report.wording import change, count, share, shown

REASONS = {
    "no_time": "no readable time",
    "no_article": "no article named",
    "repeated": "repeats",
    "skip_above": "below the last click",
    "down_sampled": "down-sampled negatives",
}


@dataclass(frozen=True, slots=True)
class Flow:
    """``balance`` says whether it adds up, ``none`` names the reasons for which nothing was dropped."""

    steps: Table
    balance: str
    balanced: bool
    none: str


def flow_of(metrics: Mapping[str, Any], reference: Mapping[str, Any], limit: int) -> Flow | None:
    """The account of a run, beside that of the reference; None where nothing was counted."""
    counts, before = figures(metrics, "accounting"), figures(reference, "accounting")
    if not counts and not figures(metrics, "samples"):
        return None
    splits, splits_before = figures(by_split(metrics, "samples")), figures(reference, "samples")
    dropped = {reason: n for reason, n in counts.items() if reason not in ("impressions", "samples")}
    samples = counts.get("samples", sum(splits.values()))
    impressions = counts.get("impressions", samples + sum(dropped.values()))
    rows = _steps(impressions, samples, dropped, splits)
    known = {**before, **{f"split {name}": value for name, value in splits_before.items()}}
    steps = table(
        "From impressions to samples",
        "<step | count | =part of the impressions | share | before",
        ((name, count(n), drawn, _share(n, impressions), _change(n, known.get(key))) for key, name, n, drawn in rows),
        limit,
    )
    lost = impressions - samples - sum(dropped.values())
    none = ", ".join(REASONS.get(reason, shown(reason)) for reason, n in dropped.items() if not n)
    return Flow(steps, _balance(impressions, samples, sum(dropped.values()), lost), lost == 0, none)


def _steps(
    impressions: float, samples: float, dropped: Mapping[str, float], splits: Mapping[str, float]
) -> Iterator[tuple[str, str, float, str]]:
    """Key, name, count and bar of each step; what is dropped comes off the right end of what is left."""
    whole = max(impressions, 1)
    yield "impressions", "impressions", impressions, bar(impressions / whole, tone="whole")
    left = impressions
    for reason, n in sorted(dropped.items(), key=lambda item: -item[1]):
        if n:
            left -= n
            yield reason, f"− {REASONS.get(reason, shown(reason))}", n, bar(n / whole, start=left / whole, tone="lost")
    yield "samples", "= samples", samples, bar(samples / whole)
    start = 0.0
    for split, n in splits.items():
        yield f"split {split}", f"in {shown(split)}", n, bar(n / whole, start=start / whole, tone="part")
        start += n


def _share(n: float, impressions: float) -> str:
    return share(n / impressions) if impressions else ""


def _change(n: float, before: float | None) -> str:
    said = change(n, before)
    return f"{count(before)} ({said})" if said else count(before) if before is not None else ""


def _balance(impressions: float, samples: float, dropped: float, lost: float) -> str:
    sum_of = f"{count(impressions)} impressions = {count(samples)} samples + {count(dropped)} dropped"
    if lost == 0:
        return f"{sum_of}: every impression is accounted for."
    return f"{sum_of} does not hold: {count(abs(lost))} impressions are {'missing' if lost > 0 else 'too many'}."
