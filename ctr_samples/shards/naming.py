"""The layout of an output directory. Pure functions from values to relative paths.

::

    dt=2019-06-05/
       data/<run id>/train/part-00000-<attempt>-<hex8>.tfrecord
       data/<run id>/contract.json, metrics.json, report.html
       manifests/00000001.json
       _SUCCESS
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Literal

from ctr_samples.errors import UsageError
from ctr_samples.typed import Such, Within

Compression = Literal["none", "gzip", "zlib"]

MANIFESTS_OF_TABLE = "_manifests"
"""The directory of a table's manifests: readers that list directories skip names that begin with an underscore."""
METRICS, REPORT, STATISTICS = "metrics.json", "report.html", "statistics.pbtxt"
"""Files that a run writes next to its shards."""
SUFFIXES = {"none": ".tfrecord", "gzip": ".tfrecord.gz", "zlib": ".tfrecord.zlib"}
MOST_GENERATIONS = 99_999_999
"""Names of manifests have eight digits."""
_MANIFEST = re.compile(r"([0-9]{8})\.json")
_DAY = re.compile(r"dt=([0-9]{4}-[0-9]{2}-[0-9]{2})")
_RUN_ID = re.compile(r"[0-9]{8}T[0-9]{6}-[0-9a-f]{8}")
_SHARD = re.compile(r"part-([0-9]{5,})-[0-9]+-[0-9a-f]{8}\.tfrecord(\.gz|\.zlib)?")
_STAGED = re.compile(r"\..+\.[0-9a-f]{32}")


def parse_day(text: str) -> date:
    """``"2019-06-05"`` -> a date; UsageError for anything else, also for days that no calendar has."""
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        raise UsageError(f"The date is {text!r}; expected a day such as 2019-11-26.")
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"The date is {text!r}, which is not in the calendar.") from None
    if not 1971 <= day.year <= 2199:  # leaves room for windows on both sides of what Spark and Python can count
        raise UsageError(f"The date is {text!r}; expected a day from 1971 to 2199.")
    return day


def days_between(first: date, last: date) -> tuple[date, ...]:
    """All days from the first to the last; UsageError where the last is before the first."""
    if last < first:
        raise UsageError(f"The last day is {last}, before the first, {first}; expected it to be the same or later.")
    return tuple(first + timedelta(days=n) for n in range((last - first).days + 1))


def day_directory(day: date) -> str:
    """``dt=2019-06-05``."""
    return f"dt={day.isoformat()}"


def day_of(directory: str) -> date | None:
    """The day of ``dt=2019-06-05``, or None for another name."""
    match = _DAY.fullmatch(directory)
    try:
        return date.fromisoformat(match[1]) if match else None
    except ValueError:
        return None


def run_id(started: datetime, token: str) -> str:
    """``20190606T020000-1a2b3c4d``: sorts by start (UTC), unique by its eight hex digits."""
    name = f"{started.astimezone(UTC):%Y%m%dT%H%M%S}-{token}"
    if not _RUN_ID.fullmatch(name):
        raise ValueError(f"The token of a run id is eight hex digits, not {token!r}.")
    return name


def run_directory(day: date, run: str) -> str:
    """The directory of a run's files."""
    return f"{day_directory(day)}/data/{run}"


def shard_name(partition: int, attempt: int, token: str, compression: str) -> str:
    """``part-00003-17-1a2b3c4d.tfrecord``: no two attempts of a task ever share a name."""
    return f"part-{partition:05d}-{attempt}-{token}{SUFFIXES[compression]}"


def compression_of(path: str) -> Compression:
    """The compression given by the suffix of a shard's name; ``.deflate`` is Hadoop's for zlib."""
    endings: dict[str, Compression] = {".gz": "gzip", ".zlib": "zlib", ".deflate": "zlib"}
    return next((compression for ending, compression in endings.items() if path.endswith(ending)), "none")


def is_shard_name(name: str) -> bool:
    """Whether :func:`shard_name` makes such names."""
    return _SHARD.fullmatch(name) is not None


def partition_of(name: str) -> int:
    """The partition whose task wrote a shard of that name."""
    match = _SHARD.fullmatch(name)
    if match is None:
        raise ValueError(f"{name!r} is no name of a shard.")
    return int(match[1])


def is_staged_name(name: str) -> bool:
    """Whether a storage gives such hidden names to files that are still being written."""
    return _STAGED.fullmatch(name) is not None


def manifests_directory(day: date) -> str:
    """The directory of the manifests of a day."""
    return f"{day_directory(day)}/manifests"


def generation_name(generation: int) -> str:
    """``00000001.json``."""
    return f"{generation:08d}.json"


def manifest_path(day: date, generation: int) -> str:
    """Path of the manifest of a generation; its appearance is the commit."""
    return f"{manifests_directory(day)}/{generation_name(generation)}"


def generations_among(names: Iterable[str]) -> list[int]:
    """The generations in the names of a directory of manifests, in order. There may be gaps."""
    numbers = sorted(int(match[1]) for match in map(_MANIFEST.fullmatch, names) if match)
    return numbers if numbers[:1] != [0] else numbers[1:]


def started_at(run: str) -> datetime | None:
    """When a run began, from its id; None for a name that is no run id."""
    if not _RUN_ID.fullmatch(run):
        return None
    try:
        return datetime.strptime(run[:15], "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return None


def _is_day(text: str) -> bool:
    return day_of(f"dt={text}") is not None


def _is_instant(text: str) -> bool:
    return datetime.fromisoformat(text).tzinfo is not None


RunId = Annotated[str, Such(_RUN_ID.fullmatch, "a run id such as 20190606T020000-1a2b3c4d")]
RunDate = Annotated[str, Such(_is_day, "a day such as 2019-06-05")]
Instant = Annotated[str, Such(_is_instant, "a time with its zone such as 2019-06-06T02:00:00+00:00")]
GenerationNumber = Annotated[int, Within(1, MOST_GENERATIONS)]
"""Types of the fields of manifests."""
