"""The object through which a day is published: what it refuses, and what it finds published."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ctr_samples.errors import UsageError
from ctr_samples.shards import DayOutput, Manifest, Storage, publish, require_manifest
from tests.support.small_publish import DAY, RETENTION, publish_day, put_shards

NOW = datetime(2019, 6, 6, 2, tzinfo=UTC)


def test_the_first_run_of_a_day_has_no_parent_and_each_later_one_has_the_one_before(storage: Storage) -> None:
    publish_day(storage, 1)
    publish_day(storage, 2)
    second = require_manifest(storage, DAY)
    assert (second.generation, second.parent) == (2, "20190606T020000-00000001")
    first = DayOutput.open(storage, DAY.replace(day=6), "small", RETENTION)
    assert (first.current, first.generation) == (None, 1)


def test_a_run_writes_below_its_own_directory(storage: Storage) -> None:
    run = DayOutput.open(storage, DAY, "small", RETENTION).begin(NOW, "0000000a")
    run.write({"contract.json": "{}", "vocabularies/topic.txt": "体育\n"})
    assert run.directory == "dt=2019-06-05/data/20190606T020000-0000000a"
    assert storage.read(f"{run.directory}/vocabularies/topic.txt") == "体育\n".encode()


def test_a_day_of_another_sample_set_is_refused(storage: Storage) -> None:
    publish_day(storage, 1)
    with pytest.raises(
        UsageError, match="holds the samples of 'small' on 2019-06-05, but this configuration is 'other'"
    ):
        DayOutput.open(storage, DAY, "other", RETENTION)


def test_only_a_whole_day_with_the_same_fingerprint_counts_as_published(storage: Storage, manifest: Manifest) -> None:
    put_shards(storage, manifest)
    publish(storage, manifest)
    output = DayOutput.open(storage, DAY, manifest.name, RETENTION)
    assert output.published("f0" * 32) == output.current
    assert output.published("f1" * 32) is None
    assert DayOutput.open(storage, DAY.replace(day=6), manifest.name, RETENTION).published("f0" * 32) is None
    storage.delete(manifest.shards[0].path)
    assert output.published("f0" * 32) is None


def test_a_day_whose_inputs_cannot_be_told_apart_never_counts_as_published(storage: Storage) -> None:
    publish_day(storage, 1)  # its fingerprint is empty
    assert DayOutput.open(storage, DAY, "small", RETENTION).published("") is None
