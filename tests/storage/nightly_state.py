"""What a nightly run keeps of the days before, without Spark, and what must be true of that at any time.

The log of each day is restated with each generation, so that every run has partial results to make. What a partial holds is a
function of its day and its log, so that a verifier can tell a whole one from a mixture.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import UTC, date, datetime, timedelta

from ctr_samples.crc32c import crc32c
from ctr_samples.errors import DamagedPartial
from ctr_samples.shards import Storage, latest_manifest
from ctr_samples.shards.naming import run_id
from ctr_samples.shards.partials import (
    Partial,
    PartialFile,
    find_partials,
    kept_days,
    publish_partial,
    read_partial_file,
    remove_day,
    unneeded,
)
from ctr_samples.shards.sealed import sealed

VIEW, DEFINITION = "item", "d" * 16
DAYS_BEFORE = 2
FILES = 3
_AT_ONCE = 2


def use(storage: Storage, state: Storage, day: date, *, put_first: bool = False) -> None:
    """Find the partials of a run's days, make those that are missing, and read all; raises if a count is wrong."""
    wanted = _wanted(storage, day)
    there = {found.day: found for found in _found(state, wanted) if isinstance(found, Partial)}
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        missing = [one for one in wanted.items() if one[0] not in there]
        made = list(threads.map(lambda one: _made(state, *one, put_first=put_first), missing))
    for partial in [*there.values(), *made]:
        if wrong := list(_violations(state, partial)):
            raise ValueError(wrong[0])


def clean(state: Storage, day: date) -> None:
    """Remove the days that the runs of a day do not reach."""
    soon = datetime.now(UTC) + timedelta(days=2)
    oldest = {(VIEW, DEFINITION): day - timedelta(days=DAYS_BEFORE)}
    for gone in unneeded(kept_days(state), oldest, soon, timedelta(days=1)):
        remove_day(state, gone)


def watch_state(storage: Storage, state: Storage, day: date, stopped: Callable[[], bool]) -> list[str]:
    """Read what is there again and again, until ``stopped`` and once more; what no run must find, in words."""
    found, last = [], False
    while not last:
        last = stopped()
        found += look_at_state(storage, state, day)
    return found


def look_at_state(storage: Storage, state: Storage, day: date) -> list[str]:
    """What no run must find of the partials of its days, in words."""
    violations = []
    for found in _found(state, _wanted(storage, day)):
        violations += [str(found)] if isinstance(found, DamagedPartial) else _violations(state, found)
    return violations


def _found(state: Storage, wanted: dict[str, str]) -> list[Partial | DamagedPartial]:
    return [found for _, found in find_partials(state, VIEW, DEFINITION, wanted)]


def _wanted(storage: Storage, day: date) -> dict[str, str]:
    """The days of a run, each with the hash of its log as it is after the current generation."""
    current = latest_manifest(storage, day)
    of_day = f"{day} {current.generation if current else 0}"
    days = [str(day - timedelta(days=n)) for n in range(DAYS_BEFORE + 1)]
    return {one: hashlib.sha256(f"{one} {of_day}".encode()).hexdigest()[:16] for one in days}


def _made(state: Storage, day: str, inputs: str, *, put_first: bool) -> Partial:
    now = datetime.now(UTC)
    run = run_id(now, secrets.token_hex(4))
    directory = f"{VIEW}/{DEFINITION}/dt={day}/{run}"
    content = {f"{directory}/steps-{n:05}-{n:08x}.parquet": _content(day, inputs, n) for n in range(FILES)}
    files = [PartialFile(path, "steps", 1, len(data), int(crc32c(data)), 0, 0) for path, data in content.items()]
    made_at = now.isoformat(timespec="seconds")
    partial = Partial(VIEW, DEFINITION, day, inputs, run, made_at, "0.1", tuple(files))
    if put_first:
        state.put_new(partial.path, sealed(asdict(partial)))
    for path, data in content.items():
        with state.new_file(path) as file:
            file.write(data)
    return partial if put_first else publish_partial(state, partial)


def _violations(state: Storage, partial: Partial) -> Iterator[str]:
    """The files of a partial against what every run writes of that day."""
    expected = [_content(partial.day, partial.inputs, n) for n in range(FILES)]
    try:
        if [read_partial_file(state, file) for file in partial.files] != expected:
            yield f"{partial.path} by {partial.run_id} is not what its run wrote"
    except DamagedPartial as error:
        yield str(error)


def _content(day: str, inputs: str, number: int) -> bytes:
    return f"{day} {inputs} {number}".encode() * 100
