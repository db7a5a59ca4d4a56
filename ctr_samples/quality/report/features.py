"""The features, those that moved most first: a drawing and the figures of each, or a row of a table for the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from ctr_samples.quality.report.charts import bar, columns
from ctr_samples.quality.report.documents import by_split, figure, figures, listing, mapping, objects, text
from ctr_samples.quality.report.histograms import Histogram, curve_of, histogram_of
from ctr_samples.quality.report.tables import Column, Table, table
from ctr_samples.quality.report.verdict import TAGS, Standing
from ctr_samples.quality.report.wording import count, number, share, shown

_TOPS = 6
_FEW = 12
"""A number with at most so many values is better shown by them than by a histogram."""


@dataclass(frozen=True, slots=True)
class Feature:
    """What the page shows of a feature that has a drawing of its own."""

    anchor: str
    name: str
    kind: str
    drift: str
    standing: Standing | None
    tag: str
    chart: Markup | None
    axis: tuple[str, str, str]
    note: str
    tops: Table
    facts: Table


@dataclass(frozen=True, slots=True)
class Features:
    """``moved`` ranks the drift, ``drawn`` are the first features, ``others`` the rest."""

    count: int
    moved: Table
    drawn: tuple[Feature, ...]
    others: Table


def features_of(
    metrics: Mapping[str, Any],
    reference: Mapping[str, Any],
    standings: Mapping[str, Standing],
    *,
    drawn: int,
    rows: int,
) -> Features:
    """All features of a run; the first ``drawn`` of the ranking with a drawing, the next ``rows`` in the table."""
    found, before = mapping(metrics, "features"), mapping(reference, "features")
    drift = figures(metrics, "drift")
    ranked = sorted(found, key=lambda name: (-drift.get(name, -1.0), name))
    return Features(
        len(found),
        table("Drift, greatest first", "<feature | drift | =part of 1", _moved(ranked[:drawn], drift), 10),
        tuple(
            _feature(at, name, mapping(found, name), mapping(before, name), drift.get(name), standings.get(name))
            for at, name in enumerate(ranked[:drawn])
        ),
        table(
            "Features without a drawing",
            "<feature | <type | drift | nulls | zeros | min | mean | max | distinct | AUC alone",
            (_row(name, mapping(found, name), drift.get(name)) for name in ranked[drawn:]),
            rows,
        ),
    )


def _moved(ranked: Sequence[str], drift: Mapping[str, float]) -> Iterator[tuple[str, ...]]:
    for at, name in enumerate(ranked):
        if name in drift:
            link = Markup('<a href="#feature-{}">{}</a>').format(at, shown(name))
            yield link, f"{drift[name]:.3f}", bar(drift[name])


def _feature(
    at: int,
    name: str,
    spec: Mapping[str, Any],
    before: Mapping[str, Any],
    drift: float | None,
    standing: Standing | None,
) -> Feature:
    splits, splits_before = _splits(spec), _splits(before)
    split, column = next(iter(splits.items()), ("", {}))
    column_before = splits_before.get(split, {})
    tops = _tops(column, column_before) if _is_better_by_value(spec, column) else table("", "<value", ())
    histogram = None if tops else _histogram(column, column_before)
    if histogram is None and not tops:
        tops = _tops(column, column_before)
    return Feature(
        anchor=f"feature-{at}",
        name=shown(name),
        kind=_kind(spec),
        drift="" if drift is None else f"{drift:.3f}",
        standing=standing,
        tag=TAGS.get(standing, "") if standing else "",
        chart=_chart(name, split, histogram) if histogram else None,
        axis=_axis(histogram) if histogram else ("", "", ""),
        note=_note(histogram, column),
        tops=tops,
        facts=_facts(spec, splits, column_before),
    )


def _splits(spec: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The columns of a feature by split."""
    return {name: mapping(column) for name, column in by_split(spec, "splits").items()}


def _kind(spec: Mapping[str, Any]) -> str:
    shape = " × ".join(number(figure({"n": n}, "n")) for n in listing(spec, "shape"))
    return ", ".join(filter(None, (text(spec, "kind"), text(spec, "dtype"), shape)))


def _is_better_by_value(spec: Mapping[str, Any], column: Mapping[str, Any]) -> bool:
    distinct = figure(column, "distinct")
    return text(spec, "kind") != "number" or (distinct is not None and distinct <= _FEW)


def _histogram(column: Mapping[str, Any], before: Mapping[str, Any]) -> Histogram | None:
    curve = curve_of(column)
    return None if curve is None else histogram_of(curve, curve_of(before))


def _chart(name: str, split: str, histogram: Histogram) -> Markup:
    peak = max(range(len(histogram.day)), key=lambda at: histogram.day[at])
    said = (
        f"Distribution of {shown(name)} in {shown(split)} from {number(histogram.low)} to {number(histogram.high)}; "
        f"the highest of {len(histogram.day)} columns is number {peak + 1} with {share(histogram.day[peak])}."
    )
    return columns(histogram.day, histogram.before, top=histogram.top, label=said)


def _axis(histogram: Histogram) -> tuple[str, str, str]:
    return number(histogram.low), number(histogram.middle), number(histogram.high)


def _note(histogram: Histogram | None, column: Mapping[str, Any]) -> str:
    notes = ["logarithmic axis"] if histogram and histogram.logarithmic else []
    if histogram and histogram.cut:
        notes.append(f"the highest column is cut: it has {share(max(histogram.day))}")
    looked_at, rows = figure(column, "looked_at"), figure(column, "rows")
    if looked_at is not None and rows and looked_at < rows:
        notes.append(f"from {count(looked_at)} of {count(rows)} samples")
    return "; ".join(notes)


def _tops(column: Mapping[str, Any], before: Mapping[str, Any]) -> Table:
    """The most frequent values, each with its share on the day before."""
    old = {repr(top.get("value")): figure(top, "share") for top in objects(before, "top")}
    tops = objects(column, "top")
    longest = max((s for top in tops if (s := figure(top, "share"))), default=1.0)
    rows = []
    for top in tops[:_TOPS]:
        now, was = figure(top, "share"), old.get(repr(top.get("value")))
        drawn = bar((now or 0) / longest, before=None if was is None else was / longest)
        rows.append((shown(top.get("value"), 40), share(now), drawn, share(figure(top, "positives"))))
    return table("Most frequent values", "<value | share | =against the most frequent | positive", rows)


def _facts(spec: Mapping[str, Any], splits: Mapping[str, Mapping[str, Any]], before: Mapping[str, Any]) -> Table:
    """One column of figures for each split, and one for the day before."""
    described = [(shown(name, 20), column) for name, column in list(splits.items())[:4]]
    described += [("before", before)] if before else []
    heads = (Column("figure", "text"), *(Column(name) for name, _ in described))
    cells = [_figures(spec, column) for _, column in described]
    names = [name for name in _FIGURES if any(name in some for some in cells)]
    return Table("Figures", heads, tuple((name, *(some.get(name, "") for some in cells)) for name in names))


_FIGURES = (
    "nulls",
    "defaults",
    "zeros",
    "not finite",
    "min",
    "mean",
    "max",
    "deviation",
    "list length",
    "distinct",
    "AUC alone",
)


def _figures(spec: Mapping[str, Any], column: Mapping[str, Any]) -> dict[str, str]:
    """What is known of a column, in words; what says nothing is left out, as the mean of ids."""
    known = figures(column)
    found = {"nulls": _of(known, "nulls", "rows"), "zeros": _of(known, "zeros", "values")}
    if known.get("defaults"):
        found["defaults"] = _of(known, "defaults", "rows")
    strange = known.get("nan", 0) + known.get("infinite", 0)
    if strange:
        found["not finite"] = count(strange)
    if text(spec, "kind") != "id":
        named = {"min": "min", "mean": "mean", "max": "max", "deviation": "std"}
        found |= {name: number(known[key]) for name, key in named.items() if key in known}
    lengths = figures(column, "lengths")
    if lengths and lengths.get("min") != lengths.get("max"):
        found["list length"] = f"{number(lengths.get('min'))} to {number(lengths.get('max'))}"
    if "distinct" in known:
        found["distinct"] = count(known["distinct"])
    if "auc" in known:
        found["AUC alone"] = f"{known['auc']:.3f}"
    return found


def _of(known: Mapping[str, float], name: str, whole: str) -> str:
    """A count as a share where the whole is known."""
    if name not in known:
        return ""
    return share(known[name] / known[whole]) if known.get(whole) else count(known[name])


def _row(name: str, spec: Mapping[str, Any], drift: float | None) -> tuple[str, ...]:
    known = _figures(spec, next(iter(_splits(spec).values()), {}))
    names = ("nulls", "zeros", "min", "mean", "max", "distinct", "AUC alone")
    return shown(name), _kind(spec), "" if drift is None else f"{drift:.3f}", *(known.get(n, "") for n in names)
