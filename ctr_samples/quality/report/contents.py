"""Sections about what the samples hold: click rates, labels, users, views, shards and requests."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from ctr_samples.quality.html import ROWS, Chart, PageTable, Part, beside, folded, paragraph, table
from ctr_samples.quality.metrics import HOURS, Baseline, ClickRate, Clicks, Label, Measured, Requests, Shards, ValueRate
from ctr_samples.quality.report.charts import bar, hourly, legend
from ctr_samples.quality.report.wording import (
    by_split,
    count,
    moved,
    number,
    plural,
    share,
    shown,
    size,
    span,
    with_change,
)
from ctr_samples.shards import Manifest, Shard

_MEDIAN = "age_s_median"
_AGES = ("age_s_min", "age_s_p10", "age_s_p90", "age_s_max")
_NAMED_HOURS = 6
_WORTH = 0.8
"""Share of the size at which the order by request is worth it."""
_LEAD = Markup('<p class="lead"><strong>{}</strong> <span>{}</span></p>\n')

Hours = Mapping[str, Clicks]
"""The clicks of each hour, such as ``05:00``, or nothing if the hours are unknown."""


def clicks(metrics: Measured, reference: Measured | None, compared: str) -> Iterator[Part]:
    """Yield the click rate: overall, by hour, value and split, and the baseline. ``compared`` names the reference."""
    now, old = metrics.click_rate, reference.click_rate if reference else None
    if now is None or not now.by_split:
        yield paragraph("none", "There is no 0/1 label.")
        return
    day, label = overall(now), shown(now.label)
    change = moved(day.rate, overall(old).rate)
    counts = f"{label}: {count(day.positives)} of {count(day.samples)} samples"
    yield _LEAD.format(share(day.rate), f"{counts}, {change} vs. before" if change else counts)
    hours, before = _of_labels(now), _of_labels(old)
    titles = "samples | positives | rate | before"
    if hours:
        yield legend(compared)
        for name, of_day in hours.items():
            yield _by_hour(name, of_day, before.get(name, {}))
        rows = _rates(hours[now.label], before.get(old.label, {}) if old else {})
        yield folded(f"Table of all hours, for {label}", table("Click rate by hour", f"<hour | {titles}", rows))
    for name, values in now.by_column.items():
        value_titles = "<value | samples | positives | rate | 95 % interval"
        yield table(f"{label} by {shown(name)}", value_titles, map(_value_row, _in_order(values)))
    splits = _rates(by_split(now.by_split), old.by_split if old else {})
    yield beside(
        [table("Click rate by split", f"<split | {titles}", splits)],
        [table("What a model must beat", "<baseline | score", _baseline(metrics.baseline)).styled("plain")],
    )


def overall(rate: ClickRate | None) -> Clicks:
    """Sum the clicks of all splits."""
    return _sum(rate.by_split.values() if rate else ())


def _sum(parts: Iterable[Clicks]) -> Clicks:
    counts = [(one.samples, one.positives) for one in parts]
    return Clicks(sum(samples for samples, _ in counts), sum(positives for _, positives in counts))


def _of_labels(rate: ClickRate | None) -> dict[str, Hours]:
    """Return the hours of each 0/1 label, the main one first, or nothing if the hours are unknown."""
    if rate is None or not rate.by_hour:
        return {}
    hours: Hours = {f"{one.hour:02d}:00": one for one in rate.by_hour}
    others = {
        name: {hour: Clicks(one.samples, n) for (hour, one), n in zip(hours.items(), positives, strict=True)}
        for name, positives in rate.positives_by_hour.items()
    }
    return {rate.label: hours, **others}


def _by_hour(label: str, day: Hours, before: Hours) -> Chart:
    whole = _sum(day.values()).rate or 0.0
    vague = [hour for hour, one in day.items() if _is_vague(one, whole)]
    which = ", ".join(vague) if len(vague) <= _NAMED_HOURS else f"{len(vague)} of {HOURS} hours"
    return hourly(
        f"{shown(label)} by hour of impression",
        [one.rate for one in day.values()],
        [one.rate for one in before.values()],
        label=_in_words(label, day),
        vague=[at for at, hour in enumerate(day) if hour in vague],
        note=f"Outlined: too few samples to tell the rate of the hour ({which})." if vague else "",
    )


def _is_vague(hour: Clicks, rate: float) -> bool:
    """Whether an hour has so few samples that the 95 % interval of its rate is wider than the rate of the day."""
    if not hour.samples or not rate:
        return False
    low, high = interval(hour.positives, hour.samples)
    return high - low > rate


def _in_words(label: str, day: Hours) -> str:
    known = {hour: one.rate for hour, one in day.items() if one.rate is not None}
    if not known:
        return f"Rate of {shown(label)} by hour: no samples."
    low, high = min(known, key=lambda hour: known[hour]), max(known, key=lambda hour: known[hour])
    return (
        f"Rate of {shown(label)} by hour: lowest {share(known[low])} at {low}, highest {share(known[high])} at {high}."
    )


def _rates(day: Mapping[str, Clicks], before: Mapping[str, Clicks]) -> Iterator[tuple[str, ...]]:
    for name, one in day.items():
        old = before[name].rate if name in before else None
        yield shown(name), count(one.samples), count(one.positives), share(one.rate), share(old)


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
    if known is not None:
        yield "click rate that is always predicted", share(known.rate)
        yield "log loss of that prediction (lower is better)", number(known.log_loss)
        yield "accuracy of always predicting the more frequent class", share(known.accuracy)


def labels(metrics: Measured, run: Manifest) -> Iterator[Part]:
    """Yield the labels with their actions, delays and funnels, the heaviest users, and duplicates."""
    if not metrics.label_mature:
        yield paragraph(
            "caution",
            "The labels are not final: a label window was still open, or it reaches into a day without data.",
        )
    yield table("Labels by split", "<label | <split | with a value | sum | mean", _label_rows(metrics.labels))
    actions = (
        (shown(name), count(label.get("actions")), count(label.get("orphans")), _flips(label))
        for name, label in run.labels.items()
        if "actions" in label
    )
    titles = "<label | actions | without an impression | <flipped since the previous generation"
    yield table("Actions of the day", titles, actions)
    funnels = (
        (shown(name), shown(f.after), count(f.positives), count(f.without), share(f.without / max(1, f.positives)))
        for name, f in metrics.funnels.items()
    )
    yield table("Funnels", "<label | <after | positives | without it | share", funnels)
    final = (
        (shown(name), count(facts["samples"]), share(facts["final"] / max(1, facts["samples"])), _open_hours(facts))
        for name, label in run.labels.items()
        if (facts := label.get("final"))
    )
    titles = "<label | samples | final | ~share by hour, where not all"
    yield table("Labels whose window had closed", titles, final)
    counted = {name: label["delays"] for name, label in run.labels.items() if any(label.get("delays", {}).values())}
    for name, delays in list(counted.items())[:ROWS]:
        titles = "<delay | actions | share | =relative to the most frequent"
        yield table(f"Delays of {shown(name)}", titles, _delay_rows(delays))
    yield beside(_users(metrics), [_repeats(metrics)])


def _label_rows(of_labels: Mapping[str, Label]) -> Iterator[tuple[str, ...]]:
    for name, label in of_labels.items():
        for split, values in by_split(label.splits).items():
            mean = share(values.mean) if label.binary else number(values.mean)
            yield shown(name), shown(split), count(values.count), number(values.sum), mean


def _delay_rows(delays: Mapping[str, int]) -> Iterator[tuple[str, ...]]:
    """Yield a histogram of delays, which ends with the window of the label."""
    whole, most, previous, window = sum(delays.values()), max(delays.values()), "", [*delays][-1]
    for end, n in delays.items():
        since = f"{previous} to " if previous else "up to "
        text = "before the impression" if end == "before" else f"{since}{shown(end, 12)}"
        last = ", the end of the window" if end == window else ""
        yield f"{text}{last}", count(n), share(n / whole), bar(n / most)
        previous = "" if end == "before" else shown(end, 12)


def _open_hours(facts: Mapping[str, Any]) -> str:
    hours = {hour: final / samples for hour, (samples, final) in facts["by_hour"].items() if final < samples}
    return ", ".join(f"{hour}:00 {share(part)}" for hour, part in hours.items())


def _flips(label: Mapping[str, Any]) -> str:
    flips = label.get("flips")
    if not flips:
        return ""
    if "not_compared" in flips:
        return "not compared"
    kinds = {"flipped_to_1": "to 1", "flipped_to_0": "to 0", "changed": "to another value"}
    return ", ".join(f"{count(flips[kind])} {to}" for kind, to in kinds.items() if flips.get(kind)) or "none"


def _users(metrics: Measured) -> list[Part]:
    """Return the users with the most samples, and the number of samples behind them."""
    users = metrics.users
    if users is None:
        return []
    longest = max(user.share for user in users.heaviest) or 1.0
    rows = (
        (shown(user.user, 60), count(user.samples), share(user.share), bar(user.share / longest))
        for user in users.heaviest
    )
    titles = f"<{users.key} | samples | share | =relative to the first"
    return [
        table(f"{users.key.capitalize()}s with the most samples", titles, rows, 20),
        paragraph("hint", f"Based on {plural(users.looked_at, 'sample')}."),
    ]


def _repeats(metrics: Measured) -> PageTable:
    duplicates = metrics.duplicates
    rows = (
        ("samples that share their impression id with another", count(duplicates.ids)),
        ("samples identical to another in all features", share(duplicates.identical)),
        ("samples identical to one with another label", share(duplicates.conflicting)),
        ("samples compared", count(duplicates.looked_at)),
    )
    return table("Duplicates and conflicts", "<what | figure", rows).styled("plain")


_ABOUT_VIEWS = (
    "Ages are those of the rows that were used: how long before the impression they became true. Canaries are impressions of "
    "the day with which the run tested the join itself: each must find a row that became known at that very moment, and none "
    "that came a microsecond later."
)


def views(metrics: Measured, reference: Measured | None) -> Iterator[Part]:
    """Yield how many samples found a row of each view, and how old the rows were."""
    titles = "<view | matched | match rate | =share of samples | before"
    ages = "median age | ~youngest, 10%, 90%, oldest | median before | ~also counted"
    before = reference.views if reference else {}
    rows = (_view_row(name, view, before.get(name)) for name, view in metrics.views.items())
    yield table("Matches and ages", f"{titles} | {ages}", rows).styled("views")
    yield paragraph("hint", _ABOUT_VIEWS) if metrics.views else paragraph("none", "No feature views were joined.")


def _view_row(name: str, view: Mapping[str, float], before: Mapping[str, float] | None) -> tuple[str, ...]:
    was = before["match_rate"] if before else None
    others = {key: n for key, n in view.items() if n and key not in ("matched", "match_rate", _MEDIAN, *_AGES)}
    return (
        shown(name),
        count(view["matched"]),
        share(view["match_rate"]),
        bar(view["match_rate"], before=was),
        "" if was is None else with_change(share(was), moved(view["match_rate"], was)),
        span(view.get(_MEDIAN)),
        ", ".join(span(view[age]).replace(" ", "\N{NO-BREAK SPACE}") for age in _AGES if age in view),
        span(before.get(_MEDIAN)) if before else "",
        ", ".join(f"{number(n)} {shown(key.replace('_', ' '))}" for key, n in list(others.items())[:6]),
    )


def shards(metrics: Measured, run: Manifest) -> Iterator[Part]:
    """Yield number, size and balance of the shards, and what the order by request saves or would save."""
    splits = table("Shards by split", "<split | shards | records | size", _split_rows(run.shards))
    yield beside([sizes_of(metrics.shards)], [splits]) if run.shards else paragraph("none", "There are no shards.")
    requests = metrics.requests
    rows = () if requests is None else _request_rows(requests)
    yield table("Requests", "<what | figure", rows).styled("plain")
    yield paragraph("hint", requests_in_words(requests))


def sizes_of(spread: Shards, noun: str = "shard") -> PageTable:
    """Return a table of the sizes of files. ``noun`` is the word for one of them."""
    rows = (
        (name, *(in_words(value) for value in (of.min, of.median, of.max, of.total)))
        for name, of, in_words in (("bytes", spread.bytes, size), ("records", spread.records, count))
    )
    titles = f"<per {noun} | smallest | median | largest | total"
    return table(f"{noun.capitalize()} sizes", titles, rows)


def _split_rows(files: Sequence[Shard]) -> Iterator[tuple[str, ...]]:
    splits: dict[str, list[Shard]] = {}
    for file in files:
        splits.setdefault(file.split, []).append(file)
    for name, some in by_split(splits).items():
        records, total = sum(file.records for file in some), sum(file.bytes for file in some)
        yield shown(name), count(len(some)), count(records), size(total)


def requests_in_words(requests: Requests | None) -> str:
    """Say what the order by request saves or would save, or that there are no requests."""
    if requests is None:
        return "No key tells which impressions form a request: neither `impressions.request` nor a user."
    gzip = requests.gzip
    if gzip is not None and requests.largest == 1:
        return "No request that was seen has more than one sample, so the order makes no difference."
    if gzip is None or requests.equal_bytes is None:
        return f"Too few of the {count(requests.requests)} requests were sampled to tell what each order needs."
    change = (
        f"{share(gzip.by_impression)} of the plain size in the order by impression, {share(gzip.by_request)} by request"
    )
    if requests.adjacent:
        return f"The samples are ordered by request. Gzip needs {change}."
    if gzip.by_request > _WORTH * gzip.by_impression:
        return f"Gzip would need {change}, so an order by request saves little."
    return f"Gzip would need {change}: consider `output.order: request`."


def _request_rows(requests: Requests) -> Iterator[tuple[str, ...]]:
    about = "" if requests.looked_at == requests.requests else "about "
    yield "equal within a request", shown(" and ".join(requests.keys))
    yield "requests", about + count(requests.requests)
    yield "samples of a request, mean", about + number(requests.mean)
    yield "median", about + number(requests.median)
    yield "largest that was seen", count(requests.largest)
    yield "equal bytes of a record and the one before it", share(requests.equal_bytes)
    if requests.gzip is not None:
        yield "gzip by impression, share of plain size", share(requests.gzip.by_impression)
        yield "gzip by request, share of plain size", share(requests.gzip.by_request)
