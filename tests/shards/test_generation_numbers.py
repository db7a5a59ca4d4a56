"""The number of a generation is the name of its manifest; one that says something else was put there by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from ctr_samples.errors import DamagedFile, InputError, PublishConflict
from ctr_samples.shards import Manifest, Storage, Table, latest_manifest, read_manifest, require_manifest
from ctr_samples.shards.clean import Retention, cleanup_of_day
from ctr_samples.shards.generation_history import generations_of
from ctr_samples.shards.generations import following
from ctr_samples.shards.published import find
from ctr_samples.shards.sealed import sealed
from ctr_samples.shards.states import latest_state, publish_state, state_before
from ctr_samples.vocabulary import FittedState, FittedVocabulary
from tests.support.small_publish import append, by_another_run, publish_day, publish_literal

DAY = date(2019, 6, 5)
MANIFESTS = "dt=2019-06-05/manifests"


def copy(storage: Storage, source: str, target: str) -> None:
    """As ``cp`` does."""
    Path(storage.locate(target)).parent.mkdir(parents=True, exist_ok=True)
    Path(storage.locate(target)).write_bytes(storage.read(source))


@pytest.fixture
def twice(storage: Storage, manifest: Manifest) -> Storage:
    """A day with two generations."""
    publish_literal(storage, manifest)
    publish_literal(storage, by_another_run(manifest, "20190607T020000-bbbbbbbb", generation=2))
    return storage


@pytest.mark.parametrize(("source", "target"), [(1, 3), (2, 4), (1, 2), (2, 99_999_999)])
def test_a_copied_manifest_is_refused_by_who_reads_and_who_writes_with_the_way_back(
    twice: Storage, source: int, target: int
) -> None:
    copy(twice, f"{MANIFESTS}/{source:08}.json", f"{MANIFESTS}/{target:08}.json")
    message = (
        f"{twice.locate(MANIFESTS)}/{target:08}.json says it is generation {source} of 2019-06-05, so it was copied or "
        "renamed; move it away. Then go back to an earlier generation with "
        f"`ctr-samples rollback {twice.url} 2019-06-05 --to N`."
    )
    readers: list[Any] = [
        latest_manifest,
        require_manifest,
        find,
        lambda *place: read_manifest(*place, target),
        lambda *place: cleanup_of_day(*place, Retention()),
    ]
    for read in readers:
        with pytest.raises(DamagedFile) as caught:
            read(twice, DAY)
        assert str(caught.value) == message
    with pytest.raises(DamagedFile, match="copied or renamed"):
        publish_day(twice, 3)


def test_a_history_goes_on_past_what_is_missing_or_was_put_there_by_hand(twice: Storage) -> None:
    copy(twice, f"{MANIFESTS}/00000001.json", f"{MANIFESTS}/00000005.json")
    copy(twice, f"{MANIFESTS}/00000002.json", f"{MANIFESTS}/99999999.json")
    twice.delete(f"{MANIFESTS}/00000001.json")
    lines = [(line.generation, line.records, line.note) for line in generations_of(twice, DAY)]
    assert [(number, records) for number, records, _ in lines] == [
        (1, None),
        (2, 16),
        (3, None),
        (5, None),
        (6, None),
        (99_999_999, None),
    ]
    notes = [note for _, _, note in lines]
    assert (notes[0], notes[2], notes[4]) == (
        "missing",
        "missing, as are all up to 4",
        "missing, as are all up to 99999998",
    )
    assert "says it is generation 1 of 2019-06-05" in notes[3]
    assert notes[5].endswith(", what readers see")


def test_the_next_number_is_that_behind_the_highest_name_whatever_is_missing_before_it(
    storage: Storage, manifest: Manifest
) -> None:
    publish_literal(storage, replace(manifest, generation=41))
    current = latest_manifest(storage, DAY)
    assert current is not None
    assert following(current.generation, "") == 42
    with pytest.raises(PublishConflict):
        publish_literal(storage, by_another_run(manifest, "20190607T020000-bbbbbbbb", generation=41))


def test_a_day_or_table_whose_numbers_have_run_out_is_refused(storage: Storage, manifest: Manifest) -> None:
    publish_literal(storage, replace(manifest, generation=99_999_999))
    with pytest.raises(InputError) as caught:
        following(require_manifest(storage, DAY).generation, storage.locate(MANIFESTS))
    assert str(caught.value) == (
        f"{storage.locate(MANIFESTS)} holds 99999999.json, the last name a manifest can have, so there is no next "
        "generation. If somebody put it there by hand, move it away; otherwise write to a new directory."
    )
    assert following(99_999_998, "") == 99_999_999


def test_nothing_is_published_that_readers_would_not_see(storage: Storage, manifest: Manifest) -> None:
    with pytest.raises(
        DamagedFile, match="Nothing was published: .*generation is 100000000, expected a number from 1 to"
    ):
        publish_literal(storage, replace(manifest, generation=100_000_000))
    assert storage.names(MANIFESTS) == []


# Tables and fitted states.


@pytest.mark.parametrize("target", [3, 4, 99_999_999])
def test_a_copied_manifest_of_a_table_is_refused_by_who_reads_and_who_writes(storage: Storage, target: int) -> None:
    for run in (1, 2):
        append(storage, run)
    copy(storage, "_manifests/00000001.json", f"_manifests/{target:08}.json")
    with pytest.raises(
        DamagedFile, match=rf"{target:08}\.json says it is generation 1, so it was copied or renamed; move"
    ):
        Table(storage).current()
    with pytest.raises(DamagedFile, match="copied or renamed"):
        append(storage, 3)
    assert [line.records for line in generations_of(storage, None) if line.records] == [8, 16]
    storage.delete(f"_manifests/{target:08}.json")
    append(storage, 3)
    table = Table(storage).current()
    assert table is not None
    assert (table.generation, table.records) == (3, 24)


def test_a_table_whose_numbers_have_run_out_is_refused(storage: Storage) -> None:
    append(storage, 1)
    last = {**json.loads(storage.read("_manifests/00000001.json")), "generation": 99_999_999}
    storage.put_new("_manifests/99999999.json", sealed(last))
    with pytest.raises(InputError, match="the last name a manifest can have"):
        append(storage, 2)
    assert storage.names("_manifests") == ["00000001.json", "99999999.json"]


def test_a_table_whose_chain_lists_a_shard_twice_is_refused(storage: Storage) -> None:
    for run in (1, 2):
        append(storage, run)
    first, second = (json.loads(storage.read(f"_manifests/0000000{number}.json")) for number in (1, 2))
    storage.delete("_manifests/00000002.json")
    storage.put_new("_manifests/00000002.json", sealed({**second, "shards": first["shards"]}))
    with pytest.raises(DamagedFile, match="two of the generations 1 to 2 list the same shard"):
        Table(storage).current()


def state(version: int, day: str) -> FittedState:
    return FittedState(
        name="tiny",
        lineage="aaaa",
        version=version,
        run_id=f"20190606T020000-0000000{version}",
        created_at="2019-06-06T02:00:00+00:00",
        days=(day,),
        declared={},
        vocabularies={"cities": FittedVocabulary(("ulm", "bonn")[:version], 1, 10)},
    )


def test_a_copied_version_of_a_fitted_state_is_refused(storage: Storage) -> None:
    publish_state(storage, state(1, "2019-06-04"))
    publish_state(storage, state(2, "2019-06-05"))
    assert latest_state(storage) == state(2, "2019-06-05")
    copy(storage, "versions/00000001.json", "versions/00000003.json")
    for read in (latest_state, lambda at: state_before(at, date(2019, 6, 5))):
        with pytest.raises(
            DamagedFile, match=r"00000003\.json says it is version 1, so it was copied or renamed; move"
        ):
            read(storage)


def test_a_fitted_state_that_was_changed_is_refused(storage: Storage) -> None:
    publish_state(storage, state(1, "2019-06-04"))
    path = Path(storage.locate("versions/00000001.json"))
    path.write_text(path.read_text().replace("2019-06-04", "2019-06-03"))
    with pytest.raises(DamagedFile, match="was changed after it was written: its checksum is"):
        latest_state(storage)
