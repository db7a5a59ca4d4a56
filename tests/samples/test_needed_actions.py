"""Which actions of a finished day are needed: all that some impression can see, whatever its request, and no other."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product

import pyarrow as pa
import pytest

from ctr_samples.samples.histories import _UNKNOWN, ITEM, KEY, REQUEST, HistoryPlan, Seen, needed_of

Action = tuple[str, str | None]
"""An item, and the request of the action on it."""


def needed_of_key(actions: Sequence[Action], last: int) -> list[int]:
    """The places, newest first, of the actions that are needed."""
    seen = Seen(last)
    return [place for place, (item, request) in enumerate(actions) if seen.needs(item, request)]


def seen_by_someone(actions: Sequence[Action], last: int) -> list[int]:
    """The definition: what an impression of any request, or of none, has in its history."""
    places = set[int]()
    for own in {None, *(request for _, request in actions)}:
        newest: dict[str, int] = {}
        for place, (item, request) in enumerate(actions):
            if own is None or request != own:
                newest.setdefault(item, place)
        places.update(list(newest.values())[:last])
    return sorted(places)


@pytest.mark.parametrize("seed", range(20))
def test_needed_are_those_actions_that_an_impression_of_some_request_sees(seed: int) -> None:
    chance = random.Random(seed)
    for items, requests, last in product((2, 5, 30), (1, 2, 6, 40), (1, 2, 3, 10)):
        names = [None, *(f"r{n}" for n in range(requests))]
        actions = [(f"i{chance.randrange(items)}", chance.choice(names)) for _ in range(chance.randrange(80))]
        assert needed_of_key(actions, last) == seen_by_someone(actions, last), (actions, last)


@pytest.mark.parametrize("requests", [1, 2, 10_000])
def test_of_a_key_with_many_actions_little_is_remembered(requests: int) -> None:
    seen = Seen(last=10)
    needed = [n for n in range(10_000) if seen.needs(f"i{n}", f"r{n % requests}")]
    assert len(needed) <= 20
    assert len(seen.items) <= 20
    assert len(seen.short) <= 10


@pytest.mark.parametrize("rows_of_a_batch", [1, 2, 3, 100])
def test_each_key_is_judged_alone_wherever_batches_end(rows_of_a_batch: int) -> None:
    rows = [
        {KEY: key, ITEM: item, REQUEST: request, _UNKNOWN: unknown}
        for key, item, request, unknown in [
            ("u1", "i1", "r1", True),
            ("u1", "i2", "r1", True),
            ("u1", "i1", "r1", False),
            ("u1", "i2", "r2", False),
            ("u1", "i3", "r2", False),
            ("u2", "i1", "r1", False),
            ("u2", "i1", "r1", False),
            ("u2", "i1", "r2", False),
        ]
    ]
    schema = pa.schema({name: pa.bool_() if " " in name else pa.string() for name in rows[0]})
    table = pa.Table.from_pylist(rows, schema)
    plan = HistoryPlan("clicks", last=1, by_request=True)
    found = pa.Table.from_batches(needed_of(table.to_batches(max_chunksize=rows_of_a_batch), plan))
    assert [tuple(row.values()) for row in found.to_pylist()] == [
        ("u1", "i1", "r1"),
        ("u1", "i2", "r1"),
        ("u1", "i1", "r1"),
        ("u1", "i2", "r2"),
        ("u2", "i1", "r1"),
        ("u2", "i1", "r2"),
    ]


def test_text_that_is_no_utf8_is_judged_by_its_bytes() -> None:
    text = [
        pa.array(values, pa.binary()).view(pa.string())
        for values in ([b"\xff"] * 3, [b"\xfe", b"\xfd", b"\xfe"], [None] * 3)
    ]
    rows = pa.RecordBatch.from_arrays([*text, pa.array([False] * 3)], [KEY, ITEM, REQUEST, _UNKNOWN])
    (found,) = needed_of([rows], HistoryPlan("clicks", last=2))
    assert found.column(ITEM).view(pa.binary()).to_pylist() == [b"\xfe", b"\xfd"]


def test_the_own_request_is_no_matter_where_impressions_have_none() -> None:
    rows = {KEY: [1, 1], ITEM: [7, 7], REQUEST: ["r1", "r2"], _UNKNOWN: [False, False]}
    found = needed_of(pa.table(rows).to_batches(), HistoryPlan("clicks", last=1))
    assert [batch.num_rows for batch in found] == [1]
