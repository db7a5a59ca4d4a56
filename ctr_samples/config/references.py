"""Checks that tie the keys of a configuration together: names that must exist, entities that must have a key."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import NamedTuple

from ctr_samples.config.models import JobConfig, Label, View
from ctr_samples.config.units import format_duration

IMPRESSION_COLUMNS = ("impression_id", "impression_time", "user", "article", "request", "position")
"""What every impression has, besides ``impressions.columns``."""

VIEW_METADATA = ("age_s", "matched")
"""What the as-of join adds to every view."""

RESERVED_FEATURES = ("impression_id",)
"""Names on the wire that the job writes itself."""


class Problem(NamedTuple):
    """What is wrong at one place of the file."""

    where: tuple[str, ...]
    what: str


def nearest(name: str, valid: Iterable[str]) -> str:
    """``"; did you mean 'ttl'?"`` or, where nothing is near, what would be valid."""
    names = sorted(valid)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; expected one of {', '.join(names)}" if names else ""


def end_sentence(text: str) -> str:
    """The text with a full stop, unless it ends in one or asks something, as :func:`nearest` may."""
    return text if text.endswith((".", "?")) else f"{text}."


def mask_of(label: str) -> str:
    """The column that says whether a reduced label has a value."""
    return f"{label}__mask"


def check_references(config: JobConfig) -> list[Problem]:
    """All problems that can be seen without reading any data."""
    # A wrong source name would make labels and views look wrong too; say the first thing first.
    return list(_sources(config)) or [
        *_days_after(config),
        *_impressions(config),
        *_labels(config),
        *_views(config),
        *_features(config),
        *_case(config),
    ]


def _sources(config: JobConfig) -> Iterator[Problem]:
    named = [("impressions", config.impressions.source)]
    named += [(f"labels.{name}", label.source) for name, label in config.labels.items()]
    named += [(f"views.{name}", view.source) for name, view in config.views.items()]
    for place, wanted in named:
        if wanted not in config.sources:
            what = f"there is no source {wanted!r}{nearest(wanted, config.sources)}"
            yield Problem((*place.split("."), "source"), what)
    for name, source in config.sources.items():
        if (source.days_before or source.days_after) and not source.is_dated:
            key = "days_before" if source.days_before else "days_after"
            what = "has no effect, since the source has neither `{date}` in its path nor a `date_column`; remove it"
            yield Problem(("sources", name, key), what)
        if name not in {used for _, used in named}:
            yield Problem(("sources", name), "is never used; remove it, or use it in a view or label")


def _days_after(config: JobConfig) -> Iterator[Problem]:
    """An action may follow its impression into the next day, and belongs to the last impression before it."""
    shown = config.impressions.source
    for name, source in config.sources.items():
        windows = [label.window for label in config.labels.values() if name in (label.source, shown)]
        window = max(windows, default=timedelta())
        needed = _whole_days(window)
        if source.is_dated and needed > source.days_after:
            what = (
                f"found {source.days_after}, but within `window: {format_duration(window)}` an action, or the last impression "
                f"before it, lies up to {needed} day(s) after the run date"
            )
            yield Problem(("sources", name, "days_after"), f"{what}; set `sources.{name}.days_after: {needed}`")


def _whole_days(span: timedelta) -> int:
    return math.ceil(span / timedelta(days=1))


def _impressions(config: JobConfig) -> Iterator[Problem]:
    for name in config.impressions.columns:
        if name in IMPRESSION_COLUMNS:
            yield Problem(("impressions", "columns", name), f"{name!r} is a name that every impression has; rename it")
    if config.split.by in ("user", "request") and getattr(config.impressions, config.split.by) is None:
        what = f"samples cannot be split by {config.split.by}, since `impressions.{config.split.by}` is not set"
        yield Problem(("split", "by"), what)


def _labels(config: JobConfig) -> Iterator[Problem]:
    shown = config.impressions
    taken = {"impression", *IMPRESSION_COLUMNS, *shown.columns, *config.views}
    others = {*taken, *config.labels, *config.features}
    for name, label in config.labels.items():
        where = ("labels", name)
        if name in taken:
            yield Problem(where, f"{name!r} is also a view or a column of impressions; rename one")
        yield from (
            Problem(
                where, f"its mask {mask!r} is also a feature, a label, a view or a column of impressions; rename one"
            )
            for mask in _masks(name, label)
            if mask in others
        )
        if label.source != shown.source:
            for key in ("time", "article"):
                if getattr(label, key) is None:
                    what = f"needs `{key}`, since its source is not the one of `impressions`"
                    yield Problem(where, what)
        inherited = label.source == shown.source
        has_request = shown.request is not None and (label.request is not None or inherited)
        has_user = shown.user is not None and (label.user is not None or inherited)
        if not (has_request or has_user):
            yield Problem(where, "needs `request` or `user`, set here and under `impressions`, to find its impression")


def _masks(name: str, label: Label) -> list[str]:
    """The column beside a reduced label that says whether there was a value."""
    return [] if label.reduce == "any" else [mask_of(name)]


def _views(config: JobConfig) -> Iterator[Problem]:
    for name, view in config.views.items():
        if name == "impression":
            yield Problem(("views", name), "'impression' names the impression itself; rename the view")
        if view.entity == "user" and config.impressions.user is None:
            yield Problem(("views", name, "entity"), "is user, but `impressions.user` is not set")
        if view.daily_counts is not None:
            yield from _daily_counts(name, view)
        if config.sources[view.source].is_dated:
            yield from _days_before(name, view, config.sources[view.source].days_before)


def _days_before(name: str, view: View, read: int) -> Iterator[Problem]:
    """Days that are not read would be counted as empty, and rows that are not read as if they had never been."""
    if view.daily_counts is not None:
        after = view.available_after or timedelta()
        needed = view.daily_counts.days + _whole_days(after)
        key: tuple[str, ...] = ("daily_counts", "days")
        found = f"found {view.daily_counts.days}" + (
            f" with `available_after: {format_duration(after)}`" if after else ""
        )
        less = "fewer `days`"
    elif isinstance(view.ttl, timedelta):
        # The day of a snapshot ends a day after it begins.
        needed = _whole_days(view.ttl) + (view.snapshot is not None)
        key = ("ttl",)
        found, less = f"found {format_duration(view.ttl)}", "a shorter `ttl`"
    else:
        return
    if needed > read:
        what = f"{found}, which needs {needed} day(s) before the run date, but {read} are read"
        yield Problem(("views", name, *key), f"{what}; set `sources.{view.source}.days_before: {needed}`, or {less}")


def _daily_counts(name: str, view: View) -> Iterator[Problem]:
    counted = view.daily_counts
    assert counted is not None
    for rate_name, rate in counted.rates.items():
        for key, used in (("count", rate.count), ("of", rate.of)):
            if used not in counted.counts:
                what = f"there is no count {used!r}{nearest(used, counted.counts)}"
                yield Problem(("views", name, "daily_counts", "rates", rate_name, key), what)
        if rate_name in counted.counts:
            where = ("views", name, "daily_counts", "rates", rate_name)
            yield Problem(where, f"{rate_name!r} is a count too; rename one")


def _features(config: JobConfig) -> Iterator[Problem]:
    used_views: set[str] = set()
    for name, feature in config.features.items():
        where = ("features", name, "from" if feature.from_ else "expr")
        if name in config.labels or name in RESERVED_FEATURES:
            yield Problem(("features", name), "is the name of a label or of a column that the job adds; rename it")
        text = feature.from_ or feature.expr or ""
        if feature.from_ and not re.fullmatch(r"\w+\.\w+(\.\w+)*", feature.from_):
            yield Problem(where, f"{feature.from_!r} is not of the form `<view>.<column>` or `impression.<column>`")
            continue
        code = _without_strings(text)
        parameters = _lambda_parameters(code) - set(config.views)
        for view, column in re.findall(r"(?<![\w.`'])([A-Za-z]\w*)\.([A-Za-z]\w*)", code):
            if view in parameters:
                continue
            used_views.add(view)
            yield from (Problem(where, what) for what in _unknown_column(config, view, column))
    for name in config.views:
        if name not in used_views:
            yield Problem(("views", name), "is used by no feature; remove it, or make a feature from it")


def _without_strings(text: str) -> str:
    return re.sub(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", "''", text)


def _lambda_parameters(code: str) -> set[str]:
    """``x -> x.a`` and ``(s, t) -> s + t.a``: names that stand for no view."""
    lists = re.findall(r"(\w+|\([\w\s,]*\))\s*->", code)
    return {name for names in lists for name in re.findall(r"\w+", names)}


def _case(config: JobConfig) -> Iterator[Problem]:
    """Spark ignores case, so two names that differ in nothing else are one column."""
    labels = [
        (column, ("labels", name)) for name, label in config.labels.items() for column in (name, *_masks(name, label))
    ]
    samples = [(name, ()) for name in RESERVED_FEATURES]
    yield from _meeting([*samples, *labels, *[(name, ("features", name)) for name in config.features]])
    built_in = [(name, ()) for name in ("impression", *IMPRESSION_COLUMNS)]
    columns = [(name, ("impressions", "columns", name)) for name in config.impressions.columns]
    yield from _meeting([*built_in, *columns, *labels, *[(name, ("views", name)) for name in config.views]])
    for name, view in config.views.items():
        counted = view.daily_counts.column_names if view.daily_counts is not None else []
        yield from _meeting([(column, ("views", name, "daily_counts")) for column in counted])


def _meeting(names: Iterable[tuple[str, tuple[str, ...]]]) -> Iterator[Problem]:
    first: dict[str, str] = {}
    for name, where in names:
        other = first.setdefault(name.casefold(), name)
        if name != other:
            yield Problem(where, f"{name!r} and {other!r} differ only in case, which Spark ignores; rename one")


def _unknown_column(config: JobConfig, view: str, column: str) -> Iterator[str]:
    if view == "impression":
        valid = [*IMPRESSION_COLUMNS, *config.impressions.columns]
        if column not in valid:
            yield f"impressions have no column {column!r}{nearest(column, valid)}"
        return
    if view not in config.views:
        yield f"there is no view {view!r}{nearest(view, [*config.views, 'impression'])}"
        return
    counted = config.views[view].daily_counts
    if counted is not None:
        valid = [*counted.column_names, *VIEW_METADATA]
        if column not in valid:
            yield f"view {view!r} has no column {column!r}{nearest(column, valid)}"
