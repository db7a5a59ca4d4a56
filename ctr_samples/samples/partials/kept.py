"""The partials of one run: those that are there, and those that it makes before it plans."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import partial as bound
from math import ceil
from threading import Lock
from typing import Any, Protocol, Self

from pyspark.sql import functions as F

from ctr_samples import __version__
from ctr_samples.config import DailyCountView, JobConfig, TextSource, WindowView
from ctr_samples.errors import DamagedFile, StorageError
from ctr_samples.periods import Period, calendar_day
from ctr_samples.samples.inputs.malformed import check_lines
from ctr_samples.samples.inputs.sources import FilesByDay, fingerprint_of
from ctr_samples.samples.inputs.watched import Inputs, KeptSteps, forward_reach
from ctr_samples.samples.labels import impression_reach, plan_labels
from ctr_samples.samples.partials.reading import needed_files, read_steps
from ctr_samples.samples.partials.resolution import days_step_by_step, steps_of_a_day
from ctr_samples.samples.partials.writing import write_steps
from ctr_samples.samples.period import Day
from ctr_samples.samples.views.aggregates import Counting
from ctr_samples.samples.views.rows import view_steps
from ctr_samples.samples.watches.all import Watches
from ctr_samples.samples.watches.times import check_clocks
from ctr_samples.shards import Storage, open_storage
from ctr_samples.shards.naming import run_id
from ctr_samples.shards.partials import (
    Partial,
    day_of_partial,
    find_partials,
    kept_days,
    marker_of,
    publish_partial,
    remove_day,
    unneeded,
)
from ctr_samples.sparksql.columns import time_column
from ctr_samples.sparksql.observations import Observations

_EVER = Day(None, None)
_AT_ONCE = 2
_BYTES_OF_A_FILE = 128 * 2**20
"""Of a log, whose steps go into one file."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Telling(Protocol):
    """What is told of the work; see ``job/reporting.py``."""

    def stage(self, text: str) -> None:
        """A stage begins."""

    def warn(self, text: str) -> None:
        """Something is wrong, but the run goes on."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """The partials of one view, of all days that are over and have a log."""

    view: str
    definition: str
    partials: tuple[Partial, ...]
    made: int


@dataclass(frozen=True, slots=True)
class Partials:
    """What a run counts from partial results, and so need not read. Lives on the driver."""

    storage: Storage | None
    config: JobConfig
    run_date: Period
    views: tuple[_Kept, ...]

    @classmethod
    def prepare(cls, inputs: Inputs, run_date: Period, telling: Telling) -> Self:
        """Find the partials that a run needs, and make those that are missing, each by a Spark job over one day of a log.

        Without ``state`` in the configuration, and of the whole log, nothing is kept. Raises the errors of the inputs, and
        StorageError.
        """
        config = inputs.config
        if config.state is None or calendar_day(run_date) is None:
            return cls(None, config, run_date, ())
        storage = open_storage(config.state.path)
        names = [name for name in config.views if is_kept(inputs, name)]
        views = tuple(_prepared(storage, inputs, name, run_date, telling) for name in names)
        return cls(storage, config, run_date, views)

    def applied(self, inputs: Inputs) -> Inputs:
        """The inputs of a run that reads its partials, and of the logs only what these do not have."""
        kept = {one.view: self._steps(inputs, one) for one in self.views}
        sources = {inputs.config.views[one.view].source for one in self.views}
        near = {source: self._near(inputs, source) for source in sources}
        return replace(inputs, kept=kept, near=near)

    def described(self) -> Iterator[str]:
        """What was counted from partial results, in words, a line for each view."""
        for one in self.views:
            made = f"; this run made those of {one.made}" if one.made else ""
            yield f"{one.view} is counted from partial results of {len(one.partials)} day(s){made}"

    def clean(self, now: datetime, warn: Callable[[str], None]) -> None:
        """Remove what no run needs any more. ``warn`` gets the message if the store does not permit it."""
        own = calendar_day(self.run_date)
        if self.storage is None or self.config.state is None or own is None:
            return
        keep, oldest = self.config.state.keep, {}
        for one in self.views:
            days = self.config.sources[self.config.views[one.view].source].days_before
            oldest[one.view, one.definition] = own - timedelta(days=days) - keep
        try:
            for day in unneeded(kept_days(self.storage), oldest, now, keep):
                remove_day(self.storage, day)
        except StorageError as error:
            warn(f"Could not remove old partial results: {error}")

    def _steps(self, inputs: Inputs, one: _Kept) -> KeptSteps:
        view, zone = inputs.config.views[one.view], inputs.config.timezone
        assert isinstance(view, WindowView | DailyCountView)
        assert self.storage is not None
        per_day, in_full = steps_of_a_day(Counting.of(view)), days_step_by_step(view, inputs.day, zone)
        files = needed_files(one.partials, in_full, per_day)
        source = inputs.plain(view.source)
        schema = view_steps(source, one.view, view).schema
        rows = read_steps(source.sparkSession, self.storage, files, in_full, per_day, schema)
        done = set(finished(inputs, one.view, self.run_date))
        return KeptSteps(rows, tuple(day for day in _by_day(inputs, view.source).files if day not in done))

    def _near(self, inputs: Inputs, source: str) -> Collection[date]:
        """The days whose logs have impressions, or actions of labels, that may matter to the run."""
        start, end = inputs.day.start, inputs.day.end
        assert start is not None
        assert end is not None
        reach = impression_reach(inputs.config)
        first, last = _micros(start - reach), _micros(end + max(reach, forward_reach(inputs.config, source)))
        times = {
            partial.day: partial.times
            for one in self.views
            if inputs.config.views[one.view].source == source
            for partial in one.partials
        }
        far = {day for day, spans in times.items() if all(to < first or since > last for since, to in spans.values())}
        return [day for day in _by_day(inputs, source).files if str(day) not in far]


def is_kept(inputs: Inputs, name: str) -> bool:
    """Whether partial results of a view can be kept: it is counted from files whose path names the day."""
    view = inputs.config.views[name]
    return view.counted is not None and inputs.sources[view.source].by_day is not None


def finished(inputs: Inputs, name: str, run_date: Period) -> list[date]:
    """The days of a view's source that are over when the run begins, and have a log; the run's own, if it makes a day."""
    own = calendar_day(run_date)
    assert own is not None
    last = own if isinstance(run_date, date) else own - timedelta(days=1)
    return [day for day in _by_day(inputs, inputs.config.views[name].source).files if day <= last]


def where_counted(inputs: Inputs, name: str, run_date: Period) -> str | None:
    """Where a run would take what a view counts from, in words; None for a view of which nothing is kept."""
    state = inputs.config.state
    if state is None or calendar_day(run_date) is None or not is_kept(inputs, name):
        return None
    wanted = _wanted(inputs, name, run_date)
    there, _ = _there(open_storage(state.path), name, definition_of(inputs, name), wanted)
    made = max((partial.created_at for partial in there.values()), default=None)
    last = f", the last made {made}" if made else ""
    return f"{len(there)} of {len(wanted)} finished day(s) from partial results in {state.path}{last}; the others from the log"


def _prepared(storage: Storage, inputs: Inputs, name: str, run_date: Period, telling: Telling) -> _Kept:
    """The partials of a view; those that are missing are made, and by one thread only if several days are made at once."""
    definition, wanted = definition_of(inputs, name), _wanted(inputs, name, run_date)
    with _MAKING[storage.url, name, definition], ThreadPoolExecutor(_AT_ONCE, "partial") as threads:
        there, damaged = _there(storage, name, definition, wanted)
        for day, error in damaged.items():
            telling.warn(str(error))
            storage.delete(marker_of(name, definition, str(day), wanted[day]))
        missing = [day for day in wanted if day not in there]
        make = bound(_make, storage, inputs, name, definition)
        making = [threads.submit(copy_context().run, make, day, wanted[day]) for day in missing]
        try:
            for number, (day, made) in enumerate(zip(missing, making, strict=True), 1):
                telling.stage(f"counting {name} of {day} ({number} of {len(missing)})")
                there[day] = made.result()
        except BaseException:
            for waiting in making:
                waiting.cancel()
            raise
    return _Kept(name, definition, tuple(there[day] for day in wanted), len(missing))


_MAKING: defaultdict[tuple[str, str, str], Lock] = defaultdict(Lock)
"""Held while partials are made: days that are made at once need the same ones."""


def _wanted(inputs: Inputs, name: str, run_date: Period) -> dict[date, str]:
    """The days whose partials a run needs, each with the hash of its log files."""
    files = _by_day(inputs, inputs.config.views[name].source).files
    return {day: fingerprint_of(files[day]) for day in finished(inputs, name, run_date)}


def _there(
    storage: Storage, name: str, definition: str, wanted: Mapping[date, str]
) -> tuple[dict[date, Partial], dict[date, DamagedFile]]:
    """The partials that are there, and those that are damaged."""
    texts = {str(day): fingerprint for day, fingerprint in wanted.items()}
    found = {date.fromisoformat(day): one for day, one in find_partials(storage, name, definition, texts)}
    damaged = {day: one for day, one in found.items() if isinstance(one, DamagedFile)}
    return {day: one for day, one in found.items() if isinstance(one, Partial)}, damaged


def _make(storage: Storage, inputs: Inputs, name: str, definition: str, day: date, fingerprint: str) -> Partial:
    """Count a day and publish its partial. Its lines and times are checked as those of a run are."""
    config, view = inputs.config, inputs.config.views[name]
    assert isinstance(view, WindowView | DailyCountView)
    source, by_day = config.sources[view.source], _by_day(inputs, view.source)
    watches, times = Watches.of(config, _EVER), Observations()
    of_day = replace(inputs, day=_EVER, watches=watches, near={}, kept={})
    rows = of_day.watched(view.source, "views", days=[day])
    if uses := _times(config, view.source):
        moments = {use: F.unix_micros(time_column(rows, text, use)) for use, text in uses.items()}
        spans = {f"{use} {end}": of(moment) for use, moment in moments.items() for end, of in _ENDS.items()}
        rows = times.on(rows, spans)
    now = datetime.now(UTC)
    this_run = run_id(now, secrets.token_hex(4))
    directory = f"{day_of_partial(name, definition, str(day))}/{this_run}"
    count = ceil(sum(file.bytes for file in by_day.files[day]) / _BYTES_OF_A_FILE)
    steps = view_steps(rows, name, view)
    files = write_steps(steps, storage, directory, steps_of_a_day(Counting.of(view)), count)
    if isinstance(source, TextSource):
        frame = replace(inputs.sources[view.source], frame=by_day.rows_of([day]))
        check_lines(view.source, watches.lines[view.source].result(), source, frame)
    check_clocks(config, watches.clocks.result())
    seen = times.counts()
    partial = Partial(
        name,
        definition,
        str(day),
        fingerprint,
        this_run,
        now.isoformat(timespec="seconds"),
        __version__,
        files,
        {use: (seen[f"{use} first"], seen[f"{use} last"]) for use in uses if f"{use} first" in seen},
    )
    return publish_partial(storage, partial)


_ENDS = {"first": F.min, "last": F.max}


def definition_of(inputs: Inputs, name: str) -> str:
    """A hash of all that decides what a partial of a view holds, but the log itself. Windows and rates are not among it."""
    config, view = inputs.config, inputs.config.views[name]
    assert isinstance(view, WindowView | DailyCountView)
    source = config.sources[view.source]
    reading = source.model_dump(
        mode="json", by_alias=True, exclude={"days_before", "days_after", "optional", "bad_records"}
    )
    counting = view.model_dump(mode="json", by_alias=True, include={"where", "key", "article_key", "event_time"})
    counted = view.counted
    assert counted is not None
    counting["counted"] = counted.model_dump(mode="json", exclude={"windows", "days", "rates"})
    schema = view_steps(inputs.plain(view.source), name, view).schema.json()
    parts: list[Any] = [reading, counting, config.timezone, _times(config, view.source), schema, __version__]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def _times(config: JobConfig, source: str) -> Mapping[str, str]:
    """The times by which impressions, and the actions of labels, lie near a run or not, by use."""
    shown = config.impressions
    uses = {"impressions": shown.time} if shown.source == source else {}
    return uses | {f"labels.{plan.name}": plan.time for plan in plan_labels(config) if plan.label.source == source}


def _by_day(inputs: Inputs, source: str) -> FilesByDay:
    by_day = inputs.sources[source].by_day
    assert by_day is not None
    return by_day


def _micros(instant: datetime) -> int:
    return (instant - _EPOCH) // timedelta(microseconds=1)
