"""The smallest partial results that have everything, of a day two files; and what the next run finds of them.

Day ``n`` is that of run ``n``. A run makes what is missing up to its own day, of the same rows as any other run.
"""

from __future__ import annotations

from dataclasses import asdict

from ctr_samples.crc32c import crc32c
from ctr_samples.errors import DamagedPartial
from ctr_samples.shards import Storage
from ctr_samples.shards.partials import (
    Partial,
    PartialFile,
    drop_damaged,
    find_partials,
    kept_days,
    publish_partial,
    read_partial_file,
    remove_day,
)
from ctr_samples.shards.sealed import sealed

VIEW, DEFINITION, INPUTS = "item", "d" * 16, "a" * 16
DAYS = range(1, 5)
TORN = b"torn"


def make_days(storage: Storage, run: int) -> None:
    """What a run does before it plans: find the partials, and make those that are missing."""
    there = {found.day for found in _found(storage, run) if isinstance(found, Partial)}
    for n in range(1, run + 1):
        if _day(n) not in there:
            partial = _partial(n, run)
            _write(storage, partial)
            publish_partial(storage, partial)


def repair_days(storage: Storage, run: int) -> None:
    """What a run does that has met a damaged file. Run 1 leaves one of day 2, of the right size."""
    drop_damaged(storage)
    make_days(storage, run)
    if run == 1:
        make_days(storage, 2)
        with storage.new_file(_partial(2, 2).files[0].path) as file:
            file.write(TORN)


def remove_days(storage: Storage, run: int) -> None:
    """What run 2 does to days that no window reaches. The other runs make them."""
    if run != 2:
        make_days(storage, run)
        return
    for day in kept_days(storage):
        remove_day(storage, day)


def put_first(storage: Storage, run: int) -> None:
    """A wrong way to make the day of a run: it is said to be there before its files are."""
    partial = _partial(run, run)
    storage.put_new(partial.path, sealed(asdict(partial)))
    _write(storage, partial)


def runs_of_state(storage: Storage) -> list[int]:
    """The days whose partials the next run finds; fails on one that is not whole, but for the one that :data:`TORN` tells."""
    found = list(_found(storage, DAYS[-1]))
    assert [error for error in found if isinstance(error, DamagedPartial)] == []
    return [int(partial.day[-2:]) for partial in found if isinstance(partial, Partial) and _is_whole(storage, partial)]


def _is_whole(storage: Storage, partial: Partial) -> bool:
    data = [storage.read(file.path) for file in partial.files]
    if TORN in data:
        return False
    assert data == [_content(file.kind) for file in partial.files]
    assert [read_partial_file(storage, file) for file in partial.files] == data
    return True


def _found(storage: Storage, run: int) -> list[Partial | DamagedPartial]:
    wanted = {_day(n): INPUTS for n in range(1, run + 1)}
    return [found for _, found in find_partials(storage, VIEW, DEFINITION, wanted)]


def _partial(day: int, run: int) -> Partial:
    run_id = f"20190606T020000-{run:08x}"
    directory = f"{VIEW}/{DEFINITION}/dt={_day(day)}/{run_id}"
    kinds = [(kind, _content(kind)) for kind in ("steps", "totals")]
    files = [
        PartialFile(f"{directory}/{kind}-00000-{run:08x}.parquet", kind, 1, len(data), int(crc32c(data)), 18052, 18052)  # type: ignore[arg-type]
        for kind, data in kinds
    ]
    return Partial(VIEW, DEFINITION, _day(day), INPUTS, run_id, "2019-06-06T02:00:00+00:00", "0.1", tuple(files))


def _write(storage: Storage, partial: Partial) -> None:
    for made in partial.files:
        with storage.new_file(made.path) as file:
            file.write(_content(made.kind))


def _content(kind: str) -> bytes:
    return kind[:4].encode()


def _day(number: int) -> str:
    return f"2019-06-{number:02}"
