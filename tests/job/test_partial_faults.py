"""Partial results that others make, remove or forbid while a run works, and logs that change under it."""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import date, timedelta
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ctr_samples.errors import StorageError
from ctr_samples.samples.partials import kept
from ctr_samples.shards.storage import objects
from tests.job.partial_days import DAY, with_views, write_document, write_log, write_logs
from tests.support.whole_runs import Made, Told, made

pytestmark = pytest.mark.slow

BEFORE = DAY - timedelta(days=1)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A directory with four days of logs."""
    write_logs(tmp_path, range(-3, 1))
    return tmp_path


def kept_night(spark: SparkSession, logs: Path, told: Told | None = None) -> Made:
    """The day with partial results."""
    return made(spark, write_document(logs, "kept", with_views("item")), DAY, force=True, reporter=told)


def without_state(spark: SparkSession, logs: Path) -> list[Any]:
    return made(spark, write_document(logs, "plain", with_views("item")), DAY, force=True).shards


def partials_of(logs: Path, day: date) -> list[Path]:
    """What says that partial results of a day are there."""
    return list((logs / "partials").rglob(f"dt={day}/*.json"))


def test_two_runs_that_make_the_same_partial_results_at_once_agree(
    spark: SparkSession, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both, find = Barrier(2, timeout=120), kept.find_partials

    def found_together(*asked: Any) -> Iterator[Any]:
        found = list(find(*asked))
        both.wait()
        return iter(found)

    monkeypatch.setattr(kept, "find_partials", found_together)
    monkeypatch.setattr(kept, "_MAKING", defaultdict(nullcontext))  # as if each had a process of its own
    paths = [write_document(logs, out, with_views("item")) for out in ("one", "two")]
    with ThreadPoolExecutor(2) as nights:
        one, two = nights.map(lambda path: made(spark, path, DAY), paths)
    monkeypatch.undo()
    expected = without_state(spark, logs)
    for night in (one, two):
        assert night.manifest.plan[-1].endswith("this run made those of 4")
        assert night.shards == expected
    assert [len(partials_of(logs, DAY - timedelta(days=n))) for n in range(4)] == [1, 1, 1, 1]
    assert len(list((logs / "partials").glob("item/*/*/*/"))) == 4


def test_partial_results_that_another_run_removes_in_the_middle_are_made_anew(spark: SparkSession, logs: Path) -> None:
    told = Told("joining and writing", lambda: shutil.rmtree(logs / "partials"))
    night = kept_night(spark, logs, told)
    assert len([text for text in told.warnings if "is missing; it is made anew" in text]) == 1
    assert night.shards == without_state(spark, logs)


def test_a_log_that_changes_while_it_is_counted_is_counted_again_by_the_next_run(
    spark: SparkSession, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, real = logs / f"log/{BEFORE}.json", kept.PartialWriter
    first, times = log.read_bytes(), (log.stat().st_atime_ns, log.stat().st_mtime_ns)

    def changed_meanwhile(storage: Any, directory: str, tasks: int) -> Any:
        if f"dt={BEFORE}" in directory:
            write_log(logs, BEFORE, "UTC", seed=1)
        return real(storage, directory, tasks)

    monkeypatch.setattr(kept, "PartialWriter", changed_meanwhile)
    told = Told()
    kept_night(spark, logs, told)
    changed = f"sources.log: the log of {BEFORE} changed while item was counted; run again to keep the result."
    assert changed in told.warnings
    assert partials_of(logs, BEFORE) == []
    monkeypatch.undo()
    log.write_bytes(first)
    os.utime(log, ns=times)  # as if nothing had been
    assert kept_night(spark, logs).shards == without_state(spark, logs)
    assert len(partials_of(logs, BEFORE)) == 1


@pytest.mark.parametrize(
    ("place", "sentence"),
    [("FILE", "Cannot write FILE/item"), ("s3://lake/partials", "s3://lake/partials")],
    ids=["a file", "not reachable"],
)
def test_a_state_directory_that_cannot_be_used_is_one_sentence_and_nothing_is_published(
    spark: SparkSession, logs: Path, monkeypatch: pytest.MonkeyPatch, place: str, sentence: str
) -> None:
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION")
    for name, value in {**dict.fromkeys(names, "x"), "AWS_ENDPOINT_URL": "http://127.0.0.1:1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setitem(objects.PATIENT, "max_retries", 0)
    file = logs / "file"
    file.touch()
    path = write_document(logs, "kept", with_views("item"))
    path.write_text(path.read_text().replace(f"{logs}/partials", place.replace("FILE", str(file))))
    with pytest.raises(StorageError) as error:
        made(spark, path, DAY)
    assert sentence.replace("FILE", str(file)) in str(error.value)
    assert "\n" not in str(error.value)
    assert not list(logs.glob("kept/**/manifests/*"))
