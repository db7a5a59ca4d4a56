"""Warnings about tasks that hold too many rows."""

from __future__ import annotations

from ctr_samples.samples.columnar.blocks import Counts
from ctr_samples.samples.watches.all import crowded

GIB = 1 << 30


def held(name: str, *shares: int) -> Counts:
    counts = Counts()
    for share in shares:
        counts.add(f"held.{name}", share)
        counts.extend(f"held.{name}", share, share)
    return counts


def test_tasks_that_hold_little_are_no_warning() -> None:
    assert list(crowded(held("views", GIB, GIB), 2, 2)) == []


def test_too_few_tasks_are_told_how_many_would_do() -> None:
    assert list(crowded(held("labels", 5 * GIB, 7 * GIB), 2, 9)) == [
        "A task of the stage `labels` held 7 GiB of rows, and needs up to 4 times as much; set "
        "`spark.sql.shuffle.partitions` to 48, now 2."
    ]


def test_tasks_that_write_have_their_own_setting() -> None:
    (sentence,) = crowded(held("order", 2 * GIB), 9, 1)
    assert sentence.endswith("set `output.partitions` to 8, now 1.")


def test_a_frequent_key_needs_memory_and_no_more_tasks() -> None:
    (sentence,) = crowded(held("labels", 3 * GIB, *[GIB // 100] * 19), 20, 9)
    assert "because few keys have most of them. Give Python more memory" in sentence
