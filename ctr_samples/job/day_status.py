"""The status of each day of a sample set: published, refused, damaged or missing. Reads only manifests, without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from pydantic import ValidationError

from ctr_samples.config import JobConfig
from ctr_samples.config.document import filled
from ctr_samples.errors import DamagedFile, InputError, StorageError
from ctr_samples.periods import WHOLE, Hour, Period, grain_of, newest_complete, periods_between, span_of, zone_of
from ctr_samples.shards import Manifest, Storage, days_of, latest_manifest
from ctr_samples.shards.published import refused_run

_AT_ONCE = 8
"""Number of manifests read in parallel. Most of the time is spent waiting for the storage."""


@dataclass(frozen=True, slots=True)
class DayStatus:
    """The status of a day: the published manifest, any run refused since, and any damage to the newest manifest."""

    day: Period
    manifest: Manifest | None = None
    refused: str | None = None
    """Run refused since the newest published run, or None."""
    damage: str = ""
    stale: tuple[str, ...] = ()
    """Reasons why a run would publish a new generation, if requested."""
    due: bool = False
    """Whether ``generate --due`` builds the day."""

    @property
    def sentence(self) -> str:
        """The status in words."""
        if self.damage:
            return f"damaged: {self.damage}"
        if self.manifest is None:
            return ("refused" if self.refused else "missing") + (", due" if self.due else "")
        parts = [
            "published",
            "" if self.manifest.label_mature else "labels not final",
            "due" if self.due else "",
            "a later run was refused" if self.refused else "",
            f"stale: {', '.join(self.stale)}" if self.stale else "",
        ]
        return ", ".join(filter(None, parts))


def statuses(
    storage: Storage, first: Period | None, last: Period | None, newest: int | None = None
) -> Iterator[DayStatus]:
    """Yield all days from ``first`` to ``last``, which default to the first and last directory.

    With ``newest``, yields at most that many days. For hourly samples yields all hours, for a whole log its single
    period. Raises InputError if there are no samples.
    """
    days = days_of(storage)
    if not days and (first is None or last is None):
        raise InputError(f"{storage.url} holds no samples; expected an output directory of `ctr-samples generate`.")
    if days == [WHOLE]:
        yield _status(storage, WHOLE)
        return
    there = set(days)
    periods = periods_between(first or days[0], last or days[-1], _timezone(storage, days))
    for day in periods if newest is None else periods[-newest:]:
        yield _status(storage, day) if day in there else DayStatus(day)


def due_days(storage: Storage, config: JobConfig, now: datetime) -> list[Period]:
    """Return the days that ``generate --due`` builds, in order: see :func:`is_due`."""
    days = {*days_of(storage), newest_complete(config.grain, config.timezone, now)}
    with ThreadPoolExecutor(_AT_ONCE, "manifest") as threads:
        found = threads.map(partial(_status, storage), sorted(days, key=str))
        return [status.day for status in found if is_due(status, config, now)]


def is_due(status: DayStatus, config: JobConfig, now: datetime) -> bool:
    """Whether a day is the newest complete day and unpublished, or its label windows closed after it was published.

    Rolled-back and damaged days require a manual decision.
    """
    if status.damage or grain_of(status.day) != config.grain:
        return False
    if status.manifest is None:
        return status.day == newest_complete(config.grain, config.timezone, now)
    if status.manifest.label_mature or status.manifest.rollback is not None:
        return False
    span = span_of(status.day, config.timezone)
    return span is not None and now >= span[1] + config.matures_after


def config_of_newest(days: Iterable[DayStatus]) -> JobConfig | None:
    """Return the configuration of the last manifest, without the run's environment, or None if there is no manifest."""
    for day in reversed(list(days)):
        if day.manifest is not None:
            with suppress(ValidationError):
                return JobConfig.model_validate(filled(dict(day.manifest.config), lambda name, _: f"${{{name}}}"))
            return None
    return None


def _timezone(storage: Storage, days: Sequence[Period]) -> str:
    """Return the time zone that defines the hours, from the newest readable manifest. Days need no time zone."""
    if isinstance(next(iter(days), None), Hour):
        for day in reversed(days):
            manifest = _status(storage, day).manifest
            if manifest is not None:
                return zone_of(manifest.config)
    return "UTC"


def _status(storage: Storage, day: Period) -> DayStatus:
    try:
        manifest = latest_manifest(storage, day)
        return DayStatus(day, manifest, refused_run(storage, day, manifest.run_id if manifest else ""))
    except (DamagedFile, StorageError) as error:
        return DayStatus(day, damage=str(error))
