"""Puts the parts of the page into its templates, with a bound on its size."""

from __future__ import annotations

import base64
import calendar
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ctr_samples.quality.report import clicks, features, flow, labels, origin, shards, verdict
from ctr_samples.quality.report.documents import figure, figures, mapping, text
from ctr_samples.quality.report.wording import change, count, moved, share, shown, size, span

LARGEST = 2_000_000
"""Bytes of a page: one that takes a browser no time, and that can be sent by mail."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of each part is shown; what is left out is counted on the page."""

    drawn: int
    rows: int


_LIMITS = (Limits(100, 500), Limits(40, 200), Limits(10, 50), Limits(0, 10))
"""Tried in turn until the page is small enough."""


_TURNING = {code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}
"""Characters that turn the direction of what follows: a value could make a sentence read as another."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One of the figures at the top; ``change`` is against the reference."""

    name: str
    value: str
    change: str = ""


def render(
    metrics: Mapping[str, Any],
    manifest: Mapping[str, Any] | None,
    reference: Mapping[str, Any] | None,
    *,
    title: str | None = None,
) -> str:
    """The page about a run as HTML, in one file that asks nothing of any network. Runs on the driver or a laptop; no Spark.

    ``metrics`` and ``reference`` are documents of ``metrics.json``, of the run and of the one to compare it with;
    ``manifest`` is the run's, None for a refused run. Parts that are missing are left out; it never raises for them. With
    hundreds of features only those that moved most have a drawing, so that the page stays under 2 MB.
    """
    page = ""
    for limits in _LIMITS:
        page = _page(metrics, manifest, reference, title, limits)
        if len(page.encode()) < LARGEST:
            break
    return page


def _page(
    metrics: Mapping[str, Any],
    manifest: Mapping[str, Any] | None,
    reference: Mapping[str, Any] | None,
    title: str | None,
    limits: Limits,
) -> str:
    subject, before, published = mapping(metrics), mapping(reference), mapping(manifest)
    judged = verdict.verdict_of(subject, limits.rows)
    html = (
        _environment()
        .get_template("page.html.j2")
        .render(
            title=shown(title, 200) if title else _title(subject, published),
            subtitle=tuple(_subtitle(subject, published, before)),
            compared=_named(before),
            references=_references(subject),
            facts=tuple(_facts(subject, published, before)),
            verdict=judged,
            flow=flow.flow_of(subject, before, limits.rows),
            clicks=clicks.clicks_of(subject, before),
            features=features.features_of(subject, before, judged.standings, drawn=limits.drawn, rows=limits.rows),
            labels=labels.labels_of(subject, limits.rows),
            actions=labels.actions_of(published, limits.rows),
            immature=labels.is_mature(published),
            users=labels.users_of(subject, min(limits.rows, 20)),
            told_of_users=labels.told_of_users(subject),
            repeats=labels.repeats_of(subject),
            views=labels.views_of(subject, before, limits.rows),
            shards=shards.shards_of(subject, published, limits.rows),
            origin=origin.origin_of(subject, published, limits.rows),
            **_inlined(),
        )
    )
    visible = html.translate(_TURNING)
    return visible.encode("utf-8", "backslashreplace").decode()  # half a surrogate pair from the data is no letter


@cache
def _environment() -> Environment:
    """StrictUndefined: a template that asks for what is not there is a bug, not an empty place."""
    return Environment(
        loader=PackageLoader("ctr_samples.quality.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def _inlined() -> Mapping[str, Markup]:
    """Style and script, and a policy that lets the browser use these two and nothing else."""
    folder = files("ctr_samples.quality.report") / "templates"
    style, script = ((folder / name).read_text("utf-8") for name in ("page.css", "page.js"))
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action 'none'"
    )
    return {"style": Markup(style), "script": Markup(script), "policy": Markup(policy)}  # noqa: S704  our own files


def _hash(source: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"


def _title(metrics: Mapping[str, Any], manifest: Mapping[str, Any]) -> str:
    name, day = (text(metrics, key) or text(manifest, key) for key in ("name", "run_date"))
    return " ".join(shown(part) for part in (name, day) if part) or "Samples"


def _weekday(day: str) -> str:
    """``2019-06-05`` -> ``Wednesday``: click rates follow the week."""
    try:
        return calendar.day_name[date.fromisoformat(day).weekday()]
    except ValueError:
        return ""


def _moment(text: str) -> str:
    """``2019-06-06T02:07:41+00:00`` -> ``2019-06-06 02:07 UTC``."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return shown(text) if text else ""
    return f"{moment:%Y-%m-%d %H:%M}" + (" UTC" if moment.utcoffset() == timedelta() else f" {moment:%z}".rstrip())


def _named(document: Mapping[str, Any]) -> str:
    """The day and generation of a metrics document or of an entry of ``reference``; empty for none."""
    day, generation = text(document, "run_date"), figure(document, "generation")
    if not day:
        return "another run" if document else ""
    return shown(day) + (f", generation {count(generation)}" if generation is not None else "")


def _subtitle(metrics: Mapping[str, Any], manifest: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[str]:
    generation = figure(metrics, "generation")
    said = {
        "": _weekday(text(metrics, "run_date") or text(manifest, "run_date")),
        "generation ": "" if generation is None else count(generation),
        "made ": _moment(text(metrics, "created_at") or text(manifest, "created_at")),
        "compared with ": _named(before),
    }
    yield from (f"{word}{what}" for word, what in said.items() if what)


def _references(metrics: Mapping[str, Any]) -> tuple[str, ...]:
    known = {key: _named(mapping(metrics, "reference", key)) for key in ("previous_day", "same_weekday")}
    return tuple(f"{key.replace('_', ' ')} {named}" for key, named in known.items() if named)


def _facts(metrics: Mapping[str, Any], manifest: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[Fact]:
    samples, old = (sum(found.values()) if (found := figures(some, "samples")) else None for some in (metrics, before))
    if samples is not None:
        yield Fact("samples", count(samples), change(samples, old))
    rate, old_rate = clicks.overall(metrics).value, clicks.overall(before).value
    if rate is not None:
        yield Fact("click rate", share(rate), moved(rate, old_rate))
    yield Fact("features", count(len(mapping(metrics, "features"))))
    total, old_total = (figure(some, "shards", "bytes", "total") for some in (metrics, before))
    if total is not None:
        yield Fact(f"in {count(figure(metrics, 'shards', 'count'))} shards", size(total), change(total, old_total))
    seconds = figure(metrics, "seconds")
    seconds = seconds if seconds is not None else figure(manifest, "seconds")
    if seconds is not None:
        yield Fact("took", span(seconds), change(seconds, figure(before, "seconds")))
