"""Sections about labels, heaviest users, duplicates and joined views."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ctr_samples.quality.metrics import Label, Measured, Users
from ctr_samples.quality.report.charts import bar
from ctr_samples.quality.report.manifest_view import Run
from ctr_samples.quality.report.wording import Table, by_split, count, moved, number, plural, share, shown, span, table

_MEDIAN = "age_s_median"
_AGES = ("age_s_min", "age_s_p10", "age_s_p90", "age_s_max")


def labels_of(labels: Mapping[str, Label], limit: int) -> Table:
    """Return a table of label statistics by split."""
    return table("Labels by split", "<label | <split | with a value | sum | mean", _label_rows(labels), limit)


def _label_rows(labels: Mapping[str, Label]) -> Iterator[tuple[str, ...]]:
    for name, label in labels.items():
        for split, values in by_split(label.splits).items():
            mean = share(values.mean) if label.binary else number(values.mean)
            yield shown(name), shown(split), count(values.count), number(values.sum), mean


def actions_of(run: Run, limit: int) -> Table:
    """Return a table of label actions: orphans, delays, flips."""
    titles = "<label | actions | without an impression | ~by delay | <flipped since the previous generation"
    rows = (
        (shown(name), count(label.get("actions")), count(label.get("orphans")), _delays(label), _flips(label))
        for name, label in run.labels.items()
        if "actions" in label
    )
    return table("Actions of the day", titles, rows, limit)


def _delays(label: Mapping[str, Any]) -> str:
    """Format delays as ``82% within 1m, 97% within 10m``."""
    delays: Mapping[str, int] = label.get("delays", {})
    whole, so_far, parts = sum(delays.values()), 0, []
    for end, n in delays.items():
        so_far += n
        if whole and n:
            parts.append(f"{share(so_far / whole)} {'earlier' if end == 'before' else f'within {shown(end, 12)}'}")
    return ", ".join(parts[:6])


def delays_of(labels: Mapping[str, Mapping[str, Any]], limit: int) -> list[Table]:
    """Return a histogram of the delays of each label's actions, which ends with the label's window."""
    counted = {name: label["delays"] for name, label in labels.items() if any(label.get("delays", {}).values())}
    titles = "<delay | actions | share | =relative to the most frequent"
    return [
        table(f"Delays of {shown(name)}", titles, _delay_rows(delays)) for name, delays in list(counted.items())[:limit]
    ]


def _delay_rows(delays: Mapping[str, int]) -> Iterator[tuple[str, ...]]:
    whole, most, previous, window = sum(delays.values()), max(delays.values()), "", [*delays][-1]
    for end, n in delays.items():
        since = f"{previous} to " if previous else "up to "
        text = "before the impression" if end == "before" else f"{since}{shown(end, 12)}"
        last = ", the end of the window" if end == window else ""
        yield f"{text}{last}", count(n), share(n / whole), bar(n / most)
        previous = "" if end == "before" else shown(end, 12)


def finality_of(run: Run, limit: int) -> Table:
    """Return a table of the samples whose labels are final, with the hours of the day that lack some."""
    rows = (
        (shown(name), count(facts["samples"]), share(facts["final"] / max(1, facts["samples"])), _open_hours(facts))
        for name, label in run.labels.items()
        if (facts := label.get("final"))
    )
    return table(
        "Labels whose window had closed", "<label | samples | final | ~share by hour, where not all", rows, limit
    )


def _open_hours(facts: Mapping[str, Any]) -> str:
    hours = {hour: final / samples for hour, (samples, final) in facts["by_hour"].items() if final < samples}
    return ", ".join(f"{hour}:00 {share(part)}" for hour, part in hours.items())


def funnels_of(metrics: Measured, limit: int) -> Table:
    """Return a table of labels that come after others."""
    rows = (
        (
            shown(name),
            shown(one.after),
            count(one.positives),
            count(one.without),
            share(one.without / max(1, one.positives)),
        )
        for name, one in metrics.funnels.items()
    )
    return table("Funnels", "<label | <after | positives | without it | share", rows, limit)


def _flips(label: Mapping[str, Any]) -> str:
    flips = label.get("flips")
    if not flips:
        return ""
    if "not_compared" in flips:
        return "not compared"
    kinds = {"flipped_to_1": "to 1", "flipped_to_0": "to 0", "changed": "to another value"}
    return ", ".join(f"{count(flips[kind])} {to}" for kind, to in kinds.items() if flips.get(kind)) or "none"


def users_of(users: Users | None, limit: int) -> Table:
    """Return a table of the users with the most samples."""
    heaviest = users.heaviest if users else ()
    longest = max((user.share for user in heaviest), default=0.0) or 1.0
    rows = (
        (shown(user.user, 60), count(user.samples), share(user.share), bar(user.share / longest)) for user in heaviest
    )
    key = users.key if users else "user"
    titles = f"<{key} | samples | share | =relative to the first"
    return table(f"{key.capitalize()}s with the most samples", titles, rows, limit)


def users_in_words(users: Users | None) -> str:
    """State the number of samples behind the table of users. Empty if there is no table."""
    return f"Based on {plural(users.looked_at, 'sample')}." if users else ""


def repeats_of(metrics: Measured) -> Table:
    """Return a table of duplicate and conflicting samples."""
    duplicates = metrics.duplicates
    rows = (
        ("samples that share their impression id with another", count(duplicates.ids)),
        ("samples identical to another in all features", share(duplicates.identical)),
        ("samples identical to one with another label", share(duplicates.conflicting)),
        ("samples compared", count(duplicates.looked_at)),
    )
    return table("Duplicates and conflicts", "<what | figure", rows)


def views_of(metrics: Measured, reference: Measured | None, limit: int) -> Table:
    """Return a table of match rates and ages of matched rows, by view."""
    titles = "<view | matched | match rate | =share of samples | before"
    ages = "median age | ~youngest, 10%, 90%, oldest | median before | ~also counted"
    before = reference.views if reference else {}
    rows = (_view_row(name, view, before.get(name)) for name, view in metrics.views.items())
    return table("Matches and ages", f"{titles} | {ages}", rows, limit)


def _view_row(name: str, view: Mapping[str, float], before: Mapping[str, float] | None) -> tuple[str, ...]:
    was = before["match_rate"] if before else None
    others = {key: n for key, n in view.items() if n and key not in ("matched", "match_rate", _MEDIAN, *_AGES)}
    return (
        shown(name),
        count(view["matched"]),
        share(view["match_rate"]),
        bar(view["match_rate"], before=was),
        "" if was is None else _before(view["match_rate"], was),
        span(view.get(_MEDIAN)),
        ", ".join(span(view[age]) for age in _AGES if age in view),
        span(before.get(_MEDIAN)) if before else "",
        ", ".join(f"{number(n)} {shown(key.replace('_', ' '))}" for key, n in list(others.items())[:6]),
    )


def _before(rate: float, was: float) -> str:
    return f"{share(was)} ({moved(rate, was)})" if moved(rate, was) else share(was)


def maturity(metrics: Measured) -> str:
    """Return a caution if labels are not final, else an empty string."""
    if metrics.label_mature:
        return ""
    return "The labels are not final: a label window was still open, or it reaches into a day without data."
