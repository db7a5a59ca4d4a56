"""What a person reads after a run."""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ctr_samples.job.many_days import DayOutcome
from ctr_samples.job.summary import DayLine, run_summary
from ctr_samples.shards import Shard, open_storage
from tests.support.manifests import RUN, manifest

GIB = 2**30


def said(root: Path, sizes: Sequence[int] = (), **facts: Any) -> str:
    shards = [
        Shard(f"data/{RUN}/train/part-{n:05d}-1-aaaaaaaa.tfrecord", "train", n, 1, size, 0)
        for n, size in enumerate(sizes)
    ]
    console = Console(file=io.StringIO(), width=160, record=True)
    console.print(run_summary(manifest(shards=tuple(shards), **facts), open_storage(root), published=True))
    return console.export_text()


def test_tasks_that_write_too_much_are_told_with_the_number_that_would_not(tmp_path: Path) -> None:
    assert "2 tasks wrote 6 GiB each; set `output.partitions: 8` for smaller tasks." in said(
        tmp_path, [5 * GIB, 7 * GIB]
    )


@pytest.mark.parametrize("sizes", [[4 * GIB, 4 * GIB], [1], []])
def test_nothing_is_said_of_tasks_that_write_no_more_than_they_can_sort(tmp_path: Path, sizes: list[int]) -> None:
    assert "output.partitions" not in said(tmp_path, sizes)


@pytest.mark.parametrize(
    ("flips", "in_summary"),
    [
        ({"flipped_to_1": 0, "flipped_to_0": 0}, "0  flipped since generation 1"),
        ({"flipped_to_1": 0, "flipped_to_0": 0, "changed": 2}, "0  flipped since generation 1, 2 changed value"),
        ({"flipped_to_1": 3, "flipped_to_0": 0}, "3  flipped since generation 1: 3 to 1, 0 to 0"),
    ],
)
def test_labels_that_did_not_flip_are_told_in_few_words(tmp_path: Path, flips: dict[str, int], in_summary: str) -> None:
    label = {"actions": 9, "orphans": 4, "flips": {"against": 1, **flips}}
    lines = [line.strip() for line in said(tmp_path, labels={"clicked": label}).splitlines()]
    assert in_summary in lines
    assert "clicked                9  actions on the day, 4 without an impression" in lines


@pytest.mark.parametrize(("final", "note"), [(True, "published"), (False, "published, labels not final")])
def test_the_table_of_many_days_says_whose_labels_are_not_final(final: bool, note: str) -> None:
    outcome = DayOutcome(date(2019, 6, 5), "published", 1.0, manifest(label_mature=final))
    assert DayLine.of(outcome).note == note
