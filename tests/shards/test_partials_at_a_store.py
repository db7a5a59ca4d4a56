"""Partial results at a store: put once, found by what they were made from, removed when no run needs them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from ctr_samples.crc32c import crc32c
from ctr_samples.errors import DamagedFile
from ctr_samples.shards.partials import (
    Partial,
    PartialFile,
    drop_damaged,
    find_partials,
    kept_days,
    publish_partial,
    read_partial_file,
    remove_day,
    unneeded,
)
from ctr_samples.shards.storage import LocalStorage

NOW = datetime.now(UTC)


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path)


def put(
    storage: LocalStorage, day: str = "2019-06-05", inputs: str = "aa", run: str = "1" * 8, data: bytes = b"steps"
) -> Partial:
    """A partial of a view with one file."""
    run_id = f"20190606T020000-{run}"
    path = f"item/d1/dt={day}/{run_id}/steps-00000-1.parquet"
    with storage.new_file(path) as file:
        file.write(data)
    steps = PartialFile(path, "steps", 1, len(data), int(crc32c(data)), 18052, 18052)
    made = "2019-06-06T02:00:00+00:00"
    return publish_partial(storage, Partial("item", "d1", day, inputs, run_id, made, "0.1", (steps,)))


def test_a_partial_is_found_by_the_inputs_it_was_made_from(storage: LocalStorage) -> None:
    made = put(storage)
    assert list(find_partials(storage, "item", "d1", {"2019-06-05": "aa"})) == [("2019-06-05", made)]
    assert list(find_partials(storage, "item", "d1", {"2019-06-05": "bb", "2019-06-04": "aa"})) == []
    assert list(find_partials(storage, "item", "d2", {"2019-06-05": "aa"})) == []


def test_of_two_runs_that_make_a_partial_the_first_wins_and_the_other_takes_it(storage: LocalStorage) -> None:
    first = put(storage)
    assert put(storage, run="2" * 8, data=b"the same rows otherwise") == first
    assert [file.path for file in storage.files("")] == sorted([first.path, first.files[0].path])


def test_a_restated_day_is_another_partial(storage: LocalStorage) -> None:
    before, after = put(storage), put(storage, inputs="bb", run="2" * 8)
    found = find_partials(storage, "item", "d1", {"2019-06-05": "bb"})
    assert list(found) == [("2019-06-05", after)] != [("2019-06-05", before)]


@pytest.mark.parametrize("damage", ["cut short", "gone", "unreadable"])
def test_a_damaged_partial_is_named(storage: LocalStorage, tmp_path: Path, damage: str) -> None:
    made = put(storage)
    file = tmp_path / (made.path if damage == "unreadable" else made.files[0].path)
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:-3])
    ((_, error),) = find_partials(storage, "item", "d1", {"2019-06-05": "aa"})
    assert isinstance(error, DamagedFile)
    assert str(file) in str(error)
    assert str(error).endswith("it is made anew.")


def test_a_file_whose_bytes_were_changed_is_not_read(storage: LocalStorage, tmp_path: Path) -> None:
    made, sound = put(storage), put(storage, day="2019-06-04")
    (tmp_path / made.files[0].path).write_bytes(b"Steps")
    with pytest.raises(DamagedFile, match=r"steps-00000-1\.parquet was changed after it was written"):
        read_partial_file(storage, made.files[0])
    assert read_partial_file(storage, sound.files[0]) == b"steps"
    assert drop_damaged(storage) == [str(tmp_path / made.path)]
    assert drop_damaged(storage) == []
    assert list(find_partials(storage, "item", "d1", {"2019-06-05": "aa", "2019-06-04": "aa"})) == [
        ("2019-06-04", sound)
    ]


def test_days_that_no_window_reaches_go_and_others_stay(storage: LocalStorage) -> None:
    for day in ("2019-05-01", "2019-05-02", "2019-06-05"):
        put(storage, day=day)
    days = kept_days(storage)
    oldest = {("item", "d1"): date(2019, 5, 2)}
    gone = unneeded(days, oldest, NOW, timedelta(days=7))
    assert [day.day for day in gone] == [date(2019, 5, 1)]
    remove_day(storage, gone[0])
    assert [day.day for day in kept_days(storage)] == [date(2019, 5, 2), date(2019, 6, 5)]
    assert not storage.names("item/d1/dt=2019-05-01")


def test_what_another_configuration_kept_goes_once_nobody_has_written_it_for_a_while(storage: LocalStorage) -> None:
    put(storage)
    days = kept_days(storage)
    current = {("item", "d2"): date(2019, 5, 2)}
    assert unneeded(days, current, NOW, timedelta(days=7)) == []
    assert unneeded(days, current, NOW + timedelta(days=8), timedelta(days=7)) == days


def test_a_day_that_was_begun_and_never_put_is_not_complete(storage: LocalStorage) -> None:
    storage.delete(put(storage).path)
    (day,) = kept_days(storage)
    assert (day.complete, day.bytes) == (False, 5)


def test_a_partial_of_a_later_format_is_made_anew(storage: LocalStorage, tmp_path: Path) -> None:
    made = put(storage)
    storage.delete(made.path)
    publish_partial(storage, replace(made, format=2))
    ((_, error),) = find_partials(storage, "item", "d1", {"2019-06-05": "aa"})
    assert "has format 2" in str(error)
