"""Output of one day, from opening to publishing: the counterpart of :class:`ctr_samples.shards.table.Table`.

A :class:`DayOutput` is the state of the store; a :class:`DayRun` is one run that adds to it. Together they define the
call order: open the output, begin a run, publish last. The nightly job uses them, as do the tests that kill it. All
code here runs on the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from ctr_samples.errors import DamagedFile, StorageError, UsageError
from ctr_samples.periods import Period
from ctr_samples.shards.clean import Retention, carry_out, cleanup_of_day
from ctr_samples.shards.generations import following
from ctr_samples.shards.manifest import Manifest, Receipt, Shard, check_receipts
from ctr_samples.shards.naming import manifests_directory, run_directory, run_id
from ctr_samples.shards.publish import (
    check_age,
    check_directory,
    check_shards,
    check_store,
    latest_manifest,
    mark_success,
    publish,
)
from ctr_samples.shards.storage import Storage


@dataclass(frozen=True, slots=True)
class DayOutput:
    """One day of the sample set ``name`` in a store. ``current`` is the manifest that readers see, if any."""

    storage: Storage
    day: Period
    name: str
    retention: Retention
    current: Manifest | None
    generation: int
    """The generation number of the next run to publish."""

    @classmethod
    def open(
        cls,
        storage: Storage,
        day: Period,
        name: str,
        retention: Retention,
        warn: Callable[[str], None] | None = None,
    ) -> Self:
        """Open a day and clean up after its earlier runs. Calls ``warn`` with a message if the cleanup fails.

        Raises InputError if the directory has foreign files, and UsageError if it belongs to another sample set.
        """
        current = latest_manifest(storage, day)
        check_directory(storage, day)
        _check_name(storage, current, name)
        generation = following(current.generation, storage.locate(manifests_directory(day))) if current else 1
        _clean_up(storage, day, retention, warn)
        return cls(storage, day, name, retention, current, generation)

    def published(self, fingerprint: str) -> Manifest | None:
        """Return the current manifest if its run had this fingerprint and its shards still exist; else None.

        An empty fingerprint never matches. Writes ``_SUCCESS``, in case the publishing run failed to write it.
        """
        current = self.current
        if current is None or not fingerprint or current.fingerprint != fingerprint or not self._is_intact(current):
            return None
        mark_success(self.storage, current)
        return current

    def begin(self, now: datetime, token: str) -> DayRun:
        """Begin a run. ``token`` is eight unique hex digits. Rejects a store whose create-only put overwrites files."""
        this_run = run_id(now, token)
        return DayRun(self, this_run, check_store(self.storage, run_directory(self.day, this_run)))

    def _is_intact(self, manifest: Manifest) -> bool:
        try:
            check_shards(self.storage, manifest.shards)
        except DamagedFile:
            return False
        return True


@dataclass(frozen=True, slots=True)
class DayRun:
    """One run of a day, which writes to its own directory and publishes last. ``began`` is the start time by the
    store's clock.
    """

    output: DayOutput
    run_id: str
    began: datetime

    @property
    def storage(self) -> Storage:
        """The store that holds the day."""
        return self.output.storage

    @property
    def directory(self) -> str:
        """The directory of the run's files, relative to the store."""
        return run_directory(self.output.day, self.run_id)

    def shards(self, receipts: Sequence[Receipt], partitions: int) -> tuple[Shard, ...]:
        """Return the shards of all receipts. Raises DamagedFile unless each partition has exactly one receipt and each
        shard is complete.
        """
        check_receipts(receipts, partitions)
        shards = tuple(shard for receipt in receipts for shard in receipt.shards)
        check_shards(self.storage, shards)
        return shards

    def write(self, texts: Mapping[str, str]) -> None:
        """Write UTF-8 text files next to the shards; ``texts`` maps file names to content."""
        for name, text in texts.items():
            with self.storage.new_file(f"{self.directory}/{name}") as file:
                file.write(text.encode())

    def manifest(self, **facts: Any) -> Manifest:
        """Build the manifest from the names, generation and parent. ``facts`` holds its remaining fields."""
        current = self.output.current
        return Manifest(
            name=self.output.name,
            run_date=self.output.day.isoformat(),
            generation=self.output.generation,
            run_id=self.run_id,
            parent=current.run_id if current else None,
            **facts,
        )

    def publish(self, manifest: Manifest) -> None:
        """Publish the run (:func:`ctr_samples.shards.publish.publish`). Raises ConfigError if the run took too long."""
        check_age(self.storage, self.directory, self.began, self.output.retention.longest_run)
        publish(self.storage, manifest)


def _check_name(storage: Storage, current: Manifest | None, name: str) -> None:
    """Raise UsageError if the day belongs to another sample set."""
    if current is not None and current.name != name:
        raise UsageError(
            f"{storage.url} holds the samples of {current.name!r} on {current.run_date}, but this configuration is {name!r}; "
            "give each sample set its own `output.path`."
        )


def _clean_up(storage: Storage, day: Period, retention: Retention, warn: Callable[[str], None] | None) -> None:
    try:
        carry_out(storage, cleanup_of_day(storage, day, retention))
    except (StorageError, DamagedFile) as error:
        if warn is not None:
            warn(f"Could not clean up after earlier runs of {day}: {error}")
