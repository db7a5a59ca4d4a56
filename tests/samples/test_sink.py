"""The order in which the sink takes samples, and that no rows pass through the driver."""

from __future__ import annotations

import random
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession

from ctr_samples.config import load_config
from ctr_samples.samples import sink
from ctr_samples.samples.columnar.blocks import murmur3_of_longs
from ctr_samples.samples.sink import InOrder, Runs, in_final_order
from ctr_samples.shards import RequestCounts
from tests.support.stages import parts, stage_of, table
from tests.support.tiny_days import write_days
from tests.support.whole_runs import made


def column(*places: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array(places, np.int64)


def test_each_split_is_in_the_order_of_its_hashes() -> None:
    in_order, runs = InOrder(), Runs()
    for split, places in (("eval", (-5, 3, 3)), ("eval", (3, 9)), ("train", (-7, 8))):
        in_order.check(split, [column(*places)])
        runs.add(split, column(*places))
    assert runs.closed() == RequestCounts(5, 1 + 9 + 1 + 1 + 1, 3)


@pytest.mark.parametrize(
    ("split", "places"),
    [("train", (1, 0)), ("train", (-6, 2)), ("eval", (9, 10))],
    ids=["inside a batch", "between two batches", "a split comes again"],
)
def test_samples_out_of_their_order_are_refused(split: str, places: tuple[int, ...]) -> None:
    in_order = InOrder()
    in_order.check("train", [column(-8, -5)])
    with pytest.raises(RuntimeError, match="not in their final order"):
        in_order.check(split, [column(*places)])


def test_requests_are_counted_once_though_batches_and_splits_cut_them() -> None:
    in_order, runs = InOrder(), Runs()
    for split, requests, places in (
        ("eval", column(-5, -5, 3), column(1, 9, 4)),
        ("eval", column(3, 3, 8), column(4, 6, -1)),
        ("train", column(8), column(0)),
        ("train", column(8, 8), column(0, 0)),
    ):
        in_order.check(split, [requests, places])
        runs.add(split, requests)
    assert runs.closed() == RequestCounts(4, 4 + 9 + 1 + 9, 3)


@pytest.mark.parametrize(
    "places",
    [([3, 3], [5, 4]), ([2, 3, 3], [0, 5, 4]), ([3, 2], [4, 5]), ([1, 1], [7, 8])],
    ids=["within a request", "within a later request", "of requests", "within a request that a batch cut"],
)
def test_samples_of_requests_out_of_their_order_are_refused(places: tuple[list[int], list[int]]) -> None:
    in_order = InOrder()
    in_order.check("train", [column(0, 1), column(3, 9)])
    with pytest.raises(RuntimeError, match="not in their final order"):
        in_order.check("train", [column(*of) for of in places])


@pytest.mark.parametrize("order", [("_shuffle",), ("_request", "_shuffle")])
def test_samples_lie_where_their_first_hash_sends_them_sorted_by_split_hashes_and_id(
    order: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink, "shuffle_hashes", hashes := lambda ids: column(-(2**62), 0, 2**62)[ids % 3])
    rng = random.Random(2)
    rows = [(rng.randrange(3), rng.randrange(-9, 9), number) for number in rng.sample(range(300), 300)]
    flat = table("_split tinyint, _request bigint, impression_id bigint", rows)
    shown = flat.select(["impression_id"]).to_struct_array()
    stage = stage_of(flat.drop_columns("impression_id").append_column("impression", shown))
    found = parts(in_final_order(stage, 4, order))
    every = sorted((row._split, row._request, row.impression[0], row._shuffle) for part in found for row in part)
    assert every == sorted((*row, hashes(row[-1])) for row in rows)
    for number, part in enumerate(found):
        keys = [(row._split, *[row[name] for name in order], row.impression.impression_id) for row in part]
        assert keys == sorted(keys)
        assert {int(place) % 4 for place in murmur3_of_longs(np.array([row[order[0]] for row in part], np.int64))} <= {
            number
        }


DAY = date(2019, 6, 5)


@pytest.mark.thorough
def test_samples_are_written_by_tasks_and_never_gathered_on_the_driver(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind: Any = type(spark.range(1))
    collect, collected = kind.collect, list[list[str]]()

    def noting(frame: DataFrame) -> Any:
        collected.append(frame.columns)
        return collect(frame)

    def refused(*_: object) -> None:
        pytest.fail("rows were gathered on the driver")

    for name in ("toPandas", "toArrow", "toLocalIterator"):
        monkeypatch.setattr(kind, name, refused)
    monkeypatch.setattr(kind, "collect", noting)
    found = made(spark, load_config(write_days(tmp_path, DAY, 2), ["output.partitions=3"]), DAY)
    assert len({shard.partition for shard in found.manifest.shards}) > 1, "several tasks wrote"
    assert collected, "the receipts of the tasks are gathered"
    assert all("price" not in columns for columns in collected), collected
