"""Clean-up: what may go is a value; what readers, runs and training jobs may need stays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest

from ctr_samples.errors import DamagedFile, InputError
from ctr_samples.shards import Manifest, Shard, Storage, StoredFile
from ctr_samples.shards.clean import (
    Cleanup,
    Retention,
    carry_out,
    cleanup_of_day,
    cleanups_of,
    needed_generations,
    plan_day,
    plan_table,
)
from ctr_samples.shards.table import Table, TableWrite, next_manifest
from tests.shards.files import grow_old
from tests.support.small_publish import publish_literal

DAY = date(2019, 6, 5)
NOW = datetime(2019, 6, 20, 12, tzinfo=UTC)
KEPT_TWO = Retention(generations=2, longest_run=timedelta(hours=24))


def run_of(day: int, hour: int = 2) -> str:
    return f"201906{day:02}T{hour:02}0000-aaaaaaaa"


def generation(manifest: Manifest, number: int, run: str, created: str) -> Manifest:
    path = f"dt=2019-06-05/data/{run}/train/part-00000-7-00000001.tfrecord"
    counts = {"impressions": 1, "samples": 1}
    shards = (Shard(path, "train", 0, 1, 5, 0, {"clicked": 1}),)
    return replace(
        manifest, generation=number, run_id=run, created_at=created, shards=shards, accounting=counts, views={}
    )


def files_of(*runs: str, size: int = 5, age: timedelta = timedelta(days=9)) -> list[StoredFile]:
    return [
        StoredFile(f"dt=2019-06-05/data/{run}/train/part-00000-7-00000001.tfrecord", size, NOW - age) for run in runs
    ]


def manifests_of(*ages: timedelta) -> list[StoredFile]:
    """The files of the generations 1, 2, ... as the store got them."""
    return [
        StoredFile(f"dt=2019-06-05/manifests/{number:08}.json", 700, NOW - age) for number, age in enumerate(ages, 1)
    ]


def gone(cleanup: Cleanup) -> list[str]:
    return [directory.rsplit("/", 1)[-1] for directory in cleanup.directories]


def needed(numbers: Sequence[int], files: list[StoredFile], keep: int = 2) -> list[int]:
    return sorted(needed_generations(DAY, numbers, files, replace(KEPT_TWO, generations=keep), NOW))


def test_the_last_generations_stay_and_earlier_ones_go(manifest: Manifest) -> None:
    runs = [run_of(6), run_of(7), run_of(8), run_of(9)]
    history = [generation(manifest, n, run, f"2019-06-{n + 5:02}T03:00:00+00:00") for n, run in enumerate(runs, 1)]
    assert needed([1, 2, 3, 4], manifests_of(*[timedelta(days=9)] * 4)) == [3, 4]
    cleanup = plan_day(DAY, history[2:], files_of(*runs), KEPT_TWO, NOW)
    assert cleanup == Cleanup(tuple(f"dt=2019-06-05/data/{run}" for run in runs[:2]), (), 10)


def test_a_generation_that_was_replaced_lately_stays_for_those_who_still_read_it() -> None:
    day, minute = timedelta(days=1), timedelta(minutes=1)
    assert needed([1, 2, 3, 4], manifests_of(9 * day, 8 * day, day, minute)) == [2, 3, 4]
    assert needed([1, 2, 3, 4], manifests_of(9 * day, 8 * day, day + minute, minute)) == [3, 4]
    assert needed([1, 2, 3, 4], manifests_of(9 * day, day - minute, day - minute, minute)) == [1, 2, 3, 4]


def test_what_was_published_after_the_files_were_listed_has_just_replaced_the_one_before() -> None:
    listed = manifests_of(timedelta(days=9), timedelta(days=8))
    assert needed([1, 2, 3], listed, keep=1) == [2, 3]


def test_of_generations_that_are_missing_only_those_that_must_stay_are_asked_for() -> None:
    listed = [manifests_of(*[timedelta(days=9)] * 5)[number - 1] for number in (2, 5)]
    assert needed([2, 5], listed, keep=1) == [5]
    assert needed([2, 5], listed, keep=2) == [4, 5]
    assert needed([1, 99_999_999], [], keep=1) == [99_999_998, 99_999_999]


def test_a_run_that_no_manifest_names_goes_once_its_newest_file_is_old_at_the_store() -> None:
    day, minute = timedelta(days=1), timedelta(minutes=1)
    killed, writing = run_of(19, 11), run_of(19, 12)
    files = [*files_of(killed, age=day + minute), *files_of(writing, age=9 * day)]
    files.append(replace(files[1], path=files[1].path.replace("train", "eval"), modified=NOW - day))
    assert gone(plan_day(DAY, [], files, KEPT_TWO, NOW)) == [killed]


def test_the_clock_of_the_driver_that_named_a_run_does_not_count() -> None:
    behind, ahead = "19700101T000000-aaaaaaaa", "21990101T000000-aaaaaaaa"
    young = files_of(behind, age=timedelta(minutes=1))
    assert gone(plan_day(DAY, [], [*young, *files_of(ahead)], KEPT_TWO, NOW)) == [ahead]


def test_only_what_runs_write_is_ever_removed(manifest: Manifest) -> None:
    old = NOW - timedelta(days=9)
    paths = [
        "dt=2019-06-05/data/notes/train/part-00000-7-00000001.tfrecord",
        "dt=2019-06-05/data/20190606T020000-aaaaaaaa",
        "dt=2019-06-05/data/20190606T020000-AAAAAAAA/x.tfrecord",
        "dt=2019-06-05/data/20191306T020000-aaaaaaaa/x.tfrecord",
        "dt=2019-06-05/other/20190606T020000-aaaaaaaa/x.tfrecord",
        "dt=2019-06-06/data/20190606T020000-aaaaaaaa/x.tfrecord",
        "dt=2019-06-05/manifests/00000001.json",
        "dt=2019-06-05/_SUCCESS",
        "dt=2019-06-05/.hidden",
    ]
    files = [StoredFile(path, 1, old) for path in paths]
    assert plan_day(DAY, [], files, KEPT_TWO, NOW) == Cleanup()
    assert not Cleanup()


def test_files_that_a_killed_publish_left_half_written_go_when_they_are_old() -> None:
    staged = [f"dt=2019-06-05/manifests/.00000002.json.{'0' * 32}", f"dt=2019-06-05/._SUCCESS.{'f' * 32}"]
    old = [StoredFile(path, 3, NOW - timedelta(hours=24, seconds=1)) for path in staged]
    assert plan_day(DAY, [], old, KEPT_TWO, NOW) == Cleanup((), tuple(staged), 6)
    young = [replace(file, modified=NOW - timedelta(hours=24)) for file in old]
    assert plan_day(DAY, [], young, KEPT_TWO, NOW) == Cleanup()


def test_of_a_table_old_shards_go_that_readers_do_not_see() -> None:
    old, young = NOW - timedelta(days=2), NOW - timedelta(hours=1)
    seen, lost, late = (f"country=US/part-00000-{n}-0000000{n}.tfrecord.gz" for n in (1, 2, 3))
    current = next_manifest(
        None, TableWrite("r", "append", "example", (Shard(seen, "", 0, 1, 5, 0),)), "2019-06-06T00:00:00+00:00"
    )
    files = [
        StoredFile(seen, 5, old),
        StoredFile(lost, 7, old),
        StoredFile(late, 5, young),
        StoredFile("country=US/notes.txt", 5, old),
        StoredFile("_SUCCESS", 0, old),
        StoredFile("_manifests/00000001.json", 50, old),
        StoredFile("_manifests/r/probe", 5, old),
        StoredFile(f".part-00000-4-00000004.tfrecord.{'a' * 32}", 9, old),
    ]
    assert plan_table(current, files, KEPT_TWO, NOW) == Cleanup((), (lost, files[6].path, files[7].path), 21)
    assert plan_table(None, files[:1], KEPT_TWO, NOW).files == (seen,)


def test_cleaning_a_day_removes_what_was_planned_and_leaves_what_readers_see(
    storage: Storage, manifest: Manifest
) -> None:
    runs = [run_of(day) for day in (6, 7, 8)]
    for number, run in enumerate(runs, 1):
        publish_literal(storage, generation(manifest, number, run, f"2019-06-{number + 5:02}T03:00:00+00:00"))
    killed = f"dt=2019-06-05/data/{run_of(9)}/eval/part-00000-7-00000001.tfrecord"
    storage.put_new(killed, b"x")
    assert cleanup_of_day(storage, DAY, KEPT_TWO) == Cleanup()  # all of it is young
    grow_old(storage)
    cleanup = cleanup_of_day(storage, DAY, KEPT_TWO)
    assert gone(cleanup) == [runs[0], run_of(9)]
    for _ in range(2):  # a repetition is harmless
        carry_out(storage, cleanup)
    assert storage.names("dt=2019-06-05/data") == runs[1:]
    assert storage.names("dt=2019-06-05/manifests") == ["00000001.json", "00000002.json", "00000003.json"]
    assert cleanup_of_day(storage, DAY, KEPT_TWO) == Cleanup()


def test_all_days_of_an_output_are_looked_at(storage: Storage) -> None:
    for day in ("2019-06-05", "2019-06-06"):
        storage.put_new(f"dt={day}/data/{run_of(7)}/x", b"x")
    grow_old(storage)
    cleanups = list(cleanups_of(storage, None, KEPT_TWO))
    assert [c.directories for c in cleanups] == [(f"dt=2019-06-0{d}/data/{run_of(7)}",) for d in (5, 6)]
    (one,) = cleanups_of(storage, date(2019, 6, 6), KEPT_TWO)
    assert one == cleanups[1]


def test_a_table_is_known_by_its_manifests(storage: Storage) -> None:
    storage.put_new("part-00000-0-00000001.tfrecord", b"bytes")
    shard = Shard("part-00000-0-00000001.tfrecord", "", 0, 1, 5, 0)
    Table(storage).commit(TableWrite("r", "append", "example", (shard,)))
    storage.put_new("part-00000-0-00000002.tfrecord", b"lost")
    grow_old(storage)
    assert [c.files for c in cleanups_of(storage, None, KEPT_TWO)] == [("part-00000-0-00000002.tfrecord",)]


def test_a_directory_with_neither_is_said_to_hold_nothing(storage: Storage) -> None:
    with pytest.raises(InputError, match="holds neither samples nor a table; expected an output directory"):
        list(cleanups_of(storage, None, KEPT_TWO))


def test_a_day_that_lacks_one_of_its_manifests_or_all_is_left_alone(storage: Storage, manifest: Manifest) -> None:
    for number in (1, 2):
        publish_literal(storage, generation(manifest, number, run_of(number + 5), "2019-06-06T03:00:00+00:00"))
    for number, problem in (
        (1, r"00000001\.json is missing, though there are later generations"),
        (2, "has no manifest, though the day was published"),
    ):
        storage.delete(f"dt=2019-06-05/manifests/{number:08}.json")
        with pytest.raises(DamagedFile, match=problem):
            cleanup_of_day(storage, DAY, KEPT_TWO)
