"""Training goes on with another number of workers: together they read what was left of the epoch, each sample once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ctr_samples.errors import UsageError
from ctr_samples.readers import Batches, iter_batches, load_dataset, steps_per_epoch
from ctr_samples.shards.manifest import RequestOrder
from tests.support.small_days import CONTRACT, published, rows

FIRST, SECOND = "2019-06-05", "2019-06-06"
EVERY = 400  # samples of train on a day


def workers_of(root: Path, count: int, *days: str, **more: Any) -> list[Batches]:
    options = {"dates": days or (FIRST,), "split": "train", "batch_size": 7, **more}
    return [iter_batches(root, shard=(n, count), **options) for n in range(count)]


def some(batches: Batches, most: int | None = None) -> list[list[int]]:
    """The ids of the next batches, of all that are left unless a number is given."""
    taken = batches if most is None else (batch for _, batch in zip(range(most), batches, strict=False))
    return [batch.keys["impression_id"].tolist() for batch in taken]


def states_of(workers: Sequence[Batches]) -> Any:
    """The states of all workers, as they come back from a file."""
    return json.loads(json.dumps([worker.state_dict() for worker in workers]))


def loaded(workers: Sequence[Batches], states: Any) -> Sequence[Batches]:
    for worker in workers:
        worker.load_state_dict(states)
    return workers


def counted(*parts: Any) -> Counter[int]:
    return Counter(chain.from_iterable(chain.from_iterable(chain.from_iterable(parts))))


def publish_two_days(root: Path) -> None:
    published(root)
    published(root, CONTRACT, lambda split, first: rows(1000 + first, 50), day=SECOND)


@pytest.fixture(scope="module")
def by_request(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A day whose manifest says that samples of a request are adjacent, so that windows follow their size."""
    root = tmp_path_factory.mktemp("by_request")
    order = RequestOrder(("request",), 100, 4.0, 8)
    published(root, order=order)
    return root


@pytest.mark.parametrize(("before", "after"), [((2, 5, 0), 2), ((20,), 3), ((3, 3), 5), ((30, 30, 30), 2)])
def test_the_rest_of_an_epoch_is_read_once(samples: Path, before: tuple[int, ...], after: int) -> None:
    first = workers_of(samples, len(before), shuffle=True)
    read = [some(worker, count) for worker, count in zip(first, before, strict=True)]
    later = [some(worker) for worker in loaded(workers_of(samples, after, shuffle=True), states_of(first))]
    assert counted(read, later) == dict.fromkeys(range(EVERY), 1)
    sizes = [sum(map(len, batches)) for batches in later]
    assert max(sizes) - min(sizes) <= 1


jobs = st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=5), min_size=1, max_size=3)
"""Jobs one after the other: how many batches each of its workers reads before all are stopped."""


@pytest.mark.thorough
@given(
    jobs, st.integers(1, 5), st.sampled_from([False, True, 16]), st.integers(1, 40), st.integers(1, 2), st.booleans()
)
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_jobs_of_any_number_of_workers_read_each_sample_of_each_epoch_once(
    samples: Path, by_request: Path, stopped: list[list[int]], last: int, shuffle: bool | int, size: int, epochs: int,
    adjacent: bool,
) -> None:  # fmt: skip
    options = {"shuffle": shuffle, "batch_size": size, "epochs": epochs}
    read, states = [], None
    for counts in [*stopped, [None] * last]:
        workers = workers_of(by_request if adjacent else samples, len(counts), **options)
        if states is not None:
            loaded(workers, states)
        read.append([some(worker, count) for worker, count in zip(workers, counts, strict=True)])
        states = states_of(workers)
        for worker in workers:
            worker.close()
    assert counted(*read) == dict.fromkeys(range(EVERY), epochs)


@pytest.mark.thorough
@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 9), st.sampled_from([False, True, 16]))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_workers_that_keep_step_go_on_from_the_state_of_one_and_keep_step(
    samples: Path, before: int, after: int, steps: int, shuffle: bool | int
) -> None:
    options = {"shuffle": shuffle, "drop_remainder": True}
    first = workers_of(samples, before, **options)
    read = [some(worker, steps) for worker in first]
    states = states_of(first)
    later = [[some(worker) for worker in loaded(workers_of(samples, after, **options), one)]
             for one in (states, states[-1])]  # fmt: skip
    assert later[0] == later[1]
    assert len({len(batches) for batches in later[0]}) == 1
    assert {len(batch) for batches in later[0] for batch in batches} <= {7}
    found = counted(read, later[0])
    assert set(found.values()) == {1}
    assert sum(found.values()) > EVERY - 7 * (before + after)


def test_the_order_from_there_is_a_function_of_the_states(samples: Path) -> None:
    first = workers_of(samples, 3, shuffle=True)
    for worker, count in zip(first, (2, 5, 0), strict=True):
        some(worker, count)
    states = states_of(first)
    one, other = ([some(worker) for worker in loaded(workers_of(samples, 2, shuffle=True), some_states)]
                  for some_states in (states, states[::-1]))  # fmt: skip
    assert one == other
    assert states_of(loaded(workers_of(samples, 3, shuffle=True), states)) == states  # as many go on as they were


def test_an_epoch_that_others_began_ends_over_its_days_and_the_next_one_has_the_new_day(tmp_path: Path) -> None:
    publish_two_days(tmp_path)
    first = workers_of(tmp_path, 2, FIRST, shuffle=True, epochs=2)
    read = [some(worker, count) for worker, count in zip(first, (3, 11), strict=True)]
    again = loaded(workers_of(tmp_path, 3, FIRST, SECOND, shuffle=True, epochs=2), states_of(first))
    read += [some(worker, 5) for worker in again]
    last = loaded(workers_of(tmp_path, 1, FIRST, SECOND, shuffle=True, epochs=2), states_of(again))
    read += [some(worker) for worker in last]
    assert counted(read) == {**dict.fromkeys(range(EVERY), 2), **dict.fromkeys(range(1000, 1000 + EVERY), 1)}


def test_epochs_that_began_over_different_days_end_over_them(tmp_path: Path) -> None:
    publish_two_days(tmp_path)
    first = workers_of(tmp_path, 2, FIRST, epochs=3)
    read = [some(worker, 10) for worker in first]
    both = [workers_of(tmp_path, 2, FIRST, SECOND, epochs=3)[n] for n in range(2)]
    for worker, state in zip(both, states_of(first), strict=True):
        worker.load_state_dict(state)
    read += [some(both[0], 30), some(both[1], 4)]  # one is in the next epoch, over both days, and one is not
    read += [some(worker) for worker in loaded(workers_of(tmp_path, 3, FIRST, epochs=3), states_of(both))]
    assert counted(read) == {**dict.fromkeys(range(EVERY), 3), **dict.fromkeys(range(1000, 1000 + EVERY), 1)}


def test_a_state_stays_a_few_numbers(samples: Path) -> None:
    states = states_of(workers_of(samples, 4))
    for count in (3, 5, 2):  # each job stops after a batch
        workers = loaded(workers_of(samples, count), states)
        for worker in workers:
            some(worker, 1)
        states = states_of(workers)
    assert [epoch for epoch, *_ in states[0]["rest"]] == [0]
    assert (
        4 <= len(states[0]["rest"][0][1]) <= 4 + 3 + 5
    )  # spans of the first job, cut where a worker of a later one began


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["native", "tensorflow"])
@pytest.mark.parametrize("shuffle", [False, True])
def test_load_dataset_goes_on_after_the_steps_of_each_of_the_earlier_workers(
    samples: Path, engine: Any, shuffle: bool
) -> None:
    options: dict[str, Any] = {"dates": [FIRST], "split": "train", "batch_size": 7, "shuffle": shuffle, "epochs": 2}
    read = [some(worker, count) for worker, count in zip(workers_of(samples, 3, **options), (2, 20, 5), strict=True)]
    parts = [
        load_dataset(samples, **options, shard=(n, 2), skip=[2, 20, 5], engine=engine, keys=True) for n in range(2)
    ]
    found = [[features["impression_id"].numpy().tolist() for features, _ in part] for part in parts]
    assert [len(part) for part in parts] == [len(batches) for batches in found]
    assert counted(read, found) == dict.fromkeys(range(EVERY), 2)
    same = [iter_batches(samples, **options, shard=(n, 2), skip=[2, 20, 5]) for n in range(2)]
    assert [some(batches) for batches in same] == found
    assert parts[0].steps_per_epoch == steps_per_epoch(
        samples, dates=[FIRST], split="train", batch_size=7, shard=(0, 2)
    )


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ([0, 2], "The states are of the workers 0 of 3, 2 of 3; expected one of each of the 3 workers"),
        ([0, 1, 1], "The states are of the workers 0 of 3, 1 of 3, 1 of 3; expected one of each of the 3 workers"),
        ([1], "The state is of worker 1 of 3, this is worker 0 of 2; load the states of all 3 workers, as a list"),
    ],
)
def test_states_that_are_not_those_of_all_workers_are_refused(samples: Path, chosen: list[int], message: str) -> None:
    states = states_of(workers_of(samples, 3))
    with pytest.raises(UsageError, match=message):
        workers_of(samples, 2)[0].load_state_dict([states[n] for n in chosen])
