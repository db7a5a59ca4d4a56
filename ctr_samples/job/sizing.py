"""How large a run is: its tasks, memory, disk and time, computed from what the last day had. Runs no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil
from typing import Self

from ctr_samples.config import JobConfig
from ctr_samples.config.units import format_size
from ctr_samples.samples.inputs.watched import joining_tasks
from ctr_samples.shards import Manifest, Storage, latest_manifest, published_days

CORE_SECONDS, SHUFFLED = 34e-6, 260
"""Seconds of a core, and bytes of local disk for shuffles, that an impression costs: measured with 10,000,000 impressions of
the simulated log and 12 features, see docs/performance.md."""

BYTES_OF_A_WRITING_TASK = 1 << 30
"""Bytes of records that a task should write."""

JVM, BESIDE = 2 << 30, 5 << 28
"""Memory of an executor for each of its cores, and what its Python workers take beside the JVM."""

CORES, SOON = 4, 1800
"""Cores of an executor, and the seconds within which the suggested executors make a day."""

_USUAL = 1_000_000, 90, 900
"""Impressions of a day about which nothing is known, and the bytes of logs and of records for each."""


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a day: impressions, bytes of the logs that are read, and bytes of the records."""

    impressions: int
    logs: int
    records: int

    @classmethod
    def usual(cls) -> Self:
        """Return the size of a day about which nothing is known."""
        shown, line, record = _USUAL
        return cls(shown, shown * line, shown * record)

    @classmethod
    def of(cls, manifest: Manifest) -> Self:
        """Return the size of a published day. Tables, whose size is unknown, count as nothing."""
        logs = sum(source.get("bytes") or 0 for source in manifest.inputs.values())
        return cls(manifest.accounting.get("impressions", manifest.records), logs, manifest.bytes)

    def scaled(self, impressions: int) -> Size:
        """Return the size of a day with so many impressions, all else being alike."""
        factor = impressions / max(1, self.impressions)
        return replace(
            self, impressions=impressions, logs=round(self.logs * factor), records=round(self.records * factor)
        )


@dataclass(frozen=True, slots=True)
class Needs:
    """What a day of some size needs. Sizes are in bytes."""

    core_seconds: float
    joining_tasks: int
    writing_tasks: int
    disk: int
    executors: int

    @classmethod
    def of(cls, size: Size) -> Self:
        """Compute the needs. Both kinds of tasks and the disk grow with the day, and memory with the cores only."""
        seconds = size.impressions * CORE_SECONDS
        return cls(
            seconds,
            joining_tasks(size.logs),
            max(1, ceil(size.records / BYTES_OF_A_WRITING_TASK)),
            size.impressions * SHUFFLED,
            max(1, ceil(seconds / SOON / CORES)),
        )


def last_size(storage: Storage) -> tuple[str, Size] | None:
    """Return the last published day, and its size, or None if nothing is published."""
    days = published_days(storage)
    manifest = latest_manifest(storage, days[-1]) if days else None
    return None if manifest is None else (manifest.run_date, Size.of(manifest))


def described(config: JobConfig, last: tuple[str, Size] | None, impressions: int | None = None) -> Iterator[str]:
    """Yield lines about what a day needs: the ``last`` one or, if given, one of so many ``impressions``."""
    day, size = last or ("", Size.usual())
    if impressions is not None:
        size = size.scaled(impressions)
    needs = Needs.of(size)
    why = (
        f"as {day} had" if last and impressions is None else f"in proportion to {day}" if last else "if it is as usual"
    )
    logs, records, disk = format_size(size.logs), format_size(size.records), format_size(needs.disk)
    yield f"A day of {size.impressions:,} impressions, {logs} of logs and {records} of records ({why}) needs about"
    many = f"{needs.executors:,} executors" if needs.executors > 1 else "one executor"
    yield f"  {_time(needs.core_seconds)} of one core: {many} of {CORES} cores for {SOON // 60} minutes or less"
    yield f"  {format_size(CORES * JVM)} of memory and {format_size(CORES * BESIDE)} beside the JVM for each executor"
    yield f"  {disk} of local disk for shuffles, all executors together"
    yield f"  {needs.joining_tasks:,} joining tasks, which a run chooses by itself"
    set_, tasks = config.output.partitions, needs.writing_tasks
    yield f"  `output.partitions: {tasks}`" + ("" if set_ == tasks else f"; the configuration has {set_:,}")


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.0f} hours"
