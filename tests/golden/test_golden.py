"""What 0.1.0 published is read, compared, and taken by later runs."""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import ctr_samples
from ctr_samples.config import load_config
from ctr_samples.contract import ExampleContract
from ctr_samples.job.run import run
from ctr_samples.periods import period_of
from ctr_samples.quality.checks import CHECKS
from ctr_samples.shards import Manifest, open_storage, require_manifest
from tests.golden.make import ROOT, documents, periods_of, read_table, set_times
from tests.golden.values import values_of
from tests.support.command_line import invoke

RELEASE = Path(__file__).parent / "0.1.0"
VALUES: dict[str, dict[str, Any]] = json.loads((RELEASE / "values.json").read_text())
SETS = sorted(VALUES)
DAY = date(2019, 6, 5)


@pytest.fixture
def root() -> Iterator[Path]:
    """The files of 0.1.0 where it wrote them, for one test at a time."""
    with open(f"{ROOT}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(ROOT, ignore_errors=True)
        shutil.copytree(RELEASE, ROOT)
        set_times(ROOT)
        yield ROOT


@pytest.mark.parametrize("name", SETS)
def test_samples_have_the_values_contracts_and_checksums_of_then(name: str) -> None:
    assert VALUES[name].keys() == set(periods_of(name))
    for period, values in VALUES[name].items():
        assert values_of(RELEASE / name, period) == values
        manifest = require_manifest(open_storage(RELEASE / name), period_of(period))
        contract = {key: value for key, value in manifest.contract.items() if key != "fingerprint"}
        assert ExampleContract.from_dict(contract).to_dict() == contract
        assert ExampleContract.from_dict(contract).fingerprint == manifest.contract["fingerprint"]
    verified = invoke("verify", RELEASE / name)
    assert verified.exit_code == 0, verified.output


@pytest.mark.parametrize("name", SETS)
def test_the_status_of_samples_is_told(name: str) -> None:
    told = invoke("status", RELEASE / name)
    assert told.exit_code == 0, told.output
    assert "published" in told.output


def made(spark: SparkSession, document: dict[str, Any], period: str, out: str) -> Manifest:
    """The samples of a period, made now."""
    path = ROOT / "now.yaml"
    path.write_text(json.dumps(document))
    return run(spark, load_config(path, [f"output.path={ROOT / out}"]), period, accept=CHECKS).manifest


@pytest.mark.thorough
@pytest.mark.parametrize("name", SETS)
def test_a_run_makes_the_bytes_of_then(spark: SparkSession, root: Path, name: str) -> None:
    for period in periods_of(name):
        now = made(spark, documents()[name], period, "again")
        then = require_manifest(open_storage(RELEASE / name), period_of(period))
        assert [(root / "again" / shard.path).read_bytes() for shard in now.shards] == [
            (RELEASE / name / shard.path).read_bytes() for shard in then.shards
        ]


@pytest.mark.thorough
def test_features_and_partial_results_are_taken(spark: SparkSession, root: Path) -> None:
    document = documents()["columns"]
    document["features"]["older"] = {"expr": "user.age + 1", "dtype": "float32"}
    taken = made(spark, document, str(DAY), "columns").features_from
    assert taken is not None
    assert (taken.why, taken.labels) == ("", False)
    # 0.1.0 did not count rows of a view that tie, so the features of that view are made together.
    assert set(taken.features) == documents()["columns"]["features"].keys() - {"age", "city"}
    counted = made(spark, documents()["columns"], "2019-06-06", "columns").plan
    assert counted[-2:] == (
        "item is counted from partial results of 3 day(s); this run made those of 1",
        "recent is listed from partial results of 2 day(s); this run made those of 1",
    )


@pytest.mark.thorough
def test_a_table_has_the_columns_and_rows_of_then(spark: SparkSession) -> None:
    ctr_samples.register(spark)
    assert read_table(spark, RELEASE / "table") == json.loads((RELEASE / "table.json").read_text())


@pytest.mark.thorough
def test_an_exported_model_is_for_the_samples_of_then_and_now(spark: SparkSession, root: Path) -> None:
    from ctr_samples.training.exporting import Exported, evaluate_export, made_from

    exported = Exported.load(str(RELEASE / "export/1"))
    then = require_manifest(open_storage(RELEASE / "columns"), DAY)
    now = made(spark, documents()["columns"], str(DAY), "again")
    for manifest in (then, now):
        contract = {key: value for key, value in manifest.contract.items() if key != "fingerprint"}
        exported.check(ExampleContract.from_dict(contract), "clicked", manifest)
    assert made_from(now, now.config["features"]) == made_from(then, then.config["features"])
    assert evaluate_export(RELEASE / "export/1", RELEASE / "columns", date=DAY, split="eval").samples == 26
