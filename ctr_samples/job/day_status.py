"""How each day of a sample set stands: published, refused, damaged or missing. Reads manifests only, and needs no Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from ctr_samples.errors import DamagedFile, InputError, StorageError
from ctr_samples.periods import WHOLE, Hour, Period, periods_between
from ctr_samples.shards import Manifest, Storage, days_of, latest_manifest
from ctr_samples.shards.refused import refused_run


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

    @property
    def sentence(self) -> str:
        """The status in words."""
        if self.damage:
            return f"damaged: {self.damage}"
        if self.manifest is None:
            return "refused" if self.refused else "missing"
        parts = [
            "published",
            "" if self.manifest.label_mature else "labels not final",
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


def _timezone(storage: Storage, days: Sequence[Period]) -> str:
    """The zone whose clocks name the hours, as the newest manifest that can be read has it; days need none."""
    if isinstance(next(iter(days), None), Hour):
        for day in reversed(days):
            manifest = _status(storage, day).manifest
            with suppress(LookupError, ValueError, OSError):  # it may stand in the environment: ${NAME}
                if manifest is not None:
                    return ZoneInfo(str(manifest.config["timezone"])).key
    return "UTC"


def _status(storage: Storage, day: Period) -> DayStatus:
    try:
        manifest = latest_manifest(storage, day)
        return DayStatus(day, manifest, refused_run(storage, day, manifest.run_id if manifest else ""))
    except (DamagedFile, StorageError) as error:
        return DayStatus(day, damage=str(error))
