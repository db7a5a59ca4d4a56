"""Render the report page within a size limit."""

from __future__ import annotations

import calendar
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ctr_samples.periods import in_zone, moment_of, zone_of
from ctr_samples.quality.html import filled
from ctr_samples.quality.metrics import Generation, Measured, Metrics
from ctr_samples.quality.report import clicks, features, flow, labels, origin, shards, verdict
from ctr_samples.quality.report.manifest_view import Run
from ctr_samples.quality.report.wording import change, count, moved, plural, share, shown, size, span

LARGEST = 2_000_000
"""Page size limit in bytes, so that a page opens quickly and can be emailed."""


@dataclass(frozen=True, slots=True)
class Room:
    """Limits on charts and table rows. The page states the number of omitted entries."""

    drawn: int
    rows: int


_ROOMS = (Room(100, 500), Room(40, 200), Room(10, 50), Room(0, 10))
"""Limits, tried in order until the page is small enough."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A figure at the top of the page. ``change`` is relative to the reference."""

    name: str
    value: str
    change: str = ""


def render(metrics: Metrics, run: Run, reference: Measured | None = None, *, title: str | None = None) -> str:
    """Render the HTML page about a run: a single file that loads nothing from the network. Runs on the driver or a
    laptop, without Spark.

    ``metrics`` is the document of the run, ``run`` its manifest, ``reference`` the day to compare with. If there are
    hundreds of features, only the features with the largest drift have a chart, so that the page stays under 2 MB.
    """
    return fitting(lambda room: _page(metrics, run, reference, title, room))


def fitting(page_in: Callable[[Room], str]) -> str:
    """Return the largest page within the size limit, or the smallest page if all exceed it."""
    page = ""
    for room in _ROOMS:
        page = page_in(room)
        if len(page.encode()) < LARGEST:
            break
    return page


def _page(metrics: Metrics, run: Run, reference: Measured | None, title: str | None, room: Room) -> str:
    judged = verdict.shown_verdict(metrics, room.rows)
    before = reference.features if reference else {}
    rated = metrics.click_rate is not None
    return filled(
        "page.html.j2",
        ("page.css",),
        ("page.js",),
        {
            "title": shown(title, 200) if title else f"{shown(metrics.name)} {metrics.run_date}",
            "subtitle": tuple(_subtitle(metrics, reference, zone_of(run.config))),
            "compared": _named(reference.named) if reference else "",
            "references": tuple(_references(metrics)),
            "facts": tuple(_facts(metrics, reference)),
            "verdict": judged,
            "flow": flow.flow_of(metrics, reference, room.rows, run.tied_repeats),
            "elsewhere": flow.elsewhere_of(run, room.rows),
            "clicks": clicks.clicks_of(metrics, reference),
            "features": features.features_of(
                metrics.features,
                metrics.drift,
                before,
                judged.standings,
                positives=rated,
                drawn=room.drawn,
                rows=room.rows,
            ),
            "listed": "metrics.json",
            "measured": "",
            "labels": labels.labels_of(metrics.labels, room.rows),
            "actions": labels.actions_of(run, room.rows),
            "delays": labels.delays_of(run.labels, room.rows),
            "finality": labels.finality_of(run, room.rows),
            "funnels": labels.funnels_of(metrics, room.rows),
            "immature": labels.maturity(metrics),
            "users": labels.users_of(metrics.users, min(room.rows, 20)),
            "users_in_words": labels.users_in_words(metrics.users),
            "repeats": labels.repeats_of(metrics),
            "views": labels.views_of(metrics, reference, room.rows),
            "requests": shards.requests_of(metrics.requests),
            "requests_in_words": shards.requests_in_words(metrics.requests),
            "shards": shards.shards_of(metrics.shards, run.shards, room.rows),
            "origin": origin.origin_of(metrics, run, room.rows),
        },
    )


def _subtitle(metrics: Metrics, reference: Measured | None, zone: str) -> Iterator[str]:
    start = moment_of(metrics.run_date)
    if start is not None:
        yield calendar.day_name[start.weekday()]  # click rates follow the week
    yield f"generation {count(metrics.generation)}"
    yield f"created {in_zone(metrics.created_at, zone)}"
    if reference:
        yield f"compared with {_named(reference.named)}"


def _named(generation: Generation) -> str:
    return f"{generation.run_date}, generation {count(generation.generation)}"


def _references(metrics: Metrics) -> Iterator[str]:
    reference = metrics.reference
    for name, day in (("previous day", reference.previous_day), ("same weekday", reference.same_weekday)):
        if day is not None:
            yield f"{name} {_named(day)}"


def _facts(metrics: Metrics, reference: Measured | None) -> Iterator[Fact]:
    yield Fact("samples", count(metrics.rows), change(metrics.rows, reference.rows if reference else None))
    rate, old_rate = (clicks.overall(day.click_rate if day else None).rate for day in (metrics, reference))
    if rate is not None:
        yield Fact("click rate", share(rate), moved(rate, old_rate))
    yield Fact("features", count(len(metrics.features)))
    total, old_total = metrics.shards.bytes.total, reference.shards.bytes.total if reference else None
    yield Fact(f"in {plural(metrics.shards.count, 'shard')}", size(total), change(total, old_total))
    seconds = reference.seconds if reference else None
    yield Fact("run time", span(metrics.seconds), change(metrics.seconds, seconds))
