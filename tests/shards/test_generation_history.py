"""The generations of a day or a table, and what is published at a path."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from ctr_samples.errors import InputError
from ctr_samples.shards import Manifest, Shard, Storage, Table, TableWrite
from ctr_samples.shards.generation_history import HistoryLine, generations_of
from ctr_samples.shards.published import find
from tests.support.small_publish import by_another_run, publish_literal

DAY = date(2019, 6, 5)


def publish_twice(storage: Storage, manifest: Manifest) -> Manifest:
    """The files of the first are gone since."""
    publish_literal(storage, replace(manifest, label_mature=False))
    storage.delete_directory(f"dt=2019-06-05/data/{manifest.run_id}")
    second = by_another_run(manifest, "20190607T020000-bbbbbbbb", generation=2, created_at="2019-06-07T02:00:00+00:00")
    publish_literal(storage, second)
    return second


def write_table(storage: Storage) -> None:
    for number in (1, 2):
        path = f"part-00000-0-0000000{number}.tfrecord"
        storage.put_new(path, b"bytes")
        Table(storage).commit(TableWrite(f"r{number}", "append", "example", (Shard(path, "", 0, 3, 5, 0),)))


def test_each_generation_of_a_day_has_its_line_also_when_its_files_are_gone(
    storage: Storage, manifest: Manifest
) -> None:
    publish_twice(storage, manifest)
    first, second = generations_of(storage, DAY)
    assert first == HistoryLine(
        1, "2019-06-06 10:00:00+08:00", "20190606T020000-aaaaaaaa", 16, 3, None, "cleaned, labels not final"
    )
    assert second == HistoryLine(
        2, "2019-06-07 10:00:00+08:00", "20190607T020000-bbbbbbbb", 16, 3, 21, "what readers see"
    )


def test_without_a_day_it_is_the_latest_that_is_published(storage: Storage, manifest: Manifest) -> None:
    publish_literal(storage, manifest)
    publish_literal(storage, by_another_run(manifest, "20190608T020000-bbbbbbbb", run_date="2019-06-07"))
    assert [g.run_id for g in generations_of(storage, None)] == ["20190608T020000-bbbbbbbb"]
    assert find(storage, None).title == "toutiao_ctr 2019-06-07, generation 1"
    assert find(storage, DAY).title == "toutiao_ctr 2019-06-05, generation 1"


def test_a_table_has_a_history_too(storage: Storage) -> None:
    write_table(storage)
    assert [(g.generation, g.run_id, g.records, g.shards, g.bytes, g.note) for g in generations_of(storage, None)] == [
        (1, "r1", 3, 1, 5, ""),
        (2, "r2", 6, 2, 10, "what readers see"),
    ]
    published = find(storage, None)
    assert (published.title, len(published.shards)) == (f"table {storage.url}, generation 2", 2)


def test_a_directory_with_nothing_published_says_what_was_expected(storage: Storage) -> None:
    with pytest.raises(InputError, match="holds no published samples; expected an output directory, or a table"):
        generations_of(storage, None)
    with pytest.raises(
        InputError, match="holds no published samples; expected an output directory of `ctr-samples generate`"
    ):
        find(storage, None)
    with pytest.raises(InputError, match="has no samples of 2019-06-05"):
        list(generations_of(storage, DAY))


def test_the_shards_of_a_split_are_found_by_name(storage: Storage, manifest: Manifest) -> None:
    publish_literal(storage, manifest)
    published = find(storage, DAY)
    assert [s.records for s in published.of_split("train")] == [8, 6]
    assert [s.records for s in published.of_split(None)] == [2, 8, 6]
    with pytest.raises(InputError) as caught:
        published.of_split("tset")
    assert str(caught.value) == "toutiao_ctr 2019-06-05, generation 1 has no split 'tset'; it has train, eval."
