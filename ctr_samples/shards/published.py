"""Find the published samples or table at a path, a chosen generation, and later refused runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ctr_samples.errors import InputError
from ctr_samples.periods import Period
from ctr_samples.shards.generations import numbers
from ctr_samples.shards.manifest import Manifest, Shard
from ctr_samples.shards.naming import REPORT, manifests_directory, run_directory, started_at
from ctr_samples.shards.publish import days_of, latest_manifest, published_days, require_generation, require_manifest
from ctr_samples.shards.storage import Storage
from ctr_samples.shards.table import Table, TableManifest


@dataclass(frozen=True, slots=True)
class Published:
    """The shards that readers see at a path, with a display title. ``sealed`` is set if the manifest had a checksum."""

    title: str
    shards: tuple[Shard, ...]
    contract: Mapping[str, Any]
    sealed: bool

    def of_split(self, split: str | None) -> tuple[Shard, ...]:
        """Return the shards of one split, or of all splits. Raises InputError, listing the splits, if the split does
        not exist.
        """
        shards = tuple(s for s in self.shards if split in (None, s.split))
        if split is not None and not shards:
            there = ", ".join(sorted({s.split for s in self.shards}, reverse=True))
            raise InputError(f"{self.title} has no split {split!r}; it has {there or 'none'}.")
        return shards


def find(storage: Storage, day: Period | None) -> Published:
    """Find the published samples of a day (default: latest), or a table. Raises InputError if nothing is published."""
    if day is not None:
        return _of_day(require_manifest(storage, day))
    table = Table(storage).current()
    if table is not None:
        return _of_table(storage, table)
    days = published_days(storage)
    if not days:
        raise InputError(
            f"{storage.url} holds no published samples; expected an output directory of `ctr-samples generate`, a table "
            "written with the `tfrecord` format, or TFRecord files."
        )
    return _of_day(require_manifest(storage, days[-1]))


def _of_day(manifest: Manifest) -> Published:
    title = f"{manifest.name} {manifest.run_date}, generation {manifest.generation}"
    return Published(title, manifest.shards, manifest.contract, sealed=bool(manifest.checksum))


def _of_table(storage: Storage, table: TableManifest) -> Published:
    title = f"table {storage.url}, generation {table.generation}"
    return Published(title, table.shards, table.contracts[-1] if table.contracts else {}, sealed=bool(table.checksum))


def refused_run(storage: Storage, day: Period, after: str) -> str | None:
    """Return the newest run of a day that started after the run ``after`` and has a report, or None.

    If ``after`` is the newest published run, the result is a run refused since then. An empty ``after`` includes all
    runs.
    """
    for run in reversed(storage.names(run_directory(day, "").rstrip("/"))):
        if run > after and started_at(run) is not None and REPORT in storage.names(run_directory(day, run)):
            return run
    return None


def chosen_manifest(storage: Storage, day: Period | None, generation: int | None) -> Manifest:
    """Load the manifest of a generation (default: the current generation). Raises InputError, listing the existing
    generations, if it does not exist.
    """
    days = [day] if day is not None else published_days(storage) or last_refused_day(storage)
    if not days:
        raise InputError(
            f"{storage.url} holds no published day; expected an output directory of `ctr-samples generate`."
        )
    wanted = days[-1]
    if generation is not None and numbers(storage, manifests_directory(wanted)):
        return require_generation(storage, wanted, generation)
    newest = latest_manifest(storage, wanted)
    if newest is None and (refused := report_of_refused(storage, wanted, "")):
        raise InputError(f"{storage.url} has no samples of {wanted}: a run was not published; its report is {refused}")
    return newest or require_manifest(storage, wanted)


def address_of(storage: Storage, manifest: Manifest, name: str) -> str:
    """Return the location of a file in a run directory. Raises InputError if the file does not exist."""
    path = file_of_run(manifest.day, manifest.made_by, name)
    try:
        storage.size(path)
    except FileNotFoundError:
        raise absent(storage, manifest, name) from None
    return storage.locate(path)


def absent(storage: Storage, manifest: Manifest, name: str) -> InputError:
    """Build the error for a file missing from a run."""
    address = storage.locate(file_of_run(manifest.day, manifest.made_by, name))
    return InputError(
        f"Generation {manifest.generation} of {manifest.run_date} has no {name} ({address}): it was removed, or the release "
        "that wrote the day did not make one. Run the day again with --force."
    )


def file_of_run(day: Period, run_id: str, name: str) -> str:
    """Return the path of a file in a run directory, such as the report."""
    return f"{run_directory(day, run_id)}/{name}"


def last_refused_day(storage: Storage) -> list[Period]:
    """Return a list with the newest day that has a refused run, or an empty list."""
    return next(([day] for day in reversed(days_of(storage)) if report_of_refused(storage, day, "")), [])


def refused_after(storage: Storage, manifest: Manifest, *, of_its_day: bool) -> Iterator[tuple[Period, str]]:
    """Yield the day and report of each later run that the quality gate refused."""
    for day in [manifest.day] if of_its_day else [day for day in days_of(storage) if str(day) >= str(manifest.day)]:
        if refused := report_of_refused(storage, day, manifest.run_id if day == manifest.day else ""):
            yield day, refused


def report_of_refused(storage: Storage, day: Period, after: str) -> str | None:
    """Return the location of the report of the newest run refused after ``after``, or None."""
    run = refused_run(storage, day, after)
    return run and storage.locate(file_of_run(day, run, REPORT))
