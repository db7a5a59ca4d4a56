"""Which records a worker reads, decided from counts: each once, whatever is skipped, shuffled or split."""

from __future__ import annotations

from itertools import chain

import pytest

from ctr_samples.readers.order import (
    Block,
    Epoch,
    Order,
    Piece,
    after,
    cut,
    deal,
    epochs_after,
    share,
    take_turns,
)

COUNTS = (7, 30, 1, 12, 25, 9)


def read(order: Order, number: int = 0, skip: int = 0) -> list[tuple[int, int]]:
    """The records (shard, place) in the order in which they come."""
    epoch = order.epoch(number, skip)
    lanes = [chain.from_iterable([(p.shard, n) for n in range(p.first, p.stop)] for p in lane) for lane in epoch.lanes]
    records = []
    for block in epoch.blocks:
        rows = [next(lanes[block.lane]) for _ in range(block.records)]
        if order.shuffle:
            rows = [rows[i] for i in order.permutation(number, block.number, block.records)]
        records += rows[block.drop :]
    assert all(next(lane, None) is None for lane in lanes)
    return records


EVERY = [(shard, n) for shard, count in enumerate(COUNTS) for n in range(count)]


def test_without_shuffling_records_come_as_they_were_published() -> None:
    assert read(Order(COUNTS, 8)) == read(Order(COUNTS, 8), number=3) == EVERY


def test_a_shuffled_epoch_has_every_record_once_in_an_order_of_its_own() -> None:
    order = Order(COUNTS, 8, shuffle=True, seed=5)
    first, second = read(order, 0), read(order, 1)
    assert sorted(first) == sorted(second) == EVERY
    assert EVERY != first != second
    assert order.epoch(0).lanes != order.epoch(1).lanes
    assert read(Order(COUNTS, 8, shuffle=True, seed=5)) == first
    assert read(Order(COUNTS, 8, shuffle=True, seed=6)) != first


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("workers", [1, 2, 3, 50, 100])
def test_workers_share_the_records_evenly_and_each_is_read_by_one(shuffle: bool, workers: int) -> None:
    parts = [read(Order(COUNTS, 4, shuffle, 1, worker, workers)) for worker in range(workers)]
    assert sorted(chain.from_iterable(parts)) == EVERY
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert [len(part) for part in parts] == [share(len(EVERY), worker, workers) for worker in range(workers)]


@pytest.mark.parametrize("shuffle", [False, True])
def test_whatever_is_skipped_the_rest_is_the_same(shuffle: bool) -> None:
    order = Order(COUNTS, 8, shuffle, 2, 1, 2)
    whole = read(order, 4)
    for skip in range(len(whole) + 1):
        assert read(order, 4, skip) == whole[skip:]


def test_shards_that_lie_before_the_start_are_not_opened() -> None:
    assert Order((10, 10, 10), 4).epoch(0, 13).lanes == ((Piece(1, 3, 10), Piece(2, 0, 10)),)


def test_most_leaves_out_the_end() -> None:
    assert read(Order(COUNTS, 8, most=40)) == EVERY[:40]
    assert len(read(Order(COUNTS, 8, True, most=40), 3)) == 40


def test_pieces_are_cut_and_dealt() -> None:
    pieces = [Piece(0, 0, 5), Piece(1, 2, 4), Piece(2, 0, 9)]
    assert cut(pieces, 4, 9) == [Piece(0, 4, 5), Piece(1, 2, 4), Piece(2, 0, 2)]
    assert cut(pieces, 7, 7) == []
    assert deal(pieces, 2) == ((Piece(0, 0, 5), Piece(2, 0, 9)), (Piece(1, 2, 4),))
    assert deal(pieces[:1], 4) == ((Piece(0, 0, 5),),)


def test_lanes_take_turns_and_what_is_left_over_comes_last() -> None:
    assert take_turns([5, 2, 4], 2) == (
        Block(0, 2, 0),
        Block(1, 2, 1),
        Block(2, 2, 2),
        Block(0, 2, 3),
        Block(2, 2, 4),
        Block(0, 1, 5),
    )


def test_a_block_that_is_half_skipped_is_read_whole_and_its_first_rows_are_dropped() -> None:
    epoch = Epoch(((Piece(0, 0, 5),), (Piece(1, 0, 2),)), take_turns([5, 2], 2))
    assert after(epoch, 5) == Epoch(((Piece(0, 2, 5),), ()), (Block(0, 2, 2, drop=1), Block(0, 1, 3)))


def test_epochs_that_are_left_begin_where_the_last_one_was_left() -> None:
    assert list(epochs_after(4, 6, 3)) == [(1, 2), (2, 0)]
    assert list(epochs_after(4, 12, 3)) == []
    assert list(epochs_after(0, 0, None)) == []
    forever = epochs_after(4, 9, None)
    assert [next(forever) for _ in range(3)] == [(2, 1), (3, 0), (4, 0)]
