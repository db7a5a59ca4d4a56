"""How each day of a sample set stands: published, refused, damaged or missing. Reads manifests only, and needs no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

from ctr_samples.errors import DamagedFile, InputError
from ctr_samples.shards import Manifest, Storage, days_of, latest_manifest
from ctr_samples.shards.naming import days_between
from ctr_samples.shards.refused import refused_run


@dataclass(frozen=True, slots=True)
class DayStatus:
    """A day: what readers see of it, whether a run was refused since, and what is wrong with its newest manifest."""

    day: date
    manifest: Manifest | None = None
    refused: bool = False
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


def statuses(storage: Storage, first: date | None, last: date | None) -> Iterator[DayStatus]:
    """All days from the first to the last, by default of the first and the last directory; InputError without any."""
    days = days_of(storage)
    if not days and (first is None or last is None):
        raise InputError(f"{storage.url} holds no samples; expected an output directory of `ctr-samples generate`.")
    there = set(days)
    for day in days_between(first or days[0], last or days[-1]):
        yield _status(storage, day) if day in there else DayStatus(day)


def _status(storage: Storage, day: date) -> DayStatus:
    try:
        manifest = latest_manifest(storage, day)
    except DamagedFile as error:
        return DayStatus(day, damage=str(error))
    refused = refused_run(storage, day, manifest.run_id if manifest else "") is not None
    return DayStatus(day, manifest, refused)
