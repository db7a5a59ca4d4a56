"""Click rate section: overall, by hour, by split, and the baseline for models."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ctr_samples.quality import metrics as document
from ctr_samples.quality.metrics import HOURS, Baseline, ClickRate, Measured, ValueRate
from ctr_samples.quality.report.charts import columns, round_top
from ctr_samples.quality.report.wording import Table, by_split, count, moved, number, share, shown, table


@dataclass(frozen=True, slots=True)
class HourChart:
    """The rates of a label by hour. ``axis`` holds the labels of the vertical axis, from the top. ``vague`` names the
    hours with few samples.
    """

    label: str
    drawing: Markup
    axis: tuple[str, str, str]
    vague: str


@dataclass(frozen=True, slots=True)
class ClickSection:
    """The click rate section. ``charts`` has one chart for each 0/1 label, the main one first."""

    label: str
    rate: str
    counts: str
    moved: str
    charts: tuple[HourChart, ...]
    hours: Table
    splits: Table
    columns: tuple[Table, ...]
    baseline: Table


def overall(rate: ClickRate | None) -> document.Clicks:
    """Sum the clicks of all splits."""
    splits = rate.by_split.values() if rate else ()
    return document.Clicks(sum(split.samples for split in splits), sum(split.positives for split in splits))


def clicks_of(metrics: Measured, reference: Measured | None) -> ClickSection | None:
    """Return the click rate section of a day, or None if there is no 0/1 label or no samples."""
    now, old = metrics.click_rate, reference.click_rate if reference else None
    if now is None or not now.by_split:
        return None
    day, before = overall(now), overall(old)
    hours, hours_before = _hours(now), _hours(old)
    return ClickSection(
        label=shown(now.label),
        rate=share(day.rate),
        counts=f"{count(day.positives)} of {count(day.samples)} samples",
        moved=moved(day.rate, before.rate),
        charts=tuple(_charts(now, old)),
        hours=table(
            "Click rate by hour", "<hour | samples | positives | rate | before", _hour_rows(hours, hours_before)
        ),
        splits=table("Click rate by split", "<split | samples | positives | rate | before", _split_rows(now, old)),
        columns=tuple(
            table(
                f"{shown(now.label)} by {shown(name)}",
                "<value | samples | positives | rate | 95 % interval",
                map(_value_row, _in_order(values)),
            )
            for name, values in now.by_column.items()
        ),
        baseline=table("What a model must beat", "<baseline | score", _baseline(metrics.baseline)),
    )


Hours = Mapping[int, document.Clicks]


def _hours(rate: ClickRate | None) -> Hours:
    return {clicks.hour: clicks for clicks in rate.by_hour} if rate else {}


def _charts(now: ClickRate, reference: ClickRate | None) -> Iterator[HourChart]:
    before = _of_labels(reference)
    for label, day in _of_labels(now).items():
        yield _chart(label, day, before.get(label, {}))


def _of_labels(rate: ClickRate | None) -> dict[str, Hours]:
    """Return the hours of each 0/1 label, the main one first, or nothing if the hours are unknown."""
    hours = _hours(rate)
    if rate is None or not hours:
        return {}
    others = {
        name: {hour: document.Clicks(clicks.samples, positives[hour]) for hour, clicks in hours.items()}
        for name, positives in rate.positives_by_hour.items()
    }
    return {rate.label: hours, **others}


def _chart(label: str, day: Hours, before: Hours) -> HourChart:
    whole = document.Clicks(sum(one.samples for one in day.values()), sum(one.positives for one in day.values()))
    vague = _vague(day, whole.rate or 0.0)
    rates, old = ([clicks[hour].rate if hour in clicks else None for hour in range(HOURS)] for clicks in (day, before))
    top = round_top(max((rate for rate in (*rates, *old) if rate is not None), default=0.0))
    hints = [_hint(hour, clicks, before.get(hour)) for hour, clicks in day.items()]
    drawn = columns(
        rates, old if before else (), top=top, label=_in_words(label, day), hints=hints, grid=True, vague=vague
    )
    return HourChart(shown(label), drawn, (share(top), share(top / 2), "0%"), _which(vague))


def _vague(day: Hours, rate: float) -> list[int]:
    """Return the hours with so few samples that the 95 % interval of their rate is wider than the rate of the day."""
    found = []
    for hour, clicks in day.items():
        if clicks.samples and rate:
            low, high = interval(clicks.positives, clicks.samples)
            found += [hour] if high - low > rate else []
    return found


def _which(vague: Sequence[int]) -> str:
    if not vague:
        return ""
    hours = ", ".join(f"{hour:02d}:00" for hour in vague) if len(vague) < HOURS else "all"
    return f"Outlined: too few samples to tell the rate of the hour ({hours})."


def _hint(hour: int, day: document.Clicks, before: document.Clicks | None) -> str:
    now = f"{share(day.rate)} ({count(day.positives)} of {count(day.samples)})"
    return f"{hour:02d}:00 {now}" + (f"; before {share(before.rate)}" if before else "")


def _in_words(label: str, day: Hours) -> str:
    known = {hour: clicks.rate for hour, clicks in day.items() if clicks.rate is not None}
    if not known:
        return f"Rate of {shown(label)} by hour: no samples."
    low, high = min(known, key=lambda hour: known[hour]), max(known, key=lambda hour: known[hour])
    return (
        f"Rate of {shown(label)} by hour: lowest {share(known[low])} at {low:02d}:00, highest {share(known[high])} at "
        f"{high:02d}:00."
    )


def _hour_rows(day: Hours, before: Hours) -> Iterator[tuple[str, ...]]:
    for hour, clicks in day.items():
        old = before[hour].rate if hour in before else None
        yield f"{hour:02d}:00", count(clicks.samples), count(clicks.positives), share(clicks.rate), share(old)


def _split_rows(now: ClickRate, reference: ClickRate | None) -> Iterator[tuple[str, ...]]:
    before = reference.by_split if reference else {}
    for split, clicks in by_split(now.by_split).items():
        old = before[split].rate if split in before else None
        yield shown(split), count(clicks.samples), count(clicks.positives), share(clicks.rate), share(old)


def _in_order(values: Sequence[ValueRate]) -> list[ValueRate]:
    """Put numbers in their own order, such as positions. Other values stay in that of their samples."""
    told = [one for one in values if one.value is not None]
    if all(re.fullmatch(r"-?[0-9]{1,18}", one.value or "") for one in told):
        return [*sorted(told, key=lambda one: int(one.value or 0)), *[one for one in values if one.value is None]]
    return list(values)


def _value_row(one: ValueRate) -> tuple[str, ...]:
    value = "all others" if one.others else "no value" if one.value is None else shown(one.value)
    low, high = interval(one.positives, one.samples)
    return value, count(one.samples), count(one.positives), share(one.rate), f"{share(low)} to {share(high)}"


def interval(positives: int, samples: int) -> tuple[float, float]:
    """Return the 95 % confidence interval of a rate over at least one sample.

    By E. B. Wilson, Probable inference, the law of succession, and statistical inference (1927).
    """
    z, rate = 1.959964, positives / samples
    middle = rate + z * z / (2 * samples)
    around = z * math.sqrt(rate * (1 - rate) / samples + z * z / (4 * samples * samples))
    whole = 1 + z * z / samples
    return max(0.0, (middle - around) / whole), min(1.0, (middle + around) / whole)


def _baseline(known: Baseline | None) -> Iterator[tuple[str, str]]:
    if known is None:
        return
    yield "click rate that is always predicted", share(known.rate)
    yield "log loss of that prediction (lower is better)", number(known.log_loss)
    yield "accuracy of always predicting the more frequent class", share(known.accuracy)
    yield "AUC of either", "0.5"
