"""Labels, the heaviest users, duplicates, and the views that features were joined from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ctr_samples.quality.report.charts import bar
from ctr_samples.quality.report.documents import by_split, figure, figures, mapping, objects
from ctr_samples.quality.report.tables import Table, table
from ctr_samples.quality.report.wording import count, moved, number, plural, share, shown, span

_AGES = ("age_s_min", "age_s_p10", "age_s_median", "age_s_p90", "age_s_max")


def labels_of(metrics: Mapping[str, Any], limit: int) -> Table:
    """Each label in each split."""
    return table("Labels by split", "<label | <split | with a value | sum | mean", _label_rows(metrics), limit)


def _label_rows(metrics: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for name, label in mapping(metrics, "labels").items():
        binary = mapping(label).get("binary") is True
        for split, known in by_split(label, "splits").items():
            mean = figure(known, "mean")
            yield (
                shown(name),
                shown(split),
                count(figure(known, "count")),
                number(figure(known, "sum")),
                share(mean) if binary else number(mean),
            )


def actions_of(manifest: Mapping[str, Any], limit: int) -> Table:
    """What became of the actions that labels count, from the manifest."""
    rows = []
    for name, label in mapping(manifest, "labels").items():
        known = figures(label)
        flips = figures(label, "flips")
        flipped = f"{count(flips.get('flipped_to_1'))} to 1, {count(flips.get('flipped_to_0'))} to 0" if flips else ""
        rows.append((shown(name), count(known.get("actions")), count(known.get("orphans")), _delays(label), flipped))
    titles = "<label | actions | without an impression | ~by delay | <flipped since the generation before"
    return table("Actions of the day", titles, rows, limit)


def _delays(label: Any) -> str:
    """``82% within 1m, 97% within 10m``."""
    delays = figures(label, "delays")
    whole, so_far, said = sum(delays.values()), 0.0, []
    for end, n in delays.items():
        so_far += n
        if whole and n:
            said.append(f"{share(so_far / whole)} {'earlier' if end == 'before' else f'within {shown(end, 12)}'}")
    return ", ".join(said[:6])


def users_of(metrics: Mapping[str, Any], limit: int) -> Table:
    """The users with the most samples."""
    heaviest = objects(metrics, "users", "heaviest")
    longest = max((s for user in heaviest if (s := figure(user, "share"))), default=1.0)
    rows = (
        (
            shown(user.get("user"), 60),
            count(figure(user, "samples")),
            share(figure(user, "share")),
            bar((figure(user, "share") or 0) / longest),
        )
        for user in heaviest
    )
    return table("Users with the most samples", "<user | samples | share | =against the first", rows, limit)


def repeats_of(metrics: Mapping[str, Any]) -> Table:
    """Samples that are given twice, and those that contradict each other."""
    known = figures(metrics, "duplicates")
    rows = [
        (name, value)
        for name, value in (
            ("impression ids that more than one sample has", count(known.get("ids"))),
            ("samples whose features and labels another one has too", share(known.get("identical"))),
            ("samples whose features another one has with another label", share(known.get("conflicting"))),
            ("samples looked at for this", count(known.get("looked_at"))),
        )
        if known
    ]
    return table("Duplicates and conflicts", "<what | figure", rows)


def views_of(metrics: Mapping[str, Any], reference: Mapping[str, Any], limit: int) -> Table:
    """How many samples found a row in each view, and how old it was."""
    titles = "<view | matched | match rate | =part of all | before"
    ages = "youngest | 10% within | median age | 90% within | oldest | median before | ~also counted"
    return table("Matches and ages", f"{titles} | {ages}", _view_rows(metrics, reference), limit)


def _view_rows(metrics: Mapping[str, Any], reference: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for name, view in mapping(metrics, "views").items():
        known, old = figures(view), figures(reference, "views", name)
        rate, was = known.get("match_rate"), old.get("match_rate")
        others = {key: n for key, n in known.items() if n and key not in ("matched", "match_rate", *_AGES)}
        yield (
            shown(name),
            count(known.get("matched")),
            share(rate),
            bar(rate, before=was),
            f"{share(was)} ({moved(rate, was)})" if old and moved(rate, was) else share(was) if old else "",
            *(span(known.get(age)) for age in _AGES),
            span(old.get("age_s_median")) if old else "",
            ", ".join(f"{number(n)} {shown(key.replace('_', ' '))}" for key, n in list(others.items())[:6]),
        )


def told_of_users(metrics: Mapping[str, Any]) -> str:
    """How many users there are and of how many samples the heaviest are, in words; empty where neither was counted."""
    distinct, looked_at = (figure(metrics, "users", key) for key in ("distinct", "looked_at"))
    said = [] if distinct is None else [f"About {plural(round(distinct), 'user')} in all."]
    said += [] if looked_at is None else [f"Counted over {plural(round(looked_at), 'sample')}."]
    return " ".join(said)


def is_mature(manifest: Mapping[str, Any]) -> str:
    """What to know of labels that are not final."""
    if manifest.get("label_mature") is False:
        return "The labels are not final: a window was open, or reaches into a day without data."
    return ""
