"""Checks of what depends on a run's period: options of one grain, and the days that the sources must read."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from ctr_samples.config.counting import Aggregates
from ctr_samples.config.job import JobConfig
from ctr_samples.config.label import actions_among
from ctr_samples.config.problems import Problem
from ctr_samples.config.source import FileSource
from ctr_samples.config.units import format_duration
from ctr_samples.config.view import AgingView, CountingView, DailyCountView, SnapshotView, View, WindowView

_CLOCK = re.compile(r"[0-9]{2}:[0-9]{2}")


def grain_problems(config: JobConfig) -> Iterator[Problem]:
    """Yield the keys that do not fit ``grain``, and sources that read too few days around the run date."""
    yield from _sources(config)
    yield from _eval_from(config)
    if config.fitted is not None and config.grain == "all":
        what = "is fitted on days before those of the samples, and with `grain: all` there are none; remove it"
        yield Problem(("fitted",), what)
    yield from _days_after(config)
    yield from _days_of_skew(config)
    for name, view in config.views.items():
        if config.reads_days(view.source):
            yield from _days_before(name, view, config)
            if isinstance(view, CountingView):
                yield from _days_of_looked_up(name, view, config)
    yield from _days_of_histories(config)


def _sources(config: JobConfig) -> Iterator[Problem]:
    for name, source in config.sources.items():
        if config.grain == "all" and source.is_dated:
            for key in ("days_before", "days_after"):
                if getattr(source, key):
                    what = "has no effect with `grain: all`, which reads every day that is there; remove it"
                    yield Problem(("sources", name, key), what)
        if config.grain != "hour" and isinstance(source, FileSource) and source.is_hourly:
            what = f"found {source.path!r}; `{{hour}}` needs `grain: hour`"
            yield Problem(("sources", name, "path"), what)
        if source.unique and isinstance(source, FileSource) and source.is_hourly:
            what = (
                "compares the logs of whole days; with `{hour}` in `path` there are none. Name the directory of the day"
            )
            yield Problem(("sources", name, "unique"), what)


def _eval_from(config: JobConfig) -> Iterator[Problem]:
    where, text = ("split", "eval_from"), config.split.eval_from
    if text is None:
        return
    is_clock = _CLOCK.fullmatch(text) is not None
    if config.grain == "hour":
        what = "splits a day or the whole log by time, but with `grain: hour` a run makes an hour; split by a hash"
        yield Problem(("split", "by"), what)
    elif config.grain == "day" and not is_clock:
        yield Problem(where, f"found {text!r}, expected a time of the day such as '20:00', since `grain` is day")
    elif config.grain == "all" and (is_clock or not _is_moment(text)):
        what = (
            f"found {text!r}, expected a day or a time such as '2019-06-05' or '2019-06-05T20:00', since `grain` is all"
        )
        yield Problem(where, what)


def _is_moment(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _days_after(config: JobConfig) -> Iterator[Problem]:
    """Check that ``days_after`` covers actions, and their last impressions, that fall on a later day."""
    shown = config.impressions.source
    for name, source in config.sources.items():
        windows = [label.window for label in actions_among(config.labels).values() if name in (label.source, shown)]
        window = max(windows, default=timedelta())
        needed = _whole_days(window)
        if config.reads_days(name) and needed > source.days_after:
            what = (
                f"found {source.days_after}, but within `window: {format_duration(window)}` an action, or the last impression "
                f"before it, may lie up to {needed} day(s) after the run date"
            )
            yield Problem(("sources", name, "days_after"), f"{what}; set `sources.{name}.days_after: {needed}`")


def _days_of_skew(config: JobConfig) -> Iterator[Problem]:
    """Check that ``days_before`` covers clock skew: an action may precede its impression and fall on the day before."""
    for label_name, label in actions_among(config.labels).items():
        needed = _whole_days(label.skew)
        for name in dict.fromkeys((label.source, config.impressions.source)):
            source = config.sources[name]
            if config.reads_days(name) and needed > source.days_before:
                what = (
                    f"found {source.days_before}, but with `labels.{label_name}.skew: {format_duration(label.skew)}` an action "
                    f"may come before the midnight that begins the run date; set `sources.{name}.days_before: {needed}`"
                )
                yield Problem(("sources", name, "days_before"), what)


def _whole_days(span: timedelta) -> int:
    return math.ceil(span / timedelta(days=1))


def _days_before(name: str, view: View, config: JobConfig) -> Iterator[Problem]:
    """Check ``days_before``. Unread days would count as empty, and their rows as missing."""
    read = config.sources[view.source].days_before
    reach = _reach(view, read, config.timezone)
    if reach is not None and reach.needed > read:
        what = f"{reach.found}, which needs {reach.needed} day(s) before the run date, but {read} are read"
        hint = f"set `sources.{view.source}.days_before: {reach.needed}`{reach.instead}"
        yield Problem(("views", name, *reach.key), f"{what}; {hint}")


def _days_of_looked_up(name: str, view: CountingView, config: JobConfig) -> Iterator[Problem]:
    """Check that the first action that is counted can see all rows of the views that it looks up."""
    read = config.sources[view.source].days_before
    for other in view.look_up:
        found = config.views.get(other)
        if found is None or found.max_age is None or not config.reads_days(found.source):
            continue
        needed = read + _whole_days(found.max_age) + isinstance(found, SnapshotView)
        if needed > config.sources[found.source].days_before:
            what = (
                f"actions of {read} day(s) before the run date look up rows of {other!r} with "
                f"`ttl: {format_duration(found.max_age)}`, which needs {needed} day(s) before it, but "
                f"{config.sources[found.source].days_before} are read; set `sources.{found.source}.days_before: {needed}`"
            )
            yield Problem(("views", name, "look_up"), what)


class _Reach(NamedTuple):
    """The time before the run date that a view needs, with the key that requires it and an alternative."""

    back: timedelta
    key: tuple[str, ...]
    found: str
    instead: str

    @property
    def needed(self) -> int:
        """Days before the run date."""
        return _whole_days(self.back)


def reach_of(config: JobConfig, name: str) -> tuple[timedelta, timedelta]:
    """Return how long before a day begins and after it ends the rows of a source matter, as far as a key says so."""
    shown = config.impressions.source
    labels = [label for label in actions_among(config.labels).values() if name in (label.source, shown)]
    views = [_reach(view, 0, config.timezone) for view in config.views.values() if view.source == name]
    lists = [history.within for history in config.histories.values() if history.source == name]
    before = [*[label.skew for label in labels], *[view.back for view in views if view], *filter(None, lists)]
    return max(before, default=timedelta()), max((label.window for label in labels), default=timedelta())


def _reach(view: View, read: int, timezone: str) -> _Reach | None:
    match view:
        case DailyCountView():
            delay = f" with `available_after: {format_duration(view.delay)}`" if view.delay else ""
            back = timedelta(days=view.daily_counts.days) + view.delay
            found = f"found {view.daily_counts.days}{delay}"
            return _Reach(back, ("daily_counts", "days"), found, ", or fewer `days`")
        case WindowView():
            longest = view.aggregates.longest
            back = longest + _since_last_step(view.aggregates, view.delay, timezone)
            found = f"found {format_duration(longest)}"
            return _Reach(back, ("aggregates", "windows"), found, ", or shorter windows")
        case AgingView() if view.ttl is not None:
            daily = isinstance(view, SnapshotView)  # A snapshot's day ends a day after it begins.
            shorter = view.model_copy(update={"ttl": timedelta(days=read - daily)})
            instead = "" if shorter.too_short(daily) else ", or a shorter `ttl`"
            return _Reach(view.ttl + timedelta(days=daily), ("ttl",), f"found {format_duration(view.ttl)}", instead)
    return None


def _since_last_step(aggregates: Aggregates, delay: timedelta, timezone: str) -> timedelta:
    """Return the longest possible time from the end of the last known step to the start of a day."""
    lag = math.ceil(delay / aggregates.step) * aggregates.step
    zone, seasons = ZoneInfo(timezone), (datetime(2020, 1, 1), datetime(2020, 7, 1))
    offsets = [zone.utcoffset(when) or timedelta() for when in seasons]
    # Steps shorter than a day are counted from midnight in UTC.
    aligned = aggregates.step == timedelta(days=1) or not any(offset % aggregates.step for offset in offsets)
    return lag if aligned else lag + aggregates.step


def _days_of_histories(config: JobConfig) -> Iterator[Problem]:
    """Check that ``days_before`` covers ``within``."""
    for name, history in config.histories.items():
        if config.reads_days(history.source) and history.within is not None:
            needed, read = _whole_days(history.within), config.sources[history.source].days_before
            if needed > read:
                what = f"found {format_duration(history.within)}, which needs {needed} day(s) before the run date"
                hint = f"set `sources.{history.source}.days_before: {needed}`, or a shorter `within`"
                yield Problem(("histories", name, "within"), f"{what}, but {read} are read; {hint}")
