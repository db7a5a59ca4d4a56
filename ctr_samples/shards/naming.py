"""Layout of an output directory. Pure functions that return relative paths.

::

    dt=2019-06-05/
       data/<run id>/train/part-00000-<attempt>-<hex8>.tfrecord
       data/<run id>/contract.json, metrics.json, report.html
       manifests/00000001.json
       manifests/00000002.forgotten
       _SUCCESS
    _trends.html

An hour is in ``dt=2019-06-05/hour=07``, a whole log in ``all``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import Annotated, Literal

from ctr_samples.periods import WHOLE, Hour, Period, is_period, parse_period
from ctr_samples.typed import Such, Within

Compression = Literal["none", "gzip", "zlib"]

MANIFESTS_OF_TABLE = "_manifests"
"""Directory of a table's manifests. Readers that list directories skip names that start with an underscore."""
METRICS, REPORT, STATISTICS = "metrics.json", "report.html", "statistics.pbtxt"
SERVED, SERVED_PAGE = "served.json", "served.html"
TRENDS = "_trends.html"
"""Multi-day report page, directly below the output directory."""
CONTRACT, SCHEMA, VOCABULARIES = "contract.json", "schema.pbtxt", "vocabularies"
"""Two files and a directory that a run writes next to its shards."""
SUFFIXES = {"none": ".tfrecord", "gzip": ".tfrecord.gz", "zlib": ".tfrecord.zlib"}
MOST_GENERATIONS = 99_999_999
"""Highest generation number: manifest names have eight digits."""
_MANIFEST = re.compile(r"([0-9]{8})\.json")
_FORGOTTEN = re.compile(r"([0-9]{8})\.forgotten")
_HOUR_KEY = "hour="
_DAY = re.compile(r"dt=([0-9]{4}-[0-9]{2}-[0-9]{2})(?:/hour=([0-9]{2}b?))?")
RUN_ID = re.compile(r"[0-9]{8}T[0-9]{6}-[0-9a-f]{8}")
_SHARD = re.compile(r"part-([0-9]{5,})-[0-9]+-[0-9a-f]{8}\.tfrecord(\.gz|\.zlib)?")
_OURS = re.compile(rf"(.*/)?(_?manifests/[0-9]{{8}}\.json|data/{RUN_ID.pattern}/.*)")
_STAGED = re.compile(r"\..+\.[0-9a-f]{32}")


def day_directory(day: Period) -> str:
    """Return the directory of a period: ``dt=2019-06-05``, ``dt=2019-06-05/hour=07`` or ``all``."""
    if isinstance(day, Hour):
        return f"{day_directory(day.day)}/{_HOUR_KEY}{str(day).rpartition('T')[2]}"
    return f"dt={day}" if isinstance(day, date) else str(day)


def day_of(directory: str) -> Period | None:
    """Return the period of a directory named by :func:`day_directory`, or None for any other name."""
    match = _DAY.fullmatch(directory)
    name = directory if directory == str(WHOLE) else f"{match[1]}{f'T{match[2]}' if match[2] else ''}" if match else ""
    return parse_period(name) if is_period(name) else None


def hours_among(day: date, names: Iterable[str]) -> list[Period]:
    """Return the sorted hours among the names in a day's directory."""
    found = (day_of(f"{day_directory(day)}/{name}") for name in names if name.startswith(_HOUR_KEY))
    return sorted((hour for hour in found if hour is not None), key=str)


def run_id(started: datetime, token: str) -> str:
    """Build a run id such as ``20190606T020000-1a2b3c4d``. Sorts by start time (UTC); the eight hex digits make it
    unique.
    """
    name = f"{started.astimezone(UTC):%Y%m%dT%H%M%S}-{token}"
    if not RUN_ID.fullmatch(name):
        raise ValueError(f"The token of a run id is eight hex digits, not {token!r}.")
    return name


def run_directory(day: Period, run: str) -> str:
    """Return the directory of a run's files."""
    return f"{day_directory(day)}/data/{run}"


def shard_name(partition: int, attempt: int, token: str, compression: str) -> str:
    """Build a name such as ``part-00003-17-1a2b3c4d.tfrecord``; two attempts of a task never share a name."""
    return f"part-{partition:05d}-{attempt}-{token}{SUFFIXES[compression]}"


def compression_of(path: str) -> Compression:
    """Return the compression that a shard's suffix indicates. ``.deflate`` is Hadoop's suffix for zlib."""
    endings: dict[str, Compression] = {".gz": "gzip", ".zlib": "zlib", ".deflate": "zlib"}
    return next((compression for ending, compression in endings.items() if path.endswith(ending)), "none")


def is_shard_name(name: str) -> bool:
    """Whether a name has the form of :func:`shard_name`."""
    return _SHARD.fullmatch(name) is not None


def partition_of(name: str) -> int:
    """Return the partition number in a shard's name."""
    match = _SHARD.fullmatch(name)
    if match is None:
        raise ValueError(f"{name!r} is no name of a shard.")
    return int(match[1])


def is_staged_name(name: str) -> bool:
    """Whether the name is the hidden name of a file that is still being written."""
    return _STAGED.fullmatch(name) is not None


def needs_manifests(path: str) -> bool:
    """Whether a file belongs to a sample set or a table, of which only the manifests say what is to be read."""
    return _OURS.fullmatch(path) is not None


def manifests_directory(day: Period) -> str:
    """Return the directory of a day's manifests."""
    return f"{day_directory(day)}/manifests"


def generation_name(generation: int) -> str:
    """Return the file name of a manifest: ``00000001.json``."""
    return f"{generation:08d}.json"


def manifest_path(day: Period, generation: int) -> str:
    """Return the path of a generation's manifest. Creating the file publishes the generation."""
    return f"{manifests_directory(day)}/{generation_name(generation)}"


def forgotten_path(day: Period, generation: int) -> str:
    """Return the path of the marker for a generation that removed users."""
    return f"{manifests_directory(day)}/{generation:08d}.forgotten"


def forgotten_among(names: Iterable[str]) -> list[int]:
    """Return the generations that have a forgotten marker among the names in a manifest directory."""
    return [int(match[1]) for match in map(_FORGOTTEN.fullmatch, names) if match]


def generations_among(names: Iterable[str]) -> list[int]:
    """Return the sorted generations among the names in a manifest directory. Gaps are possible."""
    numbers = sorted(int(match[1]) for match in map(_MANIFEST.fullmatch, names) if match)
    return numbers if numbers[:1] != [0] else numbers[1:]


def started_at(run: str) -> datetime | None:
    """Return the start time in a run id, or None if the name is not a run id."""
    if not RUN_ID.fullmatch(run):
        return None
    try:
        return datetime.strptime(run[:15], "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return None


def _is_instant(text: str) -> bool:
    return datetime.fromisoformat(text).tzinfo is not None


RunId = Annotated[str, Such(RUN_ID.fullmatch, "a run id such as 20190606T020000-1a2b3c4d")]
RunDate = Annotated[str, Such(is_period, "a day such as 2019-06-05")]
Instant = Annotated[str, Such(_is_instant, "a time with its zone such as 2019-06-06T02:00:00+00:00")]
GenerationNumber = Annotated[int, Within(1, MOST_GENERATIONS)]
"""Field types of manifests."""
