"""The section about features: those with a finding first, then by descending drift. The first have a card with a chart, the
others a table row.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from markupsafe import Markup

from ctr_samples.quality.feature_facts import Facts, FeatureFacts
from ctr_samples.quality.html import (
    Card,
    Chart,
    Header,
    PageTable,
    Part,
    Section,
    finder,
    group,
    paragraph,
    table,
)
from ctr_samples.quality.metrics import Standing
from ctr_samples.quality.report.charts import Histogram, bar, columns, histogram_of, legend
from ctr_samples.quality.report.wording import TAGS, by_split, count, number, share, shown

CARDS = 40
"""Number of features that have a chart."""
_TOPS = 6
_FEW = 12
"""Number of distinct values up to which the page lists the values instead of drawing a histogram."""

_ORDER = (
    "What failed a check or warns comes first, then the largest drift. Drift compares two distributions: 0 means equal, 1 "
    "means no overlap."
)


def section_of(
    features: Mapping[str, FeatureFacts],
    drift: Mapping[str, float],
    before: Mapping[str, FeatureFacts],
    standings: Mapping[str, Standing],
    *,
    positives: bool,
    compared: str = "",
    measured: str = "",
    listed: str = "metrics.json",
) -> Section:
    """Return the section about features. ``before`` holds those of the reference, which ``compared`` names.

    ``positives`` is False without a 0/1 label; the tables then omit the share of positives. ``measured`` says which samples
    were measured, and ``listed`` what has the features for which there is no room.
    """
    ranked = sorted(features, key=lambda name: (name not in standings, -drift.get(name, -1.0), name))
    drawn, others = ranked[:CARDS], ranked[CARDS:]
    parts: list[Part] = []
    if drift:
        parts += [paragraph("hint", _ORDER)]
    if drawn:
        cards = (
            _card(name, features[name], before.get(name), drift.get(name), standings.get(name), positives=positives)
            for name in drawn
        )
        parts += [group("tools", legend(compared), finder("Find a feature")), group("cards", *cards)]
    if others:
        rows = table(
            "Features without a chart",
            "<feature | <type | bytes | <joined | drift | nulls | zeros | min | mean | max | distinct | AUC alone",
            (_row(name, features[name], drift.get(name)) for name in others),
        )
        told = f"The first {count(len(drawn))} features have a chart; the rest follow in the same order."
        parts += [paragraph("hint", told), rows.styled("filtered", listed)]
    parts += [paragraph("hint", measured), paragraph("none", "" if features else "There are no features.")]
    return Section("features", "Features", parts, count=count(len(features)))


def anchor_of(name: str) -> str:
    """Return the place of a feature on the page of any day, with other characters than letters and digits as numbers."""
    return "feature-" + re.sub(r"[^A-Za-z0-9_-]", lambda found: f".{ord(found[0]):x}.", name)


def linked(name: str) -> Markup:
    """Return a link to the place of a feature."""
    return Markup('<a href="#{}">{}</a>').format(anchor_of(name), shown(name))


def _card(
    name: str,
    feature: FeatureFacts,
    before: FeatureFacts | None,
    drift: float | None,
    standing: Standing | None,
    *,
    positives: bool,
) -> Card:
    splits = by_split(feature.splits)
    split, facts = next(iter(splits.items()), ("", None))
    old = before.splits.get(split) if before else None
    histogram = _histogram(feature, facts, old) if facts else None
    drawn: Part = Markup()
    if facts:
        drawn = _chart(name, split, histogram) if histogram else _tops(facts, old, positives=positives)
    return Card(
        shown(name),
        (
            drawn or paragraph("none", "No distribution was recorded."),
            paragraph("note", _note(feature, histogram, facts) if facts else ""),
            _facts(feature, splits, old),
        ),
        anchor_of(name),
        _kind(feature),
        "" if drift is None else f"drift {drift:.3f}",
        standing or "",
        TAGS[standing] if standing else "",
    )


def _kind(feature: FeatureFacts) -> str:
    shape = " × ".join(number(size) for size in feature.shape or ())
    return ", ".join(filter(None, (feature.kind, feature.dtype, shape)))


def _histogram(feature: FeatureFacts, facts: Facts, before: Facts | None) -> Histogram | None:
    """Return the histogram, or None if a list of values describes the feature better."""
    few = feature.kind != "number" or (facts.distinct is not None and facts.distinct <= _FEW)
    if facts.cdf is None or (few and facts.top):
        return None
    return histogram_of(facts.cdf, before.cdf if before else None)


def _chart(name: str, split: str, histogram: Histogram) -> Chart:
    peak = max(range(len(histogram.day)), key=lambda at: histogram.day[at])
    label = (
        f"Distribution of {shown(name)} in {shown(split)} from {number(histogram.low)} to {number(histogram.high)}; "
        f"the tallest of {len(histogram.day)} bars is number {peak + 1}, with {share(histogram.day[peak])}."
    )
    drawing = columns(histogram.day, histogram.before, top=histogram.top, label=label)
    return Chart(drawing, axis=[number(end) for end in (histogram.low, histogram.middle, histogram.high)])


def _note(feature: FeatureFacts, histogram: Histogram | None, facts: Facts) -> str:
    notes = ["logarithmic axis"] if histogram and histogram.logarithmic else []
    if histogram and histogram.cut:
        notes.append(f"the tallest bar is cut off; it holds {share(max(histogram.day))}")
    if feature.hashed is not None:
        notes.append(collisions(feature.hashed, facts))
    if facts.looked_at < facts.rows:
        notes.append(f"from {count(facts.looked_at)} of {count(facts.rows)} samples")
    if feature.share is not None:
        notes.append(f"{share(feature.share)} of a record's bytes")
    if feature.joined:
        notes.append(f"joined from {_joined(feature)}")
    return "; ".join(notes)


def collisions(ids: int, facts: Facts) -> str:
    """State the estimated number of values of a hashed feature and the share that collides.

    With n values hashed to m ids, m (1 - (1 - 1/m)^n) ids are in use, and a value has its own id with probability
    (1 - 1/m)^(n - 1).
    """
    used = round((facts.distinct or 0.0) - (facts.nulls > 0))
    if used >= ids:
        return f"all {count(ids)} ids are in use: values share ids; use more `hash_buckets`, or a vocabulary"
    if used < 1:
        return f"hashed to {count(ids)} ids"
    values = math.log1p(-used / ids) / math.log1p(-1 / ids)
    merged = 1 - (1 - 1 / ids) ** (values - 1)
    return f"{count(used)} of {count(ids)} ids stand for about {count(values)} values, of which {share(merged)} share an id"


def _tops(facts: Facts, before: Facts | None, *, positives: bool) -> PageTable:
    """Return a table of the most frequent values, with their shares on both days."""
    tops = facts.top or ()
    old = {repr(top.value): top.share for top in (before.top if before else None) or ()}
    longest = max((top.share for top in tops), default=0.0) or 1.0
    rows = []
    for top in tops[:_TOPS]:
        was = old.get(repr(top.value))
        drawn = bar(top.share / longest, before=None if was is None else was / longest)
        name = f"{shown(top.words, 40)} ({shown(top.value, 40)})" if top.words else shown(top.value, 40)
        rows.append((name, share(top.share), drawn, *([share(top.positives)] if positives else [])))
    titles = "<value | share | =relative to the most frequent"
    return table("Most frequent values", f"{titles} | positive" if positives else titles, rows)


def _facts(feature: FeatureFacts, splits: Mapping[str, Facts], before: Facts | None) -> PageTable:
    """Return a table of figures: one column per split, and one for the day before."""
    described = [(shown(name, 20), facts) for name, facts in list(splits.items())[:4]]
    described += [("before", before)] if before else []
    heads = (Header("figure", "text"), *(Header(name) for name, _ in described))
    cells = [_figures(feature, facts) for _, facts in described]
    names = [name for name in cells[0] if any(some[name] for some in cells)] if cells else []
    return PageTable("Figures", heads, tuple((name, *(some[name] for some in cells)) for name in names), style="facts")


def _figures(feature: FeatureFacts, facts: Facts) -> dict[str, str]:
    """Return the figures of a column as text, without text for meaningless figures such as the mean of ids."""
    figures = (facts.min, facts.mean, facts.max, facts.std)
    low, mean, high, deviation = ("" if n is None or feature.kind == "id" else number(n) for n in figures)
    lengths = facts.lengths
    return {
        "nulls": _of(facts.nulls, facts.rows),
        "defaults": _of(facts.defaults, facts.rows) if facts.defaults else "",
        "zeros": _of(facts.zeros, facts.values),
        "not finite": count(facts.nan + facts.infinite) if facts.nan or facts.infinite else "",
        "min": low,
        "mean": mean,
        "max": high,
        "std. dev.": deviation,
        "list length": f"{number(lengths.min)} to {number(lengths.max)}"
        if lengths and lengths.min != lengths.max
        else "",
        "distinct": "" if facts.distinct is None else count(facts.distinct),
        "AUC alone": "" if facts.auc is None else f"{facts.auc:.3f}",
    }


def _of(part: int, whole: int) -> str:
    """Format a count as a share of the whole, or as a plain count if the whole is 0."""
    return share(part / whole) if whole else count(part)


def _row(name: str, feature: FeatureFacts, drift: float | None) -> tuple[str, ...]:
    facts = next(iter(by_split(feature.splits).values()), None)
    known = _figures(feature, facts) if facts else {}
    names = ("nulls", "zeros", "min", "mean", "max", "distinct", "AUC alone")
    size = "" if feature.share is None else share(feature.share)
    moved_by = "" if drift is None else f"{drift:.3f}"
    place = Markup('<span id="{}">{}</span>').format(anchor_of(name), shown(name))
    return place, _kind(feature), size, _joined(feature), moved_by, *(known.get(n, "") for n in names)


def _joined(feature: FeatureFacts) -> str:
    """Return the names of the views and histories behind a feature."""
    return ", ".join(shown(one.partition(".")[2]) for one in feature.joined)
