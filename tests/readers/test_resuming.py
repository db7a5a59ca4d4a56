"""A stream goes on from a state: exactly where it was, with new days from the next epoch on, or not at all."""

from __future__ import annotations

import gc
import json
import threading
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.errors import ContractError, InputError, UsageError
from ctr_samples.readers import Batches, iter_batches
from ctr_samples.shards import open_storage
from ctr_samples.shards.generations import mark_forgotten
from tests.support.forks import fork
from tests.support.small_days import CONTRACT, published, rows

FIRST, SECOND = "2019-06-05", "2019-06-06"


def read(root: Path, *days: str, **more: Any) -> Batches:
    return iter_batches(root, **{"dates": days or (FIRST,), "split": "train", "batch_size": 32, "epochs": 2, **more})


def ids(batches: Batches, most: int | None = None) -> list[list[int]]:
    """The ids of the next batches, of all that are left unless a number is given."""
    found = []
    while most is None or len(found) < most:
        batch = next(batches, None)
        if batch is None:
            break
        found.append(batch.keys["impression_id"].tolist())
    return found


def state_after(batches: Batches, count: int) -> Any:
    """The state after some batches, as it comes back from a file."""
    ids(batches, count)
    return json.loads(json.dumps(batches.state_dict()))


def go_on(batches: Batches, state: Any) -> list[list[int]]:
    batches.load_state_dict(state)
    return ids(batches)


def publish_again(root: Path, contract: ExampleContract = CONTRACT) -> None:
    """Publish generation 2 of the first day, with other samples."""
    run, parent = "20190607T020000-bbbbbbbb", "20190606T020000-aaaaaaaa"
    published(root, contract, lambda split, first: rows(5000 + first, 50), generation=2, run=run, parent=parent)


@pytest.fixture
def two_days(tmp_path: Path) -> Path:
    published(tmp_path)
    published(tmp_path, CONTRACT, lambda split, first: rows(1000 + first, 50), day=SECOND)
    return tmp_path


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"shuffle": 64, "seed": 3},
        {"shuffle": True, "shard": (0, 3)},
        {"shuffle": True, "shard": (2, 3), "batch_size": 7},
        {"drop_remainder": True, "shard": (1, 2), "shuffle": 32},
        {"skip": 5},
    ],
)
def test_a_stream_goes_on_with_exactly_the_next_batch(samples: Path, more: dict[str, Any]) -> None:
    whole = ids(read(samples, **more))
    half = len(whole) // 2  # where the second epoch begins, unless some batches are skipped
    for count in (0, 1, half - 1, half, half + 1, len(whole) - 1, len(whole)):
        state = state_after(read(samples, **more), count)
        assert go_on(read(samples, **more), state) == whole[count:]


def test_a_state_is_loaded_wherever_the_iterator_is(samples: Path) -> None:
    batches = read(samples, shuffle=True)
    state = state_after(batches, 5)
    rest = ids(batches)
    assert go_on(batches, state) == rest  # it had ended
    batches.load_state_dict(state)
    ids(batches, 9)
    assert go_on(batches, state) == rest
    batches.close()
    assert next(batches, None) is None
    assert go_on(batches, state) == rest


def test_loading_a_state_reads_nothing_yet_and_gives_it_back(samples: Path) -> None:
    state = state_after(read(samples), 17)
    before = threading.enumerate()
    batches = read(samples)
    batches.load_state_dict(state)
    assert threading.enumerate() == before
    assert batches.state_dict() == state == {
        "version": 1,
        "path": str(samples),
        "split": "train",
        "batch_size": 32,
        "shuffle": False,
        "seed": 0,
        "shard": [0, 1],
        "drop_remainder": False,
        "epoch": 1,
        "batch": 4,
        "days": [[FIRST, 1, "20190606T020000-aaaaaaaa"]],
    }  # fmt: skip


def test_more_epochs_may_follow(samples: Path) -> None:
    state = state_after(read(samples, shuffle=True, epochs=1), 13)
    assert go_on(read(samples, shuffle=True, epochs=1), state) == []
    assert go_on(read(samples, shuffle=True, epochs=3), state) == ids(read(samples, shuffle=True, epochs=3))[13:]


@pytest.mark.parametrize("shuffle", [False, True])
def test_an_epoch_ends_over_its_days_and_the_next_one_has_the_new_day(two_days: Path, shuffle: bool) -> None:
    before = read(two_days, FIRST, shuffle=shuffle)
    state = state_after(before, 5)
    rest_of_epoch = ids(before, 8)
    both = ids(read(two_days, FIRST, SECOND, shuffle=shuffle))
    after = read(two_days, FIRST, SECOND, shuffle=shuffle)
    assert go_on(after, state) == rest_of_epoch + both[25:]
    for count in (3, 8, 20):  # a second interruption, before and behind the end of that epoch
        after.load_state_dict(state)
        later = state_after(after, count)
        assert go_on(read(two_days, FIRST, SECOND, shuffle=shuffle), later) == (rest_of_epoch + both[25:])[count:]


def test_a_day_that_is_left_out_is_read_to_the_end_of_its_epoch(two_days: Path) -> None:
    before = read(two_days, FIRST, SECOND, shuffle=True)
    state = state_after(before, 24)
    assert go_on(read(two_days, SECOND, shuffle=True), state) == [
        *ids(before, 1),
        *ids(read(two_days, SECOND, shuffle=True))[13:],
    ]


def test_days_in_another_order_do_not_change_an_epoch_that_has_begun(two_days: Path) -> None:
    before = read(two_days, FIRST, SECOND, epochs=1)
    state = state_after(before, 5)
    assert go_on(read(two_days, SECOND, FIRST, epochs=1), state) == ids(before)


def test_an_epoch_ends_over_the_generation_with_which_it_began(two_days: Path) -> None:
    before = read(two_days)
    state = state_after(before, 5)
    publish_again(two_days)
    assert go_on(read(two_days), state) == [*ids(before, 8), *ids(read(two_days, epochs=1))]


def test_a_generation_whose_files_are_gone_is_told_and_the_next_epoch_can_begin(two_days: Path) -> None:
    state = state_after(read(two_days), 5)
    publish_again(two_days)
    for shard in two_days.glob(f"dt={FIRST}/data/*aaaaaaaa/train/*"):
        shard.unlink()
    batches = read(two_days)
    with pytest.raises(
        InputError, match="in the middle of an epoch over samples that cannot be read any more: .* is missing"
    ):
        batches.load_state_dict(state)
    assert go_on(batches, {**state, "epoch": 1, "batch": 0}) == ids(read(two_days, epochs=1))


def test_another_run_with_the_same_number_is_not_taken_for_it(two_days: Path) -> None:
    state = state_after(read(two_days), 5)
    state["days"][0][2] = "20190606T030000-cccccccc"
    with pytest.raises(InputError, match="is of run .*-aaaaaaaa, but the state is of run .*-cccccccc"):
        read(two_days).load_state_dict(state)


def test_a_state_of_an_older_release_that_reads_a_day_twice_is_refused(two_days: Path) -> None:
    state = state_after(read(two_days), 5)
    state["days"].append(state["days"][0])
    with pytest.raises(
        InputError, match="2019-06-05 is there twice, so its samples would .* `epoch` and set its `batch`"
    ):
        read(two_days).load_state_dict(state)


def test_users_who_were_forgotten_are_not_read_again(two_days: Path) -> None:
    state = state_after(read(two_days), 5)
    publish_again(two_days)
    mark_forgotten(open_storage(two_days), date(2019, 6, 5), 2)
    with pytest.raises(
        InputError, match="Generation 1 of 2019-06-05 may have samples of users who were forgotten since"
    ):
        read(two_days).load_state_dict(state)


def test_a_day_that_has_another_contract_now_is_refused(two_days: Path) -> None:
    state = state_after(read(two_days), 5)
    publish_again(two_days, ExampleContract((FeatureSpec("number", "float32"), *CONTRACT.features[1:])))
    with pytest.raises(ContractError, match=r"samples with another contract \(feature 'number' differs\); begin anew"):
        read(two_days).load_state_dict(state)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"path": "/other"}, "with `path` '/other', this one has '/.*'; load it into one with the same arguments"),
        ({"batch_size": 16}, "with `batch_size` 16, this one has 32"),
        ({"seed": 8}, "with `seed` 8, this one has 7"),
        ({"split": "eval"}, "with `split` 'eval', this one has 'train'"),
        ({"shuffle": False}, "with `shuffle` False, this one has True"),
        ({"shuffle": 1}, "with `shuffle` 1, this one has True"),
        (
            {"shard": [1, 2]},
            "state is of worker 1 of 2, this is worker 0 of 2; load the states of all 2 workers, as a list",
        ),
        (
            {"shard": [0, 3]},
            "state is of worker 0 of 3, this is worker 0 of 2; load the states of all 3 workers, as a list",
        ),
        ({"shard": [2, 2]}, "no state of an iterator: shard is a list of 2, expected a worker and a number of workers"),
        (
            {"rest": [[0, [[0, 3, 0, 500]], [[FIRST, 1, "20190606T020000-aaaaaaaa"]]]]},
            "The state has a `rest` of other samples",
        ),
        ({"drop_remainder": True}, "with `drop_remainder` True, this one has False"),
        ({"version": 2}, "with `version` 2, this one has 1"),
        ({"epoch": "1"}, "no state of an iterator: epoch is '1', expected a whole number"),
        ({"batch": -1}, "no state of an iterator: batch is -1, expected a number from 0"),
        ({"days": [[FIRST]]}, r"no state of an iterator: days\[0\] is a list of 1, expected a list of 3"),
        ({"days": []}, "no state of an iterator: days is a list of 0, expected at least one day"),
        ({"more": 1}, "no state of an iterator: it has the unknown key 'more'"),
        ({"batch": 7}, "has batch 7 of an epoch of 7 batches"),
    ],
)
def test_a_state_that_does_not_fit_is_refused_and_changes_nothing(
    samples: Path, change: dict[str, Any], message: str
) -> None:
    arguments = {"shuffle": True, "seed": 7, "shard": (0, 2)}
    state = state_after(read(samples, **arguments), 3)
    batches = read(samples, **arguments)
    with pytest.raises(UsageError, match=message):
        batches.load_state_dict({**state, **change})
    assert go_on(batches, state) == ids(read(samples, **arguments))[3:]


@pytest.mark.parametrize("state", [None, 3, {}])
def test_what_is_no_state_at_all_is_told(samples: Path, state: Any) -> None:
    with pytest.raises(
        UsageError, match="This is no state of an iterator: it .*; pass what `state_dict\\(\\)` returned"
    ):
        read(samples).load_state_dict(state)


def test_an_iterator_that_had_begun_before_a_fork_is_told_in_the_child_and_one_that_had_not_is_read(
    samples: Path,
) -> None:
    begun, fresh = read(samples), read(samples)
    ids(begun, 1)
    state = begun.state_dict()
    told = fork(lambda: ids(begun, 1)).outcome()
    assert told.error == "UsageError"
    assert "was begun before its process was forked" in told.message
    whole = ids(read(samples))
    assert fork(lambda: ids(fresh)).outcome().value == whole
    assert fork(lambda: go_on(begun, state)).outcome().value == whole[1:]
    assert ids(begun) == whole[1:]


def test_an_iterator_that_is_let_go_leaves_no_thread(samples: Path) -> None:
    before = threading.enumerate()
    gc.disable()  # no cycle may keep it
    try:
        for batches in (read(samples, shuffle=32, epochs=None, threads=3),):
            ids(batches, 5)
        assert threading.enumerate() != before
        del batches
        assert threading.enumerate() == before
    finally:
        gc.enable()
