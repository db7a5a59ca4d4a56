"""Executors that cannot write where a run writes are found before the work."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ctr_samples.errors import AccessDenied, ConfigError, CtrSamplesError, StorageError
from ctr_samples.samples.executors import Places, Trial, check_executors, judge, tried
from ctr_samples.shards import open_storage


def places(root: Path) -> Places:
    return {"output.path": (open_storage(root), "dt=2019-06-05/data/run")}


def test_what_executors_write_is_found_by_the_driver_and_removed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark.sparkContext, "master", "spark://elsewhere:7077")
    check_executors(spark, places(tmp_path))
    assert (tmp_path / "dt=2019-06-05/data/run").is_dir()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_in_local_mode_there_is_nothing_to_find(spark: SparkSession, tmp_path: Path) -> None:
    check_executors(spark, places(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_executors_without_rights_are_named_with_what_to_do_and_no_retry(tmp_path: Path) -> None:
    denied = AccessDenied("Cannot write /out/dt=2019-06-05/data/run/probe: Permission denied.")
    with pytest.raises(ConfigError) as refused:
        judge(places(tmp_path), [Trial("output.path", "p", "the user nobody on host7", denied)])
    assert refused.value.exit_code == 2
    for part in ("the user nobody on host7", "Permission denied", "chmod 2775", str(tmp_path)):
        assert part in str(refused.value)


def test_a_store_that_fails_on_an_executor_may_be_tried_again(tmp_path: Path) -> None:
    failed = StorageError("Cannot write s3://b/out/probe: timed out.")
    with pytest.raises(StorageError, match="host7.*timed out") as refused:
        judge(places(tmp_path), [Trial("output.path", "p", "the user nobody on host7", failed)])
    assert refused.value.exit_code == 1


def test_a_directory_that_hosts_do_not_share_is_named(tmp_path: Path) -> None:
    (trial,) = tried(places(tmp_path / "of-the-executor"))
    with pytest.raises(ConfigError, match="`output.path` is no directory that all hosts share"):
        judge(places(tmp_path / "of-the-driver"), [trial])


def test_all_files_are_removed_whatever_is_wrong_with_one(tmp_path: Path) -> None:
    here = places(tmp_path)
    trials = [*tried(here), Trial("output.path", "p", "x", AccessDenied("closed")), *tried(here)]
    with pytest.raises(CtrSamplesError):
        judge(here, trials)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_trial_travels_to_the_driver() -> None:
    trial = Trial("output.path", "p", "x", AccessDenied("closed"))
    back = pickle.loads(pickle.dumps(trial))
    assert (type(back.error), str(back.error)) == (AccessDenied, "closed")
