"""What a person reads after a run."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from ctr_samples.job.summary import run_summary
from ctr_samples.shards import Shard, open_storage
from tests.support.manifests import RUN, manifest

GIB = 2**30


def said(root: Path, sizes: Sequence[int]) -> str:
    shards = [
        Shard(f"data/{RUN}/train/part-{n:05d}-1-aaaaaaaa.tfrecord", "train", n, 1, size, 0)
        for n, size in enumerate(sizes)
    ]
    console = Console(file=io.StringIO(), width=160, record=True)
    console.print(run_summary(manifest(shards=tuple(shards)), open_storage(root), published=True))
    return console.export_text()


def test_tasks_that_write_too_much_are_told_with_the_number_that_would_not(tmp_path: Path) -> None:
    assert "2 tasks wrote 6 GiB each; set `output.partitions: 8` for smaller tasks." in said(
        tmp_path, [5 * GIB, 7 * GIB]
    )


@pytest.mark.parametrize("sizes", [[4 * GIB, 4 * GIB], [1], []])
def test_nothing_is_said_of_tasks_that_write_no_more_than_they_can_sort(tmp_path: Path, sizes: list[int]) -> None:
    assert "output.partitions" not in said(tmp_path, sizes)
