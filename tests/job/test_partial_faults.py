"""Partial results that others make, remove or forbid while a run works, and logs that change under it."""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import date, timedelta
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ctr_samples.config import load_config
from ctr_samples.errors import StorageError
from ctr_samples.job.run import run
from ctr_samples.quality.checks import CHECKS
from ctr_samples.samples.partials import kept
from ctr_samples.shards.storage import LocalStorage, objects
from ctr_samples.sparksql.observations import Silent
from tests.job.partial_days import shards_of, write_config, write_log

pytestmark = pytest.mark.slow

DAY = date(2019, 6, 5)
BEFORE = DAY - timedelta(days=1)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A directory with four days of logs."""
    for n in range(-3, 1):
        write_log(tmp_path, DAY + timedelta(days=n), "UTC")
    return tmp_path


class Witness(Silent):
    """A reporter that remembers the warnings, and does something at a stage, once."""

    def __init__(self, at: str = "", act: Callable[[], object] = lambda: None) -> None:
        self.warnings: list[str] = []
        self._at, self._act = at, act

    def stage(self, text: str) -> None:
        if text == self._at:
            self._at = ""
            self._act()

    def warn(self, text: str) -> None:
        self.warnings.append(text)


def shards(spark: SparkSession, path: Path, witness: Silent | None = None) -> list[bytes]:
    """The shards of the day, made now."""
    config = load_config(path)
    manifest = run(spark, config, DAY, force=True, accept=CHECKS, reporter=witness).manifest
    return shards_of(manifest, Path(config.config.output.path))


def without_state(spark: SparkSession, logs: Path) -> list[bytes]:
    return shards(spark, write_config(logs, "plain", views=["item"]))


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
    configs = [load_config(write_config(logs, out, views=["item"])) for out in ("one", "two")]
    with ThreadPoolExecutor(2) as nights:
        made = nights.map(lambda config: run(spark, config, DAY, accept=CHECKS).manifest, configs)
        one, two = zip(configs, made, strict=True)
    monkeypatch.undo()
    for config, manifest in (one, two):
        assert manifest.plan[-1].endswith("this run made those of 4")
        assert shards_of(manifest, Path(config.config.output.path)) == without_state(spark, logs)
    assert [len(partials_of(logs, DAY - timedelta(days=n))) for n in range(4)] == [1, 1, 1, 1]
    assert len(list((logs / "partials").glob("item/*/*/*/"))) == 4


def test_partial_results_that_another_run_removes_in_the_middle_are_made_anew(spark: SparkSession, logs: Path) -> None:
    witness = Witness("joining and writing", lambda: shutil.rmtree(logs / "partials"))
    made = shards(spark, write_config(logs, "kept", views=["item"]), witness)
    assert len([text for text in witness.warnings if "is missing; it is made anew" in text]) == 1
    assert made == without_state(spark, logs)


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
    path, witness = write_config(logs, "kept", views=["item"]), Witness()
    shards(spark, path, witness)
    told = f"sources.log: the log of {BEFORE} changed while item was counted; run again to keep the result."
    assert told in witness.warnings
    assert partials_of(logs, BEFORE) == []
    monkeypatch.undo()
    log.write_bytes(first)
    os.utime(log, ns=times)  # as if nothing had been
    assert shards(spark, path) == without_state(spark, logs)
    assert len(partials_of(logs, BEFORE)) == 1


def test_a_store_that_refuses_to_remove_old_partial_results_is_a_warning(
    spark: SparkSession, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = logs / "partials"
    old = state / f"item/{'0' * 16}/dt=2019-01-01/{'0' * 16}.json"
    old.parent.mkdir(parents=True)
    old.write_text("{}")
    os.utime(old, (0, 0))
    real = LocalStorage.delete

    def refused(storage: LocalStorage, path: str) -> None:
        if storage.root == state:
            raise StorageError(f"Cannot write {storage.locate(path)}: Permission denied.")
        real(storage, path)

    monkeypatch.setattr(LocalStorage, "delete", refused)
    witness = Witness()
    assert shards(spark, write_config(logs, "kept", views=["item"]), witness) == without_state(spark, logs)
    assert f"Could not remove old partial results: Cannot write {old}: Permission denied." in witness.warnings


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ("FILE", "Cannot write FILE/item"),
        ("/sys/partials", "Cannot write /sys/partials/item"),
        ("s3://lake/partials", "s3://lake/partials"),
    ],
    ids=["a file", "not writable", "not reachable"],
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
    path = write_config(logs, "kept", views=["item"])
    path.write_text(path.read_text().replace(f"{logs}/partials", place.replace("FILE", str(file))))
    with pytest.raises(StorageError) as error:
        shards(spark, path)
    assert sentence.replace("FILE", str(file)) in str(error.value)
    assert "\n" not in str(error.value)
    assert not list(logs.glob("kept/**/manifests/*"))
