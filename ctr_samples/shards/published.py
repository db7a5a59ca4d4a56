"""Published content of a path: the samples of a day, or a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ctr_samples.errors import InputError
from ctr_samples.periods import Period
from ctr_samples.shards.manifest import Manifest, Shard
from ctr_samples.shards.naming import REPORT, run_directory, started_at
from ctr_samples.shards.publish import published_days, require_manifest
from ctr_samples.shards.storage import Storage
from ctr_samples.shards.table import Table, TableManifest


@dataclass(frozen=True, slots=True)
class Published:
    """Shards that readers see at a path, with a title for people; ``sealed`` means that the manifest had a checksum."""

    title: str
    shards: tuple[Shard, ...]
    contract: Mapping[str, Any]
    sealed: bool

    def of_split(self, split: str | None) -> tuple[Shard, ...]:
        """Shards of one split, or of all. InputError names the existing splits."""
        shards = tuple(s for s in self.shards if split in (None, s.split))
        if split is not None and not shards:
            there = ", ".join(sorted({s.split for s in self.shards}, reverse=True))
            raise InputError(f"{self.title} has no split {split!r}; it has {there or 'none'}.")
        return shards


def find(storage: Storage, day: Period | None) -> Published:
    """Find the published samples of a day, by default the latest, or a table. InputError if nothing is published."""
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
    """Newest run of a day that started after the run ``after`` and has a report.

    If ``after`` is the newest published run, this is a run refused since; an empty ``after`` includes all runs.
    """
    for run in reversed(storage.names(run_directory(day, "").rstrip("/"))):
        if run > after and started_at(run) is not None and REPORT in storage.names(run_directory(day, run)):
            return run
    return None
