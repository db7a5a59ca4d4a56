"""Flow of the accounting: impressions, drops by reason, samples, splits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ctr_samples.quality.metrics import Measured
from ctr_samples.quality.report.charts import bar
from ctr_samples.quality.report.manifest_view import Run
from ctr_samples.quality.report.wording import Table, by_split, change, count, plural, share, shown, table

REASONS = {
    "no_time": "no readable time",
    "no_article": "no article",
    "repeated": "repeats",
    "skip_above": "below the last click",
    "down_sampled": "down-sampled negatives",
    "forgotten": "of users to be forgotten",
}


@dataclass(frozen=True, slots=True)
class Flow:
    """The accounting section. ``balance`` says whether the counts add up; ``none`` lists the reasons without drops."""

    steps: Table
    balance: str
    balanced: bool
    none: str


def flow_of(metrics: Measured, reference: Measured | None, limit: int, tied: int | None = None) -> Flow:
    """Return the accounting of a run, with the counts of the reference for comparison. ``tied`` counts the repeats that only
    their content tells from the impression that stays.
    """
    impressions = metrics.accounting["impressions"]
    known = _known(reference) if reference else {}
    steps = table(
        "From impressions to samples",
        "<step | count | =share of impressions | share | before",
        (
            (name, count(n), drawn, _share(n, impressions), _change(n, known.get(key)))
            for key, name, n, drawn in _steps(metrics)
        ),
        limit,
    )
    lost = impressions - metrics.accounting["samples"] - sum(metrics.dropped.values())
    none = ", ".join(REASONS.get(reason, shown(reason)) for reason, n in metrics.dropped.items() if not n)
    only_content = (
        f" {plural(tied, 'repeat')} of the same time and place had other columns; a hash chose." if tied else ""
    )
    return Flow(steps, _balance(metrics, lost) + only_content, lost == 0, none)


def elsewhere_of(run: Run, limit: int) -> tuple[str, ...]:
    """Return a sentence for each time by which rows lie in the directory of another day than their own."""
    found = [(name, of) for source in run.inputs.values() for name, of in source.get("other_days", {}).items()]
    return tuple(
        f"{shown(name)}: {count(of.get('of_other_days', 0))} of the {count(of.get('rows', 0))} rows in the directory of the "
        f"day are of other days; {count(of.get('from_other_days', 0))} rows of the day lie in directories of other days."
        for name, of in found[:limit]
    )


def _known(reference: Measured) -> dict[str, int]:
    """Return the counts of the reference, by the keys of :func:`_steps`."""
    return {**reference.accounting, **{f"split {split}": n for split, n in reference.samples.items()}}


def _steps(metrics: Measured) -> Iterator[tuple[str, str, int, str]]:
    """Yield key, name, count and bar of each step. Drops shorten the remaining bar from the right."""
    impressions, samples = metrics.accounting["impressions"], metrics.accounting["samples"]
    whole = max(impressions, 1)
    yield "impressions", "impressions", impressions, bar(impressions / whole, tone="whole")
    left = impressions
    for reason, n in sorted(metrics.dropped.items(), key=lambda item: -item[1]):
        if n:
            left -= n
            yield reason, f"− {REASONS.get(reason, shown(reason))}", n, bar(n / whole, start=left / whole, tone="lost")
    yield "samples", "= samples", samples, bar(samples / whole)
    start = 0
    for split, n in by_split(metrics.samples).items():
        yield f"split {split}", f"in {shown(split)}", n, bar(n / whole, start=start / whole, tone="part")
        start += n


def _share(n: float, impressions: float) -> str:
    return share(n / impressions) if impressions else ""


def _change(n: float, before: float | None) -> str:
    if before is None:
        return ""
    changed = change(n, before)
    return f"{count(before)} ({changed})" if changed else count(before)


def _balance(metrics: Measured, lost: int) -> str:
    impressions, samples = (count(metrics.accounting[key]) for key in ("impressions", "samples"))
    parts = f"{samples} samples + {count(sum(metrics.dropped.values()))} dropped"
    if lost == 0:
        return f"{impressions} impressions = {parts}: every impression is accounted for."
    return (
        f"The account does not balance: {impressions} impressions, but {parts}; "
        f"{plural(abs(lost), 'impression')} {'missing' if lost > 0 else 'too many'}."
    )
