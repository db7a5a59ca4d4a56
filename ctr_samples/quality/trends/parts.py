"""Data for the sections of the multi-day report page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from markupsafe import Markup

from ctr_samples.quality.report.charts import round_top
from ctr_samples.quality.report.features import anchor_of
from ctr_samples.quality.report.wording import MISSING, Table, count, number, plural, share, shown, size, span, table
from ctr_samples.quality.trends.days import DayPoint, Group

STANDINGS = ("passed", "warned", "refused", "missing", "damaged")
_CELL = Markup('<rect class="{}" x="{}" y="0" width="{}" height="10"/>')
_STRIP = Markup('<svg class="strip" viewBox="0 0 {} 10" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>')
_LINK = Markup('<a href="{}">{}</a>')


@dataclass(frozen=True, slots=True)
class Strip:
    """A strip with a mark for the verdict of each day."""

    drawing: Markup
    counts: tuple[tuple[str, str], ...]
    """Standings that occur, each with a text such as ``3 days refused``."""


def strip_of(days: Sequence[DayPoint]) -> Strip:
    """Draw one mark per day, colored by standing."""
    counts = {standing: sum(day.standing == standing for day in days) for standing in STANDINGS}
    words = tuple((standing, f"{plural(n, 'day')} {standing}") for standing, n in counts.items() if n)
    wide = 0.9 if len(days) <= 120 else 1
    cells = Markup().join(_CELL.format(day.standing, at, wide) for at, day in enumerate(days))
    return Strip(_STRIP.format(len(days), ", ".join(text for _, text in words), cells), words)


def findings_of(days: Sequence[DayPoint], limit: int) -> Table:
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
            (check, shown(subject), count(len(found)), _linked(last), finding.standing, shown(finding.sentence, 300))
        )
    titles = "<check | <of | days | <last on | <then | ~what was found"
    return table("Checks that did not pass", titles, rows, limit)


def names_of(days: Sequence[DayPoint], group: Group) -> list[str]:
    """Return the figure names of a group, most recent first."""
    return list(dict.fromkeys(name for day in reversed(days) for name in day.figures.get(group, {})))


def charts_of(days: Sequence[DayPoint], group: Group, unit: str, names: Iterable[str] | None = None) -> list[Chart]:
    """Draw charts of the figures in a group that exceed 0 on any day."""
    drawn = (
        chart(shown(name), [day.figure(group, name) for day in days], unit)
        for name in (names_of(days, group) if names is None else names)
    )
    return [one for one in drawn if one.highest > 0]


def rates_of(days: Sequence[DayPoint]) -> Iterator[Chart]:
    """Yield a chart per label: the mean, or the share of positives for 0/1 labels."""
    flags = _flags(days)
    for name in names_of(days, "rate"):
        values = [day.figure("rate", name) for day in days]
        yield chart(shown(name), values, "share" if name in flags else "number")


def _flags(days: Sequence[DayPoint]) -> frozenset[str]:
    return frozenset[str]().union(*(day.flags for day in days))


@dataclass(frozen=True, slots=True)
class FeatureCard:
    """Charts of a feature: day-to-day drift, and share of rows without a value."""

    name: str
    drift: Chart | None
    missing: Chart | None
    worst: Markup
    """Highest drift and its day, with a link to the feature on the page of that day."""


def features_of(days: Sequence[DayPoint], drawn: int) -> tuple[list[FeatureCard], int]:
    """Return the features ranked by highest drift, then missing share, and the number of features left out."""
    names = list(dict.fromkeys([*names_of(days, "drift"), *names_of(days, "missing")]))
    cards = sorted((_card(days, name) for name in names), key=_rank, reverse=True)
    return cards[:drawn], max(0, len(cards) - drawn)


def _rank(card: FeatureCard) -> tuple[float, float]:
    return card.drift.highest if card.drift else 0.0, card.missing.highest if card.missing else 0.0


def _card(days: Sequence[DayPoint], name: str) -> FeatureCard:
    drift, missing = ([day.figure(group, name) for day in days] for group in ("drift", "missing"))
    known = [(value, day.day) for value, day in zip(drift, days, strict=True) if value is not None]
    worst = Markup()
    if known:
        highest, last = max(known)
        page = next(day.page for day in days if day.day == last)
        where = _LINK.format(f"{page}#{anchor_of(name)}", last) if page else last
        worst = Markup("highest {} on {}").format(number(highest), where)
    return FeatureCard(
        shown(name),
        chart(f"drift of {shown(name)}", drift, "number") if known else None,
        chart(f"missing share of {shown(name)}", missing, "share") if any(missing) else None,
        worst,
    )


def table_of(days: Sequence[DayPoint]) -> Table:
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

_LINE = Markup(
    '<svg class="line" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}" data-top="{}" '
    'data-unit="{}"><path d="{}"/></svg>'
)


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawing with its captions: the ``top`` of the axis, which starts at 0, and the newest value."""

    name: str
    drawing: Markup
    top: str
    newest: str
    highest: float
    """The highest value, used for ranking. 0 if there are no values."""


def chart(name: str, values: Sequence[float | None], unit: str) -> Chart:
    """Draw one value per day, with gaps for None. ``unit`` is a key of :data:`UNITS`."""
    shown = UNITS[unit]
    known = [value for value in values if value is not None]
    highest, top, newest, words = 0.0, 1.0, MISSING, "no values"
    if known:
        highest = max(known)
        top, newest = round_top(highest), shown(known[-1])
        words = f"{newest} on the last day with a value; lowest {shown(min(known))}, highest {shown(highest)}"
    drawing = _LINE.format(len(values), HEIGHT, f"{name}: {words}", f"{top:.6g}", unit, steps(values, top))
    return Chart(name, drawing, shown(top), newest, highest)


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
