"""The partials of one run: existing partials, and partials built before planning."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import astuple, dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import partial as bound
from math import ceil
from threading import Lock
from typing import Any, Self

from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ctr_samples import __version__
from ctr_samples.config import DailyCountView, EventView, JobConfig, WindowView
from ctr_samples.errors import DamagedPartial, StorageError
from ctr_samples.periods import Period, calendar_day, in_zone
from ctr_samples.samples.features.row import view_columns
from ctr_samples.samples.inputs.listing import fingerprint_of
from ctr_samples.samples.inputs.malformed import LineCounts
from ctr_samples.samples.inputs.watched import Inputs, KeptRows, forward_reach, lines_of
from ctr_samples.samples.labels.plans import impression_reach, plan_labels
from ctr_samples.samples.partials.steps import CountedView, KeptHistory, KeptTable, PartialWriter
from ctr_samples.shards import Storage, open_storage
from ctr_samples.shards.manifest import RELEASE
from ctr_samples.shards.naming import run_id
from ctr_samples.shards.partials import (
    PARTIAL_FORMAT,
    Partial,
    day_of_partial,
    find_partials,
    kept_days,
    marker_of,
    publish_partial,
    remove_day,
    unneeded,
)
from ctr_samples.sparksql.columns import micros_at, time_column
from ctr_samples.sparksql.observations import Reporter

_AT_ONCE = 2
_BYTES_OF_A_TASK = 512 * 2**20
"""Log bytes per task that writes a partial. Each task writes about 10 MB, so that few files accumulate over the days."""


Keepable = CountedView | KeptHistory | KeptTable
"""A view or history, and the contents of its partials."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """The partials of one view or history, for all usable days with a log."""

    what: Keepable
    definition: str
    partials: tuple[Partial, ...]
    made: int


@dataclass(frozen=True, slots=True)
class Partials:
    """Partial results that replace log data in a run. Lives on the driver."""

    storage: Storage | None
    config: JobConfig
    period: Period
    kept: tuple[_Kept, ...]

    @classmethod
    def prepare(cls, inputs: Inputs, period: Period, telling: Reporter, *, build: bool = True) -> Self:
        """Find the partials that a run needs, and build the missing partials, each with a Spark job over one day of a log.

        A run without view joins needs to ``build`` none. Existing partials still show which days of the logs need not be
        read for impressions and labels. Keeps nothing if the configuration has no ``partials``, or for a run of the whole
        log. Raises the errors of the inputs, and StorageError.
        """
        config = inputs.config
        if config.partials is None or calendar_day(period) is None:
            return cls(None, config, period, ())
        storage = open_storage(config.partials.path)
        kept = [_kept(storage, inputs, what, period, telling if build else None) for what in keepable(inputs)]
        return cls(storage, config, period, tuple(kept))

    def applied(self, inputs: Inputs) -> Inputs:
        """Return inputs that read the partials, and only the remaining parts of the logs."""
        if self.storage is None:
            return inputs
        kept = {one.what.name: _rows(inputs, self.storage, one) for one in self.kept}
        near = {source: self._near(inputs, source) for source in {one.what.source for one in self.kept}}
        return replace(inputs, kept=kept, near=near)

    def described(self) -> Iterator[str]:
        """Yield a line about the partial results used for each view and history."""
        for one in self.kept:
            made = f"; this run made those of {one.made}" if one.made else ""
            yield f"{one.what.name} is {one.what.done} from partial results of {len(one.partials)} day(s){made}"

    def clean(self, now: datetime, warn: Callable[[str], None]) -> None:
        """Remove partials that no run needs. Calls ``warn`` with a message if the storage refuses."""
        own = calendar_day(self.period)
        if self.storage is None or self.config.partials is None or own is None:
            return
        keep, oldest = self.config.partials.keep, {}
        for one in self.kept:
            days = self.config.sources[one.what.source].days_before
            oldest[one.what.name, one.definition] = own - timedelta(days=days) - keep
        try:
            for day in unneeded(kept_days(self.storage), oldest, now, keep):
                remove_day(self.storage, day)
        except StorageError as error:
            warn(f"Could not remove old partial results: {error}")

    def _near(self, inputs: Inputs, source: str) -> Collection[date]:
        """Return the days whose logs contain impressions, or actions of labels, that may matter to the run."""
        (start, end), reach = inputs.span.bounds, impression_reach(inputs.config, inputs.span)
        first, last = micros_at(start - reach.before), micros_at(end + forward_reach(inputs.config, source))
        times = {
            partial.day: partial.times for one in self.kept if one.what.source == source for partial in one.partials
        }
        far = {day for day, spans in times.items() if all(to < first or since > last for since, to in spans.values())}
        around = inputs.days_around(source)
        return [day for day in inputs.days_of_log(source) if day in around or str(day) not in far]


def _rows(inputs: Inputs, storage: Storage, one: _Kept) -> KeptRows:
    rows = one.what.read(inputs, storage, one.partials)
    counts = {date.fromisoformat(partial.day): partial.counts for partial in one.partials}
    later = tuple(day for day in inputs.sources[one.what.source].of_days.files if day not in counts)
    return KeptRows(rows, later, counts)


def keepable(inputs: Inputs) -> list[Keepable]:
    """Return the views and histories that can keep partials: their source has files with the day in the path."""
    config = inputs.config
    dated = {name for name, source in inputs.sources.items() if source.by_day is not None}
    views = {name: view for name, view in config.views.items() if view.source in dated and view.keeps_days}
    every: list[Keepable] = []
    for name, view in views.items():
        if isinstance(view, WindowView | DailyCountView):
            every.append(CountedView(name, view.source, view))
        elif isinstance(view, EventView):
            columns = view_columns(inputs.spark, config, inputs.columns_of)[name]
            every.append(KeptTable(name, view.source, view, tuple(columns)))
    return [
        *every,
        *[KeptHistory.of(config, name) for name in config.histories if config.histories[name].source in dated],
    ]


def where_kept(inputs: Inputs, name: str, period: Period) -> str | None:
    """Describe the origin of a view's or history's data in a run, or return None if it keeps no partials."""
    partials = inputs.config.partials
    if partials is None or calendar_day(period) is None:
        return None
    what = next((what for what in keepable(inputs) if what.name == name), None)
    if what is None:
        return None
    wanted = _wanted(inputs, what, period)
    there, _ = _there(open_storage(partials.path), name, definition_of(inputs, what), wanted)
    made = max((partial.created_at for partial in there.values()), default=None)
    last = f", the last made {in_zone(made, inputs.config.timezone)}" if made else ""
    taken = f"{len(there)} of {len(wanted)} finished day(s) from partial results in {partials.path}{last}"
    return f"{taken}; the others from the log"


def _kept(storage: Storage, inputs: Inputs, what: Keepable, period: Period, building: Reporter | None) -> _Kept:
    """Return the partials of a view or history. One thread builds the missing ones, if ``building`` is to hear of it."""
    name, definition, wanted = what.name, definition_of(inputs, what), _wanted(inputs, what, period)
    if building is None:
        return _Kept(what, definition, tuple(_there(storage, name, definition, wanted)[0].values()), 0)
    with _MAKING[storage.url, name, definition], ThreadPoolExecutor(_AT_ONCE, "partial") as threads:
        there, damaged = _there(storage, name, definition, wanted)
        for day, error in damaged.items():
            building.warn(str(error))
            storage.delete(marker_of(name, definition, str(day), wanted[day]))
        missing = [day for day in wanted if day not in there]
        make = bound(_make, storage, inputs, what, definition, building)
        making = [threads.submit(copy_context().run, make, day, wanted[day]) for day in missing]
        try:
            for number, (day, made) in enumerate(zip(missing, making, strict=True), 1):
                building.stage(f"keeping {name} of {day} ({number} of {len(missing)})")
                there[day] = made.result()
        except BaseException:
            for waiting in making:
                waiting.cancel()
            raise
    return _Kept(what, definition, tuple(there[day] for day in wanted), len(missing))


_MAKING: defaultdict[tuple[str, str, str], Lock] = defaultdict(Lock)
"""Held while building partials, because concurrent days need the same partials."""


def _wanted(inputs: Inputs, what: Keepable, period: Period) -> dict[date, str]:
    """Return the ended days whose partials a run can use, each with the hash of its log files. None for the whole log."""
    own = calendar_day(period)
    if own is None:
        return {}
    last = own if what.has_own_day and isinstance(period, date) else own - timedelta(days=1)
    by_day = inputs.sources[what.source].of_days
    return {day: fingerprint_of(by_day.made_of(day)) for day in by_day.files if day <= last}


def _there(
    storage: Storage, name: str, definition: str, wanted: Mapping[date, str]
) -> tuple[dict[date, Partial], dict[date, DamagedPartial]]:
    """Return the existing partials and, separately, the damaged partials."""
    texts = {str(day): fingerprint for day, fingerprint in wanted.items()}
    found = {date.fromisoformat(day): one for day, one in find_partials(storage, name, definition, texts)}
    damaged = {day: one for day, one in found.items() if isinstance(one, DamagedPartial)}
    return {day: one for day, one in found.items() if isinstance(one, Partial)}, damaged


def _make(
    storage: Storage, inputs: Inputs, what: Keepable, definition: str, telling: Reporter, day: date, fingerprint: str
) -> Partial:
    """Build and publish the partial of a day, with the counts that a run needs from the day's log.

    If the log has changed since it was listed, only this run uses the partial, because its name would be wrong.
    """
    config, by_day = inputs.config, inputs.sources[what.source].of_days
    of_day = inputs.for_partials()
    observed = of_day.watches.observed
    rows = of_day.watched(what.source, what.use, days=[day])
    if uses := _times(config, what.source):
        moments = {use: F.unix_micros(time_column(rows, text, use)) for use, text in uses.items()}
        spans = {f"{use} {end}": of(moment) for use, moment in moments.items() for end, of in _ENDS.items()}
        rows = observed.on(rows, {"ends": spans})
    now = datetime.now(UTC)
    this_run = run_id(now, secrets.token_hex(4))
    directory = f"{day_of_partial(what.name, definition, str(day))}/{this_run}"
    tasks = ceil(sum(file.bytes for file in by_day.files[day]) / _BYTES_OF_A_TASK)
    files = what.write(rows, PartialWriter(storage, directory, tasks), day, config.timezone)
    counts = {name: astuple(of[day]) for name, of in of_day.clocks().items() if day in of}
    if of_day.counts_lines(what.source):
        counts[lines_of(what.source)] = astuple(of_day.lines(what.source).get(day, LineCounts()))
    seen = observed.counts("ends")
    partial = Partial(
        what.name,
        definition,
        str(day),
        fingerprint,
        this_run,
        now.isoformat(timespec="seconds"),
        __version__,
        files,
        {use: (seen[f"{use} first"], seen[f"{use} last"]) for use in uses if f"{use} first" in seen},
        counts,
    )
    if fingerprint_of(by_day.files_now(day)) != fingerprint:
        telling.warn(
            f"sources.{what.source}: the log of {day} changed while {what.name} was counted; run again to keep the result."
        )
        return partial
    return publish_partial(storage, partial)


_ENDS = {"first": F.min, "last": F.max}


_KEYS_SINCE = {"encoding", "unique", "unique_first"}
"""Keys of sources that 0.1.0 did not have. Where they are not given, its partial results are still those of the log."""


def definition_of(inputs: Inputs, what: Keepable) -> str:
    """Return a hash of everything that determines a partial's contents, except the log itself."""
    config = inputs.config
    source = config.sources[what.source]
    left_out = {"days_before", "days_after", "optional", "bad_records", *(_KEYS_SINCE - source.model_fields_set)}
    reading = source.model_dump(mode="json", by_alias=True, exclude=left_out)
    schema, times = what.cut(inputs.uncounted(what.source)).schema.json(), _times(config, what.source)
    parts: list[Any] = [reading, what.definition(), config.timezone, times, schema, RELEASE, PARTIAL_FORMAT]
    types = _types_named(inputs.sources[what.source].frame.schema, json.dumps(parts, ensure_ascii=False))
    return hashlib.sha256(json.dumps([*parts, types], sort_keys=True).encode()).hexdigest()[:16]


def _types_named(schema: StructType, text: str) -> dict[str, str]:
    """Return the types of columns named in a text. These are all columns that its expressions read, and perhaps more."""
    words = set(re.findall(r"\w+", text.lower()))
    plain = {field.name.lower(): field for field in schema}
    return {
        name: field.dataType.simpleString()
        for name, field in plain.items()
        if (name in words if re.fullmatch(r"\w+", name) else name in text.lower())
    }


def _times(config: JobConfig, source: str) -> Mapping[str, str]:
    """Return the times that determine whether impressions and label actions are near a run, by use."""
    shown = config.impressions
    uses = {"impressions": shown.time} if shown.source == source else {}
    return uses | {f"labels.{plan.name}": plan.time for plan in plan_labels(config) if plan.label.source == source}
