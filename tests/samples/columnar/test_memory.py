"""What a task holds, as a multiple of its share, with a hot user, with wide rows, and with too few tasks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from ctr_samples.config import load_config
from ctr_samples.job import run as job
from ctr_samples.samples.columnar import stages
from ctr_samples.samples.columnar.blocks import Gather
from ctr_samples.samples.columnar.stages import Step
from ctr_samples.samples.executors import load_modules

pytestmark = pytest.mark.slow

DAY = date(2019, 6, 5)
SHOWN, USERS = 300_000, 3_000
MULTIPLE, BESIDE = 4, 192 << 20
"""The bound that docs/operations.md states: a multiple of the rows of a task, and what does not grow with them."""

CONFIG = """
name: memory
timezone: UTC
sources:
  log: {format: parquet, path: ROOT/log}
  profiles: {format: parquet, path: ROOT/profiles}
impressions: {source: log, where: kind = 'shown', time: t, user: user, article: item, columns: {place: place}, dedup: 10m}
labels: {clicked: {source: log, where: kind = 'click', window: 1h}}
views: {user: {source: profiles, entity: user, key: user, event_time: t, ttl: unbounded, method: union}}
histories: {lately: {source: log, where: kind = 'click', last: 3, within: 12h}}
features:
  place: {from: impression.place, dtype: string}
  taste: {expr: "user.taste[concat('word number ', lpad(cast(impression.position as string), 4, '0'))]", dtype: float32}
  items: {from: lately.items, dtype: string, ragged: true}
split: {eval: 0.1, by: user}
output: {path: ROOT/out, partitions: 1}
"""


@dataclass(frozen=True, slots=True)
class Measured:
    """The steps of a task, which notes its share, and the most memory that its process held beyond what it held before."""

    steps: tuple[Step, ...]
    notes: Path

    def __call__(self, blocks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        load_modules()  # not part of what grows with a share
        before = status("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        share = 0

        def arriving() -> Iterator[pa.RecordBatch]:
            nonlocal share
            for batch in blocks:
                share += batch.nbytes
                yield batch

        yield from reduce(lambda items, step: step(items), self.steps, arriving())
        if isinstance(first := self.steps[0], Gather):
            names = ",".join(type(one).__name__ for one in (first.task, *self.steps[1:]))
            (self.notes / f"{names} {share} {status('VmHWM') - before}").touch()


def status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))


def write_day(root: Path) -> None:
    """Impressions of which one user saw 30 %, in a few hours, clicks on some, and a map of 10 kB for each user."""
    rng = np.random.default_rng(7)
    user = np.where(rng.random(SHOWN) < 0.3, 0, rng.integers(0, USERS, SHOWN))
    at = (np.datetime64(DAY, "us") + rng.integers(0, 20 * 3600, SHOWN).astype("timedelta64[s]")).astype(
        "datetime64[us]"
    )
    item = rng.integers(0, 50_000, SHOWN)
    clicks = rng.random(SHOWN) < 0.05
    columns: dict[str, Any] = {
        "t": np.concatenate([at, at[clicks] + np.timedelta64(60, "s")]),
        "kind": np.repeat(["shown", "click"], [SHOWN, clicks.sum()]),
        "user": np.concatenate([user, user[clicks]]).astype(str),
        "item": np.concatenate([item, item[clicks]]).astype(str),
        "place": np.repeat(["a place on the page with a rather long name"], SHOWN + clicks.sum()),
    }
    (root / "log").mkdir()
    pq.write_table(utc(pa.table(columns)), root / "log" / "all.parquet", row_group_size=100_000)
    words, numbers = [f"word number {n:04}" for n in range(400)], rng.random(400)
    taste = pa.array([list(zip(words, numbers, strict=True))] * USERS, pa.map_(pa.string(), pa.float64()))
    profiles = {"user": np.arange(USERS).astype(str), "t": np.full(USERS, np.datetime64(DAY, "us")), "taste": taste}
    (root / "profiles").mkdir()
    pq.write_table(utc(pa.table(profiles)), root / "profiles" / "all.parquet")


def utc(table: pa.Table) -> pa.Table:
    place = table.schema.get_field_index("t")
    return table.set_column(place, "t", table["t"].cast(pa.timestamp("us", "UTC")))


def test_a_task_holds_a_multiple_of_its_share(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_day(tmp_path)
    notes = tmp_path / "notes"
    notes.mkdir()
    monkeypatch.setattr(stages, "_InOne", lambda steps: Measured(steps, notes))
    path = tmp_path / "memory.yaml"
    path.write_text(CONFIG.replace("ROOT", str(tmp_path)))
    job.run(spark, load_config(path), DAY, accept=["heavy_user"])
    measured = [note.name.split() for note in notes.iterdir()]
    by_user, in_order = sorted({names for names, *_ in measured}, key=len, reverse=True)
    assert {"_Stop", "AddLists", "_JoinHere"} <= {*by_user.split(",")}
    assert "_Sort" in in_order
    beyond = {name: int(held) / (MULTIPLE * int(share) + BESIDE) for name, share, held in measured}
    assert max(beyond.values()) <= 1, measured
    assert max(int(share) for _, share, _ in measured) > 20 << 20
