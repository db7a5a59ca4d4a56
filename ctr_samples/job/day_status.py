"""How each day of a sample set stands: published, refused, damaged or missing. Reads manifests only, and needs no Spark."""

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
"""Manifests that are read at once: most of the time goes into waiting for the store."""


@dataclass(frozen=True, slots=True)
class DayStatus:
    """A day: what readers see of it, whether a run was refused since, and what is wrong with its newest manifest."""

    day: Period
    manifest: Manifest | None = None
    refused: str | None = None
    """The run that was refused since the newest published one, if any."""
    damage: str = ""
    stale: tuple[str, ...] = ()
    """Why a run would publish another generation, where that was asked."""
    due: bool = False
    """Whether ``generate --due`` makes it."""

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
    """All days from the first to the last, by default of the first and the last directory; InputError without any.

    At most the ``newest`` ones, if that is given.
    Of samples that are made by the hour all hours, of those of a whole log the one period.
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
    """What ``generate --due`` makes, in order: see :func:`is_due`."""
    days = {*days_of(storage), newest_complete(config.grain, config.timezone, now)}
    with ThreadPoolExecutor(_AT_ONCE, "manifest") as threads:
        found = threads.map(partial(_status, storage), sorted(days, key=str))
        return [status.day for status in found if is_due(status, config, now)]


def is_due(status: DayStatus, config: JobConfig, now: datetime) -> bool:
    """Whether a day is the newest that is over and not published, or published, and its label windows have closed since.

    One that was rolled back is left as a person wanted it, and a damaged one to a person.
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
    """The configuration in the last manifest, as far as the environment of its run is not needed; None without any."""
    for day in reversed(list(days)):
        if day.manifest is not None:
            with suppress(ValidationError):
                return JobConfig.model_validate(filled(dict(day.manifest.config), lambda name, _: f"${{{name}}}"))
            return None
    return None


def _timezone(storage: Storage, days: Sequence[Period]) -> str:
    """The zone whose clocks name the hours, as the newest manifest that can be read has it; days need none."""
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
