"""The click rate: of the day, by hour, by split, and what a model must be better than."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from ctr_samples.quality.report.charts import columns, round_top
from ctr_samples.quality.report.documents import by_split, figure, mapping, objects, text
from ctr_samples.quality.report.tables import Table, table
from ctr_samples.quality.report.wording import count, moved, number, share, shown


@dataclass(frozen=True, slots=True)
class Clicks:
    """``axis`` are the labels of the chart's left side, from the top."""

    label: str
    rate: str
    counts: str
    moved: str
    chart: Markup | None
    axis: tuple[str, str, str]
    hours: Table
    splits: Table
    baseline: Table


@dataclass(frozen=True, slots=True)
class Rate:
    """Positives among samples."""

    samples: float
    positives: float

    @property
    def value(self) -> float | None:
        """The click rate; None without samples."""
        return self.positives / self.samples if self.samples else None


def overall(metrics: Mapping[str, Any]) -> Rate:
    """The rate over all splits."""
    splits = _splits(metrics).values()
    return Rate(sum(rate.samples for rate in splits), sum(rate.positives for rate in splits))


def clicks_of(metrics: Mapping[str, Any], reference: Mapping[str, Any]) -> Clicks | None:
    """What is known of clicks; None where no 0/1 label was counted."""
    if not _splits(metrics):
        return None
    day, before = overall(metrics), overall(reference)
    hours, hours_before = _hours(metrics), _hours(reference)
    chart, axis = _chart(hours, hours_before) if hours else (None, ("", "", ""))
    return Clicks(
        label=shown(text(metrics, "click_rate", "label") or "clicked"),
        rate=share(day.value),
        counts=f"{count(day.positives)} of {count(day.samples)} samples",
        moved=moved(day.value, before.value),
        chart=chart,
        axis=axis,
        hours=table(
            "Click rate by hour", "<hour | samples | positives | rate | before", _hour_rows(hours, hours_before)
        ),
        splits=table(
            "Click rate by split", "<split | samples | positives | rate | before", _split_rows(metrics, reference)
        ),
        baseline=table("What a model must beat", "<baseline | figure", _baseline(metrics)),
    )


def _rate(document: Mapping[str, Any]) -> Rate:
    return Rate(figure(document, "samples") or 0, figure(document, "positives") or 0)


def _splits(metrics: Mapping[str, Any]) -> dict[str, Rate]:
    return {name: _rate(mapping(counts)) for name, counts in by_split(metrics, "click_rate", "by_split").items()}


def _hours(metrics: Mapping[str, Any]) -> dict[int, Rate]:
    found = {figure(counts, "hour"): _rate(counts) for counts in objects(metrics, "click_rate", "by_hour")}
    return {int(hour): rate for hour, rate in found.items() if hour is not None and 0 <= hour <= 23}


def _chart(day: Mapping[int, Rate], before: Mapping[int, Rate]) -> tuple[Markup, tuple[str, str, str]]:
    rates, old = ([found[hour].value if hour in found else None for hour in range(24)] for found in (day, before or {}))
    top = round_top(max((rate for rate in (*rates, *old) if rate is not None), default=0.0))
    hints = [_hint(hour, day.get(hour), before.get(hour)) for hour in range(24)]
    drawn = columns(rates, old if before else (), top=top, label=_in_words(day), hints=hints, grid=True)
    return drawn, (share(top), share(top / 2), "0%")


def _hint(hour: int, day: Rate | None, before: Rate | None) -> str:
    now = f"{share(day.value)} ({count(day.positives)} of {count(day.samples)})" if day else "no samples"
    return f"{hour:02d}:00 {now}" + (f"; before {share(before.value)}" if before else "")


def _in_words(day: Mapping[int, Rate]) -> str:
    known = {hour: rate.value for hour, rate in day.items() if rate.value is not None}
    if not known:
        return "Click rate by hour: no samples."
    low, high = min(known, key=lambda h: known[h] or 0), max(known, key=lambda h: known[h] or 0)
    return (
        f"Click rate by hour: lowest {share(known[low])} at {low:02d}:00, highest {share(known[high])} at {high:02d}:00. "
        "The table below has all hours."
    )


def _hour_rows(day: Mapping[int, Rate], before: Mapping[int, Rate]) -> Iterator[tuple[str, ...]]:
    for hour, rate in sorted(day.items()):
        old = before[hour].value if hour in before else None
        yield f"{hour:02d}:00", count(rate.samples), count(rate.positives), share(rate.value), share(old)


def _split_rows(metrics: Mapping[str, Any], reference: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    before = _splits(reference)
    for split, rate in _splits(metrics).items():
        old = before[split].value if split in before else None
        yield shown(split), count(rate.samples), count(rate.positives), share(rate.value), share(old)


def _baseline(metrics: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    known = mapping(metrics, "baseline")
    if not known:
        return
    yield "click rate that is always predicted", share(figure(known, "rate"))
    yield "its log loss: a model must be below", number(figure(known, "log_loss"))
    yield "accuracy of always giving the more frequent answer", share(figure(known, "accuracy"))
    yield "AUC of either", "0.5"
