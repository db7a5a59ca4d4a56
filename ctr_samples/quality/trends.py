"""The page about many days of a sample set: a single file, built only from metrics documents and manifests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Literal, get_args

from markupsafe import Markup

from ctr_samples.quality.drift import compared
from ctr_samples.quality.html import Card, PageTable, Part, Section, finder, group, page, paragraph, prose, table
from ctr_samples.quality.metrics import Finding, Metrics
from ctr_samples.quality.report.charts import round_top
from ctr_samples.quality.report.features import anchor_of
from ctr_samples.quality.report.wording import MISSING, TAGS, count, number, plural, share, shown, size, span
from ctr_samples.quality.served import Served
from ctr_samples.shards import Manifest

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


def figures_of(metrics: Metrics, run: Manifest, served: Served | None = None) -> Figures:
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


def _flips(metrics: Metrics, run: Manifest) -> Iterator[tuple[str, float]]:
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


def _run(metrics: Metrics, run: Manifest) -> Iterator[tuple[str, float]]:
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


_CARDS, _FIGURES = 1000, 120_000
"""Largest number of features that have a chart, and of their figures that are drawn: those of 300 features on 400 days."""

_LINK = Markup('<a href="{}">{}</a>')
_CELL = Markup('<rect class="{}" x="{}" y="0" width="{}" height="10"/>')
_STRIP = Markup(
    '<div class="frame"><svg class="strip" viewBox="0 0 {} 10" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>'
    '</div>\n<div class="axis" aria-hidden="true"><span>{}</span><span>{}</span></div>\n<p class="legend">{}</p>\n'
)
_KEY = Markup('<span><span class="key {}"></span>{}</span> ')
_CURSOR = Markup(
    '<div class="cursor" hidden>\n<label for="at">Day</label>\n<input type="range" id="at" min="0" max="{0}" value="{0}">\n'
    '<p id="about" aria-live="polite"></p>\n</div>\n'
)
_ABOUT_LINES = (
    "Each line goes from {} to {}, from 0 to the value at its top left. The figure at the right is of the last day that has "
    "one, or of the day that is chosen above. A line is interrupted where a day was not published. Figures of a chosen day are "
    "rounded to three digits; the table at the end is exact."
)
_ABOUT_FEATURES = (
    "The highest drift comes first. Drift compares a day with the one before it, from 0 (the same values) to 1 (nothing in "
    "common). A second line is the share of rows without a value, where there ever was one."
)


def render(name: str, days: Sequence[DayPoint]) -> str:
    """Render the HTML page about the days of a sample set: a single file that loads nothing from the network. Does not
    use Spark.

    ``days`` are in order and include missing days. If there are very many features, only those with the largest drift get
    charts. The page states the number of omitted features.
    """
    first, last = (days[0].day, days[-1].day) if days else ("", "")
    published = sum(day.generation is not None for day in days)
    features, hidden = features_of(days, min(_CARDS, _FIGURES // max(1, len(days))))
    runs = [
        *lines_of(days, "run", "seconds", ["run time"]),
        *lines_of(days, "run", "bytes", ["read", "written"]),
        *lines_of(days, "run", "count", ["shards", "generation"]),
        *lines_of(days, "run", "share", ["malformed lines"]),
    ]
    return page(
        "Trends of a sample set",
        f"{shown(name)}, {first} to {last}" if days else shown(name),
        (f"{count(published)} of {plural(len(days), 'day')} published",),
        (
            Section("verdicts", "Verdicts", _verdicts(days, first, last)),
            Section("figures", "Figures", [paragraph("hint", _ABOUT_LINES.format(first, last)), *_groups(days)]),
            Section("features", "Features", _features(features, hidden), count=count(len(features) + hidden)),
            Section("runs", "Runs", [group("smalls", *runs), _NONE if not runs else Markup()]),
            Section("days", "All days", [table_of(days).styled("stacked")]),
        ),
        extra=("trends",),
        under_links=_CURSOR.format(max(0, len(days) - 1)),
    )


_NONE = paragraph("none", "No day is published.")


def _groups(days: Sequence[DayPoint]) -> Iterator[Part]:
    """Yield the charts of figures, each group under its title."""
    for title, charts in {
        "Volume": lines_of(days, "volume", "count") + lines_of(days, "run", "count", ["lines"]),
        "Dropped impressions by reason": lines_of(days, "dropped", "share"),
        "Rate or mean of each label": rates_of(days),
        "Rate of the main label by value": lines_of(days, "rate_by", "share"),
        "Actions without an impression": lines_of(days, "orphans", "share"),
        "Labels changed since the generation before": lines_of(days, "flips", "share"),
        "Samples matched by view": lines_of(days, "matched", "share"),
        "Median age of matched rows": lines_of(days, "age", "seconds"),
        "Samples whose served value differs": lines_of(days, "served", "share"),
    }.items():
        if charts:
            yield Markup("<h3>{}</h3>\n{}").format(title, group("smalls", *charts))


def _verdicts(days: Sequence[DayPoint], first: str, last: str) -> Iterator[Part]:
    """Yield a strip with one mark per day, colored by standing, and the checks that failed."""
    counts = verdicts_in_words(days)
    wide = 1 - min(0.1, 0.004 * len(days)) if len(days) <= 120 else 1
    cells = Markup().join(_CELL.format(day.standing, at, f"{wide:.3g}") for at, day in enumerate(days))
    keys = Markup().join(_KEY.format(standing, text) for standing, text in counts.items())
    yield _STRIP.format(len(days), ", ".join(counts.values()), cells, first, last, keys)
    findings = findings_of(days)
    calm = any(day.generation is not None for day in days) and not findings
    yield paragraph("none", "Every check passed on each published day.") if calm else findings.styled("stacked")


def verdicts_in_words(days: Sequence[DayPoint]) -> dict[str, str]:
    """Return the standings that occur, each with a text such as ``3 days refused``."""
    counts = {standing: sum(day.standing == standing for day in days) for standing in get_args(Standing)}
    return {standing: f"{plural(n, 'day')} {standing}" for standing, n in counts.items() if n}


def findings_of(days: Sequence[DayPoint]) -> PageTable:
    """Return a table of failed checks, one row per check and subject, most recent first."""
    seen: dict[tuple[str, str], list[DayPoint]] = {}
    for day in days:
        for finding in day.findings:
            seen.setdefault((finding.check, finding.subject), []).append(day)
    rows = []
    for (check, subject), found in sorted(seen.items(), key=lambda item: item[1][-1].day, reverse=True):
        last = found[-1]
        finding = next(one for one in last.findings if (one.check, one.subject) == (check, subject))
        rows.append(
            (
                check,
                shown(subject),
                plural(len(found), "day"),
                _linked(last),
                TAGS[finding.standing],
                prose(shown(finding.sentence, 300)),
            )
        )
    titles = "<check | <of | days | <last on | <then | ~what was found"
    return table("Checks that did not pass", titles, rows, 100)


def names_of(days: Sequence[DayPoint], group: Group) -> list[str]:
    """Return the figure names of a group, most recent first."""
    return list(dict.fromkeys(name for day in reversed(days) for name in day.figures.get(group, {})))


def lines_of(days: Sequence[DayPoint], group: Group, unit: str, names: Iterable[str] | None = None) -> list[Markup]:
    """Draw lines of the figures in a group that exceed 0 on any day."""
    return [
        line(shown(name), [day.figure(group, name) for day in days], unit)
        for name in (names_of(days, group) if names is None else names)
        if _highest(days, group, name) > 0
    ]


def _highest(days: Sequence[DayPoint], group: Group, name: str) -> float:
    return max((day.figure(group, name) or 0.0 for day in days), default=0.0)


def rates_of(days: Sequence[DayPoint]) -> list[Markup]:
    """Draw a line per label: the mean, or the share of positives for 0/1 labels."""
    flags = _flags(days)
    return [
        line(shown(name), [day.figure("rate", name) for day in days], "share" if name in flags else "number")
        for name in names_of(days, "rate")
    ]


def _flags(days: Sequence[DayPoint]) -> frozenset[str]:
    return frozenset[str]().union(*(day.flags for day in days))


def features_of(days: Sequence[DayPoint], drawn: int) -> tuple[list[Card], int]:
    """Return the features ranked by highest drift, then missing share, and the number of features left out.

    A card has charts of the day-to-day drift, with a link to the day of the highest, and of the share of rows without a
    value.
    """
    names = list(dict.fromkeys([*names_of(days, "drift"), *names_of(days, "missing")]))
    ranked = sorted(
        names, key=lambda name: (_highest(days, "drift", name), _highest(days, "missing", name)), reverse=True
    )
    return [_card(days, name) for name in ranked[:drawn]], max(0, len(ranked) - drawn)


def _card(days: Sequence[DayPoint], name: str) -> Card:
    drift, missing = ([day.figure(group, name) for day in days] for group in ("drift", "missing"))
    known = [(value, day.day) for value, day in zip(drift, days, strict=True) if value is not None]
    parts: list[Part] = []
    if known:
        highest, last = max(known)
        page = next(day.page for day in days if day.day == last)
        where = _LINK.format(f"{page}#{anchor_of(name)}", last) if page else last
        parts.append(paragraph("note", Markup("highest {} on {}").format(number(highest), where)))
        parts.append(line("drift", drift, "number", label=f"drift of {shown(name)}"))
    if any(missing):
        parts.append(line("missing", missing, "share", label=f"missing share of {shown(name)}"))
    return Card(shown(name), parts)


def _features(cards: Sequence[Card], hidden: int) -> Iterator[Part]:
    yield paragraph("hint", _ABOUT_FEATURES)
    if cards:
        yield finder("Show only", "part of a name")
    yield group("smalls", *cards)
    if hidden:
        yield paragraph("more", f"{count(hidden)} features that drifted less are not drawn.")
    elif not cards:
        yield _NONE


def table_of(days: Sequence[DayPoint]) -> PageTable:
    """Return a table of all days, newest first, each with a link to its report."""
    flags = sorted(_flags(days))[:4]
    titles = " | ".join(
        ["<day", "<verdict", "generation", "samples", "dropped", *map(shown, flags), "run time", "size", "~status"]
    )
    return table("The newest first", titles, (_row(day, flags) for day in reversed(days)), len(days))


def _row(day: DayPoint, flags: Sequence[str]) -> tuple[str, ...]:
    impressions, samples = (day.figure("volume", name) for name in ("impressions", "samples"))
    dropped = None if not impressions or samples is None else 1 - samples / impressions
    return (
        _linked(day),
        day.standing,
        count(day.generation),
        count(samples),
        share(dropped),
        *(share(day.figure("rate", flag)) for flag in flags),
        span(day.figure("run", "run time")),
        size(day.figure("run", "written")),
        shown(day.note, 200),
    )


def _linked(day: DayPoint) -> str:
    return _LINK.format(day.page, day.day) if day.page else day.day


HEIGHT = 500
"""Resolution of the vertical axis: the page script recovers values to three digits."""

UNITS: dict[str, Callable[[float | None], str]] = {
    "count": count,
    "share": share,
    "number": number,
    "seconds": span,
    "bytes": size,
}

_SMALL = Markup(
    '<div class="small">\n<p class="head"><span class="of">{}</span> <span class="now">{}</span></p>\n'
    '<div class="frame"><span class="top-of" aria-hidden="true">{}</span>{}</div>\n</div>\n'
)
_LINE = Markup(
    '<svg class="line" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}" data-top="{}" '
    'data-unit="{}"><path d="{}"/></svg>'
)


def line(name: str, values: Sequence[float | None], unit: str, label: str = "") -> Markup:
    """Draw one value per day, with gaps for None, below its name and newest value, on an axis from 0. ``unit`` is a key of
    :data:`UNITS`. Screen readers read the ``label``, or the name.
    """
    told = UNITS[unit]
    known = [value for value in values if value is not None]
    top, newest, words = 1.0, MISSING, "no values"
    if known:
        top, newest = round_top(max(known)), told(known[-1])
        words = f"{newest} on the last day with a value; lowest {told(min(known))}, highest {told(max(known))}"
    drawing = _LINE.format(len(values), HEIGHT, f"{label or name}: {words}", f"{top:.6g}", unit, steps(values, top))
    return _SMALL.format(name, newest, told(top), drawing)


def steps(values: Sequence[float | None], top: float) -> str:
    """Return the SVG path of a step line, level within each day and with gaps for missing values."""
    parts: list[str] = []
    at, pen = 0, -1  # height at which the line ended, or -1 after a gap
    for height, days in groupby(_height(value, top) for value in values):
        width = sum(1 for _ in days)
        if height is None:
            pen = -1
        else:
            parts.append(f"v{height - pen}h{width}" if pen >= 0 else f"M{at} {height}h{width}")
            pen = height
        at += width
    return "".join(parts)


def _height(value: float | None, top: float) -> int | None:
    """Return the distance from the top edge, in whole steps."""
    return None if value is None else round(HEIGHT * (1 - min(max(value / top, 0.0), 1.0)))
