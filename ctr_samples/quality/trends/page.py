"""Render the multi-day page within a size limit."""

from __future__ import annotations

from collections.abc import Sequence

from ctr_samples.quality.html import filled
from ctr_samples.quality.report.wording import count, plural, shown
from ctr_samples.quality.trends.days import DayPoint
from ctr_samples.quality.trends.parts import (
    charts_of,
    features_of,
    findings_of,
    rates_of,
    strip_of,
    table_of,
)

LARGEST = 3_000_000
"""Page size limit in bytes, enough for 400 days of 300 features."""

_DRAWN = (1000, 300, 150, 50, 10, 0)
"""Limits on feature charts, tried in order until the page is small enough."""


def render(name: str, days: Sequence[DayPoint]) -> str:
    """Render the HTML page about the days of a sample set: a single file that loads nothing from the network. Does not
    use Spark.

    ``days`` are in order and include missing days. If not all features fit into 3 MB, only the features with the
    largest drift get charts. The page states the number of omitted features.
    """
    page = ""
    for drawn in _DRAWN:
        page = _page(name, days, drawn)
        if len(page.encode()) < LARGEST:
            break
    return page


def _page(name: str, days: Sequence[DayPoint], drawn: int) -> str:
    features, hidden = features_of(days, drawn)
    published = [day for day in days if day.generation is not None]
    groups = {
        "Volume": charts_of(days, "volume", "count") + charts_of(days, "run", "count", ["lines"]),
        "Dropped impressions by reason": charts_of(days, "dropped", "share"),
        "Rate or mean of each label": list(rates_of(days)),
        "Rate of the main label by value": charts_of(days, "rate_by", "share"),
        "Actions without an impression": charts_of(days, "orphans", "share"),
        "Labels changed since the generation before": charts_of(days, "flips", "share"),
        "Samples matched by view": charts_of(days, "matched", "share"),
        "Median age of matched rows": charts_of(days, "age", "seconds"),
        "Samples whose served value differs": charts_of(days, "served", "share"),
    }
    runs = [
        *charts_of(days, "run", "seconds", ["run time"]),
        *charts_of(days, "run", "bytes", ["read", "written"]),
        *charts_of(days, "run", "count", ["shards", "generation"]),
        *charts_of(days, "run", "share", ["malformed lines"]),
    ]
    return filled(
        "trends.html.j2",
        ("page.css", "trends.css"),
        ("page.js", "trends.js"),
        {
            "title": f"{shown(name)}, {days[0].day} to {days[-1].day}" if days else shown(name),
            "subtitle": f"{count(len(published))} of {plural(len(days), 'day')} published",
            "first": days[0].day if days else "",
            "last": days[-1].day if days else "",
            "strip": strip_of(days),
            "findings": findings_of(days, 100),
            "groups": [(title, charts) for title, charts in groups.items() if charts],
            "runs": runs,
            "features": features,
            "hidden": hidden,
            "days": table_of(days),
        },
    )
