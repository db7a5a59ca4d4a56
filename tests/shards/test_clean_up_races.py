"""A clean-up by another driver while a run writes: what it takes for old, and what is published then."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ctr_samples.errors import ConfigError, DamagedFile
from ctr_samples.shards import Storage, check_age, check_store, day_output, publish
from ctr_samples.shards import table as tables
from ctr_samples.shards.clean import Retention, carry_out, cleanup_of_day, cleanups_of
from ctr_samples.shards.generations import time_of
from tests.shards.files import grow_old
from tests.support.small_publish import DAY, append, publish_day, runs_of_day, runs_of_table


def clean(storage: Storage) -> None:
    carry_out(storage, cleanup_of_day(storage, DAY, Retention()))


def clean_before_the_put(monkeypatch: pytest.MonkeyPatch, cleanup: Any) -> None:
    """Let another driver clean up once, after the run has looked at its age and before it publishes."""

    def cleaned_before(storage: Storage, manifest: Any) -> None:
        cleanup(storage)
        publish(storage, manifest)

    monkeypatch.setattr(day_output, "publish", cleaned_before)


def test_a_run_whose_driver_believes_that_it_is_long_ago_is_left_alone_while_its_files_are_young(
    store: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean_before_the_put(monkeypatch, clean)
    publish_day(store, 1)  # its run id says 2019
    assert runs_of_day(store) == [1]


def test_shards_that_are_removed_right_before_the_put_are_missed_and_nothing_is_published(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def clean_what_is_old(at: Storage) -> None:
        grow_old(at)
        clean(at)

    clean_before_the_put(monkeypatch, clean_what_is_old)
    with pytest.raises(DamagedFile, match=r"is missing, though a task wrote it; run again\.$"):
        publish_day(storage, 1)
    assert storage.names("dt=2019-06-05/manifests") == []


def test_shards_of_a_table_that_are_removed_right_before_the_put_are_missed(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(storage, 1)
    on_disk = tables.on_disk

    def cleaned_meanwhile(*given: Any) -> Any:
        grow_old(storage)
        for cleanup in cleanups_of(storage, None, Retention()):
            carry_out(storage, cleanup)
        return on_disk(*given)

    monkeypatch.setattr(tables, "on_disk", cleaned_meanwhile)
    with pytest.raises(DamagedFile, match="is missing, though a task wrote it"):
        append(storage, 2)
    assert runs_of_table(storage) == [1]


def test_a_run_that_took_longer_than_files_are_kept_publishes_nothing(store: Storage) -> None:
    directory = "dt=2019-06-05/data/20190606T020000-aaaaaaaa"
    began = check_store(store, directory)
    check_age(store, directory, began, timedelta(hours=1))
    with pytest.raises(
        ConfigError, match=r"longer than `output.retention.longest_run: 1:00:00`.*nothing was published"
    ):
        check_age(store, directory, began - timedelta(minutes=61), timedelta(hours=1))
    assert store.files("") == []


def test_asking_a_store_for_its_time_leaves_nothing(store: Storage) -> None:
    before = datetime.now(UTC) - timedelta(seconds=2)
    assert before < time_of(store, "dt=2019-06-05") < datetime.now(UTC) + timedelta(seconds=2)
    assert store.files("") == []
