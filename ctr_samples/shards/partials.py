"""Partial results of finished days in a store. Each is written once, under a name that identifies its inputs.

::

    <view>/<definition>/dt=2019-06-05/<inputs>.json                    create-only; lists the partial files
    <view>/<definition>/dt=2019-06-05/<run id>/steps-00000-<hex8>.parquet      or totals, actions, rows

``definition`` is a hash of the expressions, ``inputs`` a hash of the day's log files. So a partial never has to be
replaced: a restated day or a changed expression gets a different name. Partials are independent of each other. Files
with any other name are neither listed nor removed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import date, datetime, timedelta
from typing import Literal

from ctr_samples.crc32c import crc32c
from ctr_samples.errors import DamagedFile, DamagedPartial, StorageError
from ctr_samples.periods import is_period
from ctr_samples.shards.naming import RUN_ID, Instant, RunDate, RunId
from ctr_samples.shards.sealed import Form, read_sealed, sealed
from ctr_samples.shards.storage import NameTaken, Storage, StoredFile
from ctr_samples.typed import Count

PARTIAL_FORMAT = 2
_THREADS = 8
_FORM = Form(PARTIAL_FORMAT, "a partial result", "it is made anew")
_DAY = r"([^/]+)/([0-9a-f]{16})/dt=([0-9]{4}-[0-9]{2}-[0-9]{2})"
_HASH = "[0-9a-f]{16}"
_MARKER = re.compile(rf"{_DAY}/{_HASH}\.json")
_OWN = re.compile(rf"{_DAY}/({RUN_ID.pattern}/[^/]+|\.?{_HASH}\.json(\.[0-9a-f]{{32}})?)")
"""Pattern for paths of files written by a run, complete or not."""


@dataclass(frozen=True, slots=True)
class PartialFile:
    """A Parquet file of a partial: ``steps`` as counted, daily ``totals``, ``actions`` of a history, or ``rows`` of a
    table.

    ``first_day`` and ``last_day`` are the days of its rows, as days since 1970.
    """

    path: str
    kind: Literal["steps", "totals", "actions", "rows"]
    rows: Count
    bytes: Count
    crc32c: Count
    first_day: int
    last_day: int


@dataclass(frozen=True, slots=True)
class Partial:
    """Data from one day that a view or a history needs.

    ``times`` maps each use to the first and last timestamp of its log rows, in microseconds. ``counts`` covers log
    lines and timestamps, so that a run that reads the partial can check the log as if it had read the log itself.
    """

    view: str
    definition: str
    day: RunDate
    inputs: str
    run_id: RunId
    created_at: Instant
    release: str
    files: tuple[PartialFile, ...]
    times: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    counts: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    format: int = PARTIAL_FORMAT
    checksum: str = field(default="", compare=False)

    @property
    def path(self) -> str:
        """Path of the marker file, relative to the store."""
        return marker_of(self.view, self.definition, self.day, self.inputs)


def marker_of(view: str, definition: str, day: str, inputs: str) -> str:
    """Return the path of the marker for a day's partial with these inputs."""
    return f"{day_of_partial(view, definition, day)}/{inputs}.json"


def day_of_partial(view: str, definition: str, day: str) -> str:
    """Return the directory for one day of a view."""
    return f"{view}/{definition}/dt={day}"


def find_partials(
    storage: Storage, view: str, definition: str, wanted: Mapping[str, str]
) -> Iterator[tuple[str, Partial | DamagedPartial]]:
    """Find the existing partials of the given days by the hash of each day's log files. Yields a DamagedPartial error
    for each damaged partial.
    """
    sizes = {file.path: file.size for file in storage.files(f"{view}/{definition}")}
    markers = {day: marker_of(view, definition, day, inputs) for day, inputs in wanted.items()}
    there = {day: path for day, path in markers.items() if path in sizes}

    def found(path: str) -> Partial | DamagedPartial:
        try:
            partial = _put_at(storage, path)
            _check_sizes(storage, partial, sizes)
        except DamagedPartial as error:
            return error
        return partial

    with ThreadPoolExecutor(_THREADS) as threads:
        yield from zip(there, threads.map(found, there.values()), strict=True)


def publish_partial(storage: Storage, partial: Partial) -> Partial:
    """Put the marker of a partial whose files are already written. Returns the stored partial, possibly from a faster
    run.
    """
    try:
        storage.put_new(partial.path, sealed(asdict(partial)))
    except NameTaken:
        there = _put_at(storage, partial.path)
        if there.run_id != partial.run_id:  # a put whose answer was lost finds its own marker
            with suppress(StorageError):
                storage.delete_directory(
                    f"{day_of_partial(partial.view, partial.definition, partial.day)}/{partial.run_id}"
                )
        return there
    return partial


def read_partial_file(storage: Storage, file: PartialFile) -> bytes:
    """Read a partial file. Raises DamagedPartial if its contents have changed. Runs on the driver or an executor."""
    try:
        data = storage.read(file.path)
    except FileNotFoundError:
        raise _missing(storage, file.path) from None
    if len(data) != file.bytes or crc32c(data) != file.crc32c:
        raise DamagedPartial(f"{storage.locate(file.path)} was changed after it was written; it is made anew.")
    return data


def drop_damaged(storage: Storage) -> list[str]:
    """Read all partials in a store and remove damaged partials, so that they are rebuilt. Returns their locations."""
    dropped = []
    for path in [file.path for file in storage.files("") if _MARKER.fullmatch(file.path)]:
        try:
            for file in _put_at(storage, path).files:
                read_partial_file(storage, file)
        except DamagedPartial:
            storage.delete(path)
            dropped.append(storage.locate(path))
    return dropped


def _put_at(storage: Storage, path: str) -> Partial:
    try:
        partial = read_sealed(Partial, storage.read(path), storage.locate(path), _FORM)
    except FileNotFoundError:
        raise _missing(storage, path) from None
    except DamagedFile as error:
        raise DamagedPartial(str(error)) from None
    if partial.path != path:
        raise DamagedPartial(f"{storage.locate(path)} says it is {partial.path}; it is made anew.")
    return partial


def _missing(storage: Storage, path: str) -> DamagedPartial:
    return DamagedPartial(f"{storage.locate(path)} is missing; it is made anew.")


def _check_sizes(storage: Storage, partial: Partial, sizes: Mapping[str, int]) -> None:
    """Raise DamagedPartial unless each file has its recorded size. Asks the store about unlisted files: listings can be
    stale.
    """
    for file in partial.files:
        if sizes.get(file.path) == file.bytes:
            continue
        try:
            size = storage.size(file.path)
        except FileNotFoundError:
            raise _missing(storage, file.path) from None
        if size != file.bytes:
            place = storage.locate(file.path)
            raise DamagedPartial(f"{place} has {size:,} bytes, expected {file.bytes:,} bytes; it is made anew.")


@dataclass(frozen=True, slots=True)
class KeptDay:
    """The stored files for one day of a view, whatever their inputs."""

    view: str
    definition: str
    day: date
    files: tuple[StoredFile, ...]

    @property
    def bytes(self) -> int:
        """Total size of the files in bytes."""
        return sum(file.size for file in self.files)

    @property
    def complete(self) -> bool:
        """Whether the day has at least one partial with a marker."""
        return any(_MARKER.fullmatch(file.path) for file in self.files)

    @property
    def modified(self) -> datetime:
        """Modification time of the newest file."""
        return max(file.modified for file in self.files)


def kept_days(storage: Storage) -> list[KeptDay]:
    """List all days of all views in a store, in order."""
    found: dict[tuple[str, str, str], list[StoredFile]] = {}
    for file in storage.files(""):
        if (match := _OWN.fullmatch(file.path)) and is_period(match[3]):
            found.setdefault((match[1], match[2], match[3]), []).append(file)
    return [
        KeptDay(view, definition, date.fromisoformat(day), tuple(files))
        for (view, definition, day), files in sorted(found.items())
    ]


def unneeded(
    days: Collection[KeptDay], oldest: Mapping[tuple[str, str], date], now: datetime, keep: timedelta
) -> list[KeptDay]:
    """Select the days that no run needs any more. Pure function.

    ``oldest`` maps the current definition of each view to the first day that it still needs. Old definitions and
    deleted views need no days. A day written within ``keep`` stays, since a run of an earlier day may be using it.
    """
    gone = []
    for day in days:
        first = oldest.get((day.view, day.definition))
        if (first is None or day.day < first) and day.modified < now - keep:
            gone.append(day)
    return gone


def remove_day(storage: Storage, day: KeptDay) -> None:
    """Remove the listed files of a day, markers first. Unlisted files may belong to a running job."""
    directory, runs = day_of_partial(day.view, day.definition, str(day.day)), set()
    for file in day.files:
        parent = file.path.rpartition("/")[0]
        if parent == directory:
            storage.delete(file.path)
        else:
            runs.add(parent)
    for run in sorted(runs):
        storage.delete_directory(run)
