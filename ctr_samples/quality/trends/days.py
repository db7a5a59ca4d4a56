"""Figures of one day on the multi-day page. Value classes only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from ctr_samples.quality.drift import compared
from ctr_samples.quality.metrics import Finding, Metrics
from ctr_samples.quality.report.manifest_view import Run
from ctr_samples.quality.served import Served

Standing = Literal["passed", "warned", "refused", "missing", "damaged"]
Group = Literal[
    "volume", "dropped", "rate", "rate_by", "orphans", "flips", "matched", "age", "missing", "drift", "served", "run"
]
_VALUES = 10
"""Number of values of a column whose rates have a line."""
Figures = Mapping[Group, Mapping[str, float]]
"""Figures by group and name: shares from 0 to 1, except ``volume`` (counts), ``age`` (seconds), ``run`` (see
:func:`figures_of`) and the ``rate`` of non-binary labels."""


@dataclass(frozen=True, slots=True)
class DayPoint:
    """A day, an hour or a whole log on the page.

    ``page`` is the relative URL of the day's report. ``standing`` is the published verdict, or the reason for its
    absence. ``note`` is the status in words.
    """

    day: str
    standing: Standing
    note: str
    page: str = ""
    generation: int | None = None
    figures: Figures = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    flags: frozenset[str] = frozenset()
    """Names of the 0/1 labels."""

    def figure(self, group: Group, name: str) -> float | None:
        """Return a figure, or None if the day lacks it."""
        return self.figures.get(group, {}).get(name)


def figures_of(metrics: Metrics, run: Run, served: Served | None = None) -> Figures:
    """Return the figures of a published day, with those of a comparison with what was served, if there is one.

    The group ``run`` holds the ``run time`` in seconds, the bytes ``written`` and ``read``, the number of ``shards``
    and ``lines``, the ``generation`` and the share of ``malformed lines``. Uncounted figures are omitted.
    """
    whole = metrics.accounting["impressions"]
    labels = {name: list(label.splits.values()) for name, label in metrics.labels.items()}
    return {
        "volume": {"impressions": whole, "samples": metrics.rows},
        "dropped": {reason: n / whole for reason, n in metrics.dropped.items() if whole},
        "rate": {
            name: sum(split.sum for split in splits) / total
            for name, splits in labels.items()
            if (total := sum(split.count for split in splits))
        },
        "rate_by": dict(_rates_by(metrics)),
        "orphans": {name: a.orphans / a.actions for name, a in metrics.actions.items() if a.actions},
        "flips": dict(_flips(metrics, run)),
        "matched": {name: view["match_rate"] for name, view in metrics.views.items()},
        "age": {name: view["age_s_median"] for name, view in metrics.views.items() if "age_s_median" in view},
        "missing": dict(_missing(metrics)),
        "drift": dict(metrics.drift),
        "served": {} if served is None else {name: one.share for name, one in served.features.items()},
        "run": dict(_run(metrics, run)),
    }


def _rates_by(metrics: Metrics) -> Iterator[tuple[str, float]]:
    """Yield the rate of the main label for the most frequent values of columns."""
    columns = metrics.click_rate.by_column if metrics.click_rate else {}
    for name, values in columns.items():
        for one in values[:_VALUES]:
            if one.rate is not None and not one.others:
                yield f"{name} {'without a value' if one.value is None else one.value}", one.rate


def _flips(metrics: Metrics, run: Run) -> Iterator[tuple[str, float]]:
    """Yield the share of samples whose label changed since the previous generation, by label."""
    for name, label in run.labels.items():
        flips = label.get("flips", {})
        if flips and metrics.rows and "not_compared" not in flips:
            changed = sum(flips.get(key, 0) for key in ("flipped_to_1", "flipped_to_0", "changed"))
            yield name, changed / metrics.rows


def _missing(metrics: Metrics) -> Iterator[tuple[str, float]]:
    """Yield the share of rows without a value or with the default value, by feature."""
    for name in metrics.features:
        facts, _ = compared(metrics, None, name)
        if facts is not None and facts.rows:
            yield name, (facts.nulls + facts.defaults) / facts.rows


def _run(metrics: Metrics, run: Run) -> Iterator[tuple[str, float]]:
    yield "run time", metrics.seconds
    yield "written", metrics.shards.bytes.total
    yield "shards", metrics.shards.count
    yield "generation", metrics.generation
    for name, key in (("read", "bytes"), ("lines", "lines")):
        counts = [source[key] for source in run.inputs.values() if source.get(key) is not None]
        if counts:
            yield name, sum(counts)
    counted = [source for source in run.inputs.values() if source.get("lines") and "malformed" in source]
    if counted:
        whole = sum(source["lines"] for source in counted)
        yield "malformed lines", sum(source["malformed"] for source in counted) / whole
