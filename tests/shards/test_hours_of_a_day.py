"""Hours, and a whole log, in a store: what is published is found, rolled back and cleaned up as a day is."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from ctr_samples.contract import ExampleContract
from ctr_samples.errors import DamagedFile
from ctr_samples.periods import WHOLE, Hour, Period
from ctr_samples.shards import (
    Manifest,
    Shard,
    Storage,
    days_of,
    latest_manifest,
    periods_of,
    publish,
    published_days,
    read_manifest,
)
from ctr_samples.shards.clean import Retention, carry_out, cleanups_of
from ctr_samples.shards.generation_history import generations_of, rollback
from ctr_samples.shards.naming import day_directory, manifest_path, run_directory
from tests.shards.files import grow_old
from tests.support.manifests import manifest

WEDNESDAY, BACK = date(2019, 6, 5), date(2019, 10, 27)
SEVEN, TWO, TWO_AGAIN = Hour(WEDNESDAY, 7), Hour(BACK, 2), Hour(BACK, 2, again=True)
RUN = "20191028T020000-aaaaaaaa"
PERIODS = [SEVEN, TWO_AGAIN, WHOLE]


def published(storage: Storage, period: Period, generation: int = 1) -> Manifest:
    """A generation with one small shard."""
    run = RUN.replace("aaaaaaaa", f"{generation:08}")
    path = f"{run_directory(period, run)}/train/part-00000-0-0000000a.tfrecord"
    with storage.new_file(path) as file:
        file.write(b"records")
    made = manifest(
        ExampleContract(()),
        run_date=str(period),
        generation=generation,
        run_id=run,
        shards=(Shard(path, "train", 0, 3, 7, 0),),
    )
    publish(storage, made)
    return made


def test_the_hours_of_all_days_are_listed_in_order(storage: Storage) -> None:
    for hour in (TWO_AGAIN, SEVEN, TWO):
        published(storage, hour)
    Path(storage.locate(day_directory(Hour(BACK, 3)))).mkdir()
    assert published_days(storage) == [SEVEN, TWO, TWO_AGAIN]
    assert days_of(storage) == [SEVEN, TWO, TWO_AGAIN, Hour(BACK, 3)]
    assert periods_of(storage, BACK) == [TWO, TWO_AGAIN]
    assert periods_of(storage, date(2019, 6, 6)) == [date(2019, 6, 6)]
    assert periods_of(storage, SEVEN) == [SEVEN]


@pytest.mark.parametrize("inside", ["", "hour=99", ".kept"])
def test_a_last_day_without_anything_hides_no_hours(storage: Storage, inside: str) -> None:
    for hour in (TWO, SEVEN):
        published(storage, hour)
    (Path(storage.locate("dt=2019-12-01")) / inside).mkdir(parents=True)
    assert published_days(storage) == [SEVEN, TWO]


def test_an_empty_directory_of_a_day_turns_no_day_into_hours(storage: Storage) -> None:
    published(storage, WEDNESDAY)
    Path(storage.locate("dt=2019-12-01")).mkdir()
    assert days_of(storage) == [WEDNESDAY, date(2019, 12, 1)]


@pytest.mark.parametrize("period", PERIODS, ids=str)
def test_a_generation_can_be_gone_back_to(storage: Storage, period: Period) -> None:
    first = published(storage, period)
    published(storage, period, 2)
    made = rollback(storage, period, 1, datetime(2019, 11, 1, tzinfo=UTC), "0000600d")
    assert latest_manifest(storage, period) == made
    assert (made.generation, made.shards, made.made_by) == (3, first.shards, first.run_id)
    assert [line.generation for line in generations_of(storage, period)] == [1, 2, 3]


@pytest.mark.parametrize("period", PERIODS, ids=str)
def test_what_a_killed_run_left_is_cleaned_up_and_what_is_published_stays(storage: Storage, period: Period) -> None:
    made = published(storage, period)
    killed = run_directory(period, "20191028T010000-dddddddd")
    with storage.new_file(f"{killed}/train/part-00000-0-0000000b.tfrecord") as file:
        file.write(b"half")
    grow_old(storage)
    (cleanup,) = [one for one in cleanups_of(storage, None, Retention()) if one]
    assert (cleanup.directories, cleanup.files) == ((killed,), ())
    carry_out(storage, cleanup)
    assert storage.size(made.shards[0].path) == 7


def test_a_manifest_that_was_copied_to_another_hour_is_refused(storage: Storage) -> None:
    published(storage, TWO)
    storage.put_new(manifest_path(TWO_AGAIN, 1), storage.read(manifest_path(TWO, 1)))
    with pytest.raises(DamagedFile, match="says it is generation 1 of 2019-10-27T02, so it was copied or renamed"):
        read_manifest(storage, TWO_AGAIN, 1)


def test_a_shard_of_another_hour_is_not_published(storage: Storage) -> None:
    made = published(storage, TWO)
    with pytest.raises(DamagedFile, match="is not where a task puts a shard"):
        publish(storage, replace(made, run_date=str(TWO_AGAIN)))
