"""Going back to an earlier generation: what it has becomes the next one, and nothing else changes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from ctr_samples.errors import DamagedFile, InputError, PublishConflict, StorageError, UsageError
from ctr_samples.shards import Manifest, Storage, latest_manifest, read_manifest, require_manifest
from ctr_samples.shards import generation_history as rollbacks
from ctr_samples.shards.clean import Retention, carry_out, cleanup_of_day
from ctr_samples.shards.generation_history import generations_of, rollback
from ctr_samples.shards.manifest import Rollback
from tests.shards.files import grow_old
from tests.support.small_publish import by_another_run, publish_day, publish_literal, runs_of_day
from tests.support.strange_files import STRANGE, replace_by

DAY = date(2019, 6, 5)
NOW = datetime(2019, 6, 9, 8, tzinfo=UTC)
RUNS = ["20190606T020000-aaaaaaaa", "20190607T020000-bbbbbbbb", "20190608T020000-cccccccc"]


@pytest.fixture
def thrice(storage: Storage, manifest: Manifest) -> Storage:
    """A day with three generations."""
    for number, run in enumerate(RUNS, 1):
        publish_literal(storage, by_another_run(manifest, run, generation=number, seconds=number))
    return storage


def go_back(storage: Storage, to: int, digits: str = "dddddddd") -> Manifest:
    return rollback(storage, DAY, to, NOW, digits)


def test_the_content_of_an_earlier_generation_becomes_the_next_one(thrice: Storage) -> None:
    before = {file.path: thrice.read(file.path) for file in thrice.files("")}
    made = go_back(thrice, 1)
    first = read_manifest(thrice, DAY, 1)
    assert latest_manifest(thrice, DAY) == made
    assert made == replace(
        first,
        generation=4,
        run_id="20190609T080000-dddddddd",
        parent=RUNS[2],
        created_at="2019-06-09T08:00:00+00:00",
        rollback=Rollback(1, RUNS[0]),
    )
    after = {file.path: thrice.read(file.path) for file in thrice.files("")}
    assert after == {**before, "dt=2019-06-05/manifests/00000004.json": made.to_json()}


def test_a_rollback_of_a_rollback_has_the_files_of_the_first(thrice: Storage) -> None:
    go_back(thrice, 2)
    publish_literal(thrice, replace(read_manifest(thrice, DAY, 3), generation=5))
    made = go_back(thrice, 4, "eeeeeeee")
    assert (made.generation, made.rollback, made.made_by) == (6, Rollback(4, RUNS[1]), RUNS[1])
    assert made.shards == read_manifest(thrice, DAY, 2).shards


def test_a_history_says_what_was_gone_back_to(thrice: Storage) -> None:
    go_back(thrice, 1)
    assert [line.note for line in generations_of(thrice, DAY)] == ["", "", "", "rollback to 1, what readers see"]


def test_later_runs_number_on_from_a_rollback(storage: Storage) -> None:
    for run in (1, 2):
        publish_day(storage, run)
    go_back(storage, 1)
    current = require_manifest(storage, DAY)
    assert current.made_by == "20190606T020000-00000001"
    publish_day(storage, 3)
    assert runs_of_day(storage) == [3]
    assert (require_manifest(storage, DAY).generation, require_manifest(storage, DAY).parent) == (4, current.run_id)


def test_clean_up_leaves_what_was_gone_back_to(thrice: Storage) -> None:
    go_back(thrice, 1)
    grow_old(thrice)
    carry_out(thrice, cleanup_of_day(thrice, DAY, Retention(generations=1)))
    assert thrice.names("dt=2019-06-05/data") == [RUNS[0]]
    assert [line.note for line in generations_of(thrice, DAY)] == [
        "",
        "cleaned",
        "cleaned",
        "rollback to 1, what readers see",
    ]


@pytest.mark.parametrize("kind", STRANGE)
def test_a_day_goes_back_past_whatever_has_the_name_of_a_manifest(thrice: Storage, kind: str) -> None:
    replace_by(kind, Path(thrice.locate("dt=2019-06-05/manifests/00000003.json")))
    with pytest.raises((DamagedFile, StorageError), match=r"00000003\.json"):
        require_manifest(thrice, DAY)
    notes = [line.note for line in generations_of(thrice, DAY)]
    assert notes[:2] == ["", ""]
    assert notes[2].endswith(", what readers see")
    made = go_back(thrice, 2)
    assert (made.generation, made.parent, made.made_by) == (4, None, RUNS[1])
    with pytest.raises((DamagedFile, StorageError), match=r"00000003\.json"):
        go_back(thrice, 3)


def test_of_two_at_once_one_goes_back_and_the_other_is_a_conflict(
    thrice: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish = rollbacks.publish

    def overtaken(storage: Storage, manifest: Manifest) -> None:
        monkeypatch.setattr(rollbacks, "publish", publish)
        go_back(storage, 1, "eeeeeeee")
        publish(storage, manifest)

    monkeypatch.setattr(rollbacks, "publish", overtaken)
    with pytest.raises(PublishConflict, match="Run 20190609T080000-eeeeeeee published .*00000004.json first") as caught:
        go_back(thrice, 1)
    assert caught.value.exit_code == 4
    assert require_manifest(thrice, DAY).run_id == "20190609T080000-eeeeeeee"


def test_a_generation_that_was_cleaned_cannot_come_back(thrice: Storage) -> None:
    thrice.delete_directory(f"dt=2019-06-05/data/{RUNS[0]}")
    with pytest.raises(
        DamagedFile, match="though a task wrote it; so generation 1 cannot be restored. Choose another one, or run"
    ):
        go_back(thrice, 1)
    assert len(thrice.names("dt=2019-06-05/manifests")) == 3


def test_a_clean_up_that_comes_between_is_told(thrice: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    publish = rollbacks.publish

    def cleaned_after(storage: Storage, manifest: Manifest) -> None:
        publish(storage, manifest)
        storage.delete_directory(f"dt=2019-06-05/data/{RUNS[0]}")

    monkeypatch.setattr(rollbacks, "publish", cleaned_after)
    with pytest.raises(
        DamagedFile, match="though a task wrote it; so generation 4 cannot be read. Roll back to another one, or run"
    ):
        go_back(thrice, 1)


def test_what_cannot_be_gone_back_to_is_said(thrice: Storage) -> None:
    with pytest.raises(UsageError, match="Readers already see generation 3 of 2019-06-05; choose an earlier one"):
        go_back(thrice, 3)
    with pytest.raises(InputError, match=r"has no generation 7 of 2019-06-05; it has 1, 2, 3\. Choose"):
        go_back(thrice, 7)
    with pytest.raises(InputError, match="has no samples of 2019-06-07; it has 2019-06-05 to 2019-06-05"):
        rollback(thrice, date(2019, 6, 7), 1, NOW, "dddddddd")
