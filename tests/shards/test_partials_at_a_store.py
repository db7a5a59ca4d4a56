"""Partial results at a store: put once, found by what they were made from, removed when no run needs them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ctr_samples.crc32c import crc32c
from ctr_samples.errors import DamagedPartial, StorageError
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
from ctr_samples.shards.storage import LocalStorage, NameTaken, Storage, StoredFile

NOW = datetime.now(UTC)
LATER = NOW + timedelta(days=8)
KEEP = timedelta(days=7)
A, B = "a" * 16, "b" * 16
D1, D2 = "1" * 16, "2" * 16


def put(
    storage: Storage, day: str = "2019-06-05", inputs: str = A, run: str = "1" * 8, data: bytes = b"steps"
) -> Partial:
    """A partial of a view with one file."""
    run_id = f"20190606T020000-{run}"
    path = f"item/{D1}/dt={day}/{run_id}/steps-00000-1.parquet"
    with storage.new_file(path) as file:
        file.write(data)
    steps = PartialFile(path, "steps", 1, len(data), int(crc32c(data)), 18052, 18052)
    made = "2019-06-06T02:00:00+00:00"
    return publish_partial(storage, Partial("item", D1, day, inputs, run_id, made, "0.1", (steps,)))


def found(*asked: Any) -> list[Partial | DamagedPartial]:
    """What there is of the days that are asked for."""
    return [one for _, one in find_partials(*asked)]


def test_a_partial_is_found_by_the_inputs_it_was_made_from(storage: Storage) -> None:
    made = put(storage)
    assert found(storage, "item", D1, {"2019-06-05": A}) == [made]
    assert found(storage, "item", D1, {"2019-06-05": B, "2019-06-04": A}) == []
    assert found(storage, "item", D2, {"2019-06-05": A}) == []
    restated = put(storage, inputs=B, run="2" * 8)
    assert found(storage, "item", D1, {"2019-06-05": B}) == [restated] != [made]


def test_of_two_runs_that_make_a_partial_the_first_wins_and_the_other_takes_it(storage: Storage) -> None:
    first = put(storage)
    assert put(storage, run="2" * 8, data=b"the same rows otherwise") == first
    assert [file.path for file in storage.files("")] == sorted([first.path, first.files[0].path])


class LosesAnAnswer(LocalStorage):
    """A store whose client asks again, and then finds what it has put itself."""

    def put_new(self, path: str, data: bytes) -> None:
        super().put_new(path, data)
        raise NameTaken(path)


def test_a_run_whose_put_was_answered_only_at_the_second_try_keeps_its_files(tmp_path: Path) -> None:
    made = put(LosesAnAnswer(tmp_path))
    assert read_partial_file(LocalStorage(tmp_path), made.files[0]) == b"steps"
    assert found(LocalStorage(tmp_path), "item", D1, {"2019-06-05": A}) == [made]


class RefusesDeletes(LocalStorage):
    """A store that keeps everything."""

    def delete(self, path: str) -> None:
        raise StorageError(f"Cannot write {path}: Permission denied.")

    delete_directory = delete


def test_files_that_a_slower_run_may_not_remove_harm_nobody(tmp_path: Path) -> None:
    storage = RefusesDeletes(tmp_path)
    first = put(storage)
    assert put(storage, run="2" * 8) == first


class Overtaken(LocalStorage):
    """A store where something happens between the listing of files and all that follows."""

    def files(self, directory: str) -> list[StoredFile]:
        listed = super().files(directory)
        self.meanwhile(listed)
        return listed

    def meanwhile(self, listed: list[StoredFile]) -> None:
        """What others do."""


def test_a_partial_that_another_run_removes_meanwhile_is_missing(tmp_path: Path) -> None:
    class Removed(Overtaken):
        def meanwhile(self, listed: list[StoredFile]) -> None:
            (tmp_path / made.path).unlink()

    made = put(LocalStorage(tmp_path))
    (error,) = found(Removed(tmp_path), "item", D1, {"2019-06-05": A})
    assert str(error) == f"{tmp_path / made.path} is missing; it is made anew."


def test_files_that_were_put_while_they_were_listed_are_there(tmp_path: Path) -> None:
    class Early(Overtaken):
        def meanwhile(self, listed: list[StoredFile]) -> None:
            listed[:] = [file for file in listed if file.path.endswith(".json")]

    made = put(LocalStorage(tmp_path))
    assert found(Early(tmp_path), "item", D1, {"2019-06-05": A}) == [made]


@pytest.mark.parametrize("damage", ["cut short", "gone", "unreadable"])
def test_a_damaged_partial_is_named(storage: Storage, damage: str) -> None:
    made = put(storage)
    file = Path(storage.locate(made.path if damage == "unreadable" else made.files[0].path))
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:-3])
    (error,) = found(storage, "item", D1, {"2019-06-05": A})
    assert isinstance(error, DamagedPartial)
    assert str(error).startswith(str(file))
    assert str(error).endswith("it is made anew.")


def test_a_partial_that_was_copied_to_another_day_or_is_of_a_later_format_is_damaged(storage: Storage) -> None:
    made = put(storage)
    data = storage.read(made.path)
    storage.put_new(made.path.replace("06-05", "06-04"), data)
    storage.delete(made.path)
    publish_partial(storage, replace(made, format=3))
    copied, later = found(storage, "item", D1, {"2019-06-04": A, "2019-06-05": A})
    assert str(copied) == (
        f"{storage.locate(made.path.replace('06-05', '06-04'))} says it is {made.path}; it is made anew."
    )
    assert "has format 3" in str(later)


FOREIGN = [
    f"lake/{D1}/dt=2019-06-05/part-00000.parquet",
    f"lake/{D1}/dt=2019-99-99/{A}.json",
    "lake/sales/dt=2019-06-05/20190606T020000-11111111/part-00000.parquet",
    f"item/{D1}/dt=2019-06-05/notes.txt",
    "notes.txt",
]


def test_files_of_others_are_neither_listed_nor_removed(storage: Storage) -> None:
    made = put(storage)
    for path in FOREIGN:
        storage.put_new(path, b"")
    (day,) = kept_days(storage)
    assert [file.path for file in day.files] == [made.files[0].path, made.path]
    remove_day(storage, day)
    assert [file.path for file in storage.files("")] == sorted(FOREIGN)


def test_what_a_run_writes_while_its_day_is_removed_stays(storage: Storage) -> None:
    put(storage)
    (day,) = kept_days(storage)
    made = put(storage, inputs=B, run="2" * 8)
    remove_day(storage, day)
    assert found(storage, "item", D1, {"2019-06-05": B}) == [made]


def test_a_file_whose_bytes_were_changed_is_not_read(storage: Storage, tmp_path: Path) -> None:
    made, sound = put(storage), put(storage, day="2019-06-04")
    (tmp_path / "out" / made.files[0].path).write_bytes(b"Steps")
    with pytest.raises(DamagedPartial, match=r"steps-00000-1\.parquet was changed after it was written"):
        read_partial_file(storage, made.files[0])
    assert read_partial_file(storage, sound.files[0]) == b"steps"
    assert drop_damaged(storage) == [storage.locate(made.path)]
    assert drop_damaged(storage) == []
    assert found(storage, "item", D1, {"2019-06-05": A, "2019-06-04": A}) == [sound]


def test_days_that_no_window_reaches_go_and_others_stay(storage: Storage) -> None:
    for day in ("2019-05-01", "2019-05-02", "2019-06-05"):
        put(storage, day=day)
    days = kept_days(storage)
    oldest = {("item", D1): date(2019, 5, 2)}
    assert unneeded(days, oldest, NOW, KEEP) == []  # a run of an earlier day may use them
    gone = unneeded(days, oldest, LATER, KEEP)
    assert [day.day for day in gone] == [date(2019, 5, 1)]
    remove_day(storage, gone[0])
    assert [day.day for day in kept_days(storage)] == [date(2019, 5, 2), date(2019, 6, 5)]
    assert not storage.names(f"item/{D1}/dt=2019-05-01")


def test_what_another_configuration_kept_goes_once_nobody_has_written_it_for_a_while(storage: Storage) -> None:
    put(storage)
    days = kept_days(storage)
    current = {("item", D2): date(2019, 5, 2)}
    assert unneeded(days, current, NOW, KEEP) == []
    assert unneeded(days, current, LATER, KEEP) == days


def test_a_day_that_was_begun_and_never_put_is_not_complete(storage: Storage) -> None:
    storage.delete(put(storage).path)
    (day,) = kept_days(storage)
    assert (day.complete, day.bytes) == (False, 5)
