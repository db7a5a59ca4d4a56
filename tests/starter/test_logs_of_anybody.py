"""``ctr-samples init`` on logs with other names, languages, zones and layouts: what it finds, and that eight days pass the gate."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest
from logs_of_anybody import DAYS, FIRST, SETS, Truth, served_and_ordered
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from ctr_samples.cli import app
from ctr_samples.config import JobConfig, RowLabel, load_config
from ctr_samples.config.loading import LoadedConfig
from ctr_samples.job.checking import problems
from ctr_samples.job.run import run
from ctr_samples.periods import parse_period
from ctr_samples.starter import draft, look_at


def drafted(truth: Truth, root: Path) -> LoadedConfig:
    (root / "logs").mkdir()
    truth.write(root / "logs")
    inputs = [str(root / "logs" / one) if one != "." else str(root / "logs") for one in truth.inputs]
    result = CliRunner().invoke(app, ["init", *inputs, "--output", str(root / "drafted.yaml")])
    assert result.exit_code == 0, result.stderr
    return load_config(root / "drafted.yaml", [f"output.path={root / 'out'}"])


def value_at(config: LoadedConfig, key: str) -> object:
    value: object = config.document
    for part in key.split("."):
        assert isinstance(value, dict)
        value = value[part]
    return value


def expressions(config: JobConfig) -> str:
    """All that the values of features are made from."""
    carried = config.impressions.columns
    named = [carried.get(name, name) for f in config.features.values()
             for name in re.findall(r"impression\.(\w+)", f.from_ or f.expr or "")]  # fmt: skip
    return " ".join(named)


@pytest.mark.parametrize("name", SETS)
def test_a_log_of_anybody_is_understood_by_its_values(name: str, tmp_path: Path) -> None:
    truth = SETS[name]
    loaded = drafted(truth, tmp_path)
    config = loaded.config
    assert config.impressions.source == truth.source
    assert config.impressions.time == truth.time
    assert {key: config.impressions.entities.get(key) for key in truth.keys} == truth.keys
    assert tuple(config.labels) == truth.labels
    assert {view: ".".join(config.views[view].joined_on) for view in truth.views} == truth.views
    assert (config.grain == "day") is truth.dated
    assert [column for column in truth.never if re.search(rf"\b{column}\b", expressions(config))] == []
    assert {key: value_at(loaded, key) for key in truth.more} == truth.more


@pytest.mark.slow
@pytest.mark.parametrize("name", SETS)
def test_eight_days_of_a_draft_pass_the_gate(name: str, spark: SparkSession, tmp_path: Path) -> None:
    truth = SETS[name]
    loaded = drafted(truth, tmp_path)
    assert problems(spark, loaded) == []
    days = [str(FIRST + timedelta(days=n)) for n in range(DAYS)] if truth.dated else ["all"]
    manifests = [run(spark, loaded, parse_period(day)).manifest for day in days]
    for label, one in loaded.config.labels.items():
        assert sum(manifest.label_sum(label) for manifest in manifests) > 0, label
        assert isinstance(one, RowLabel) or all(m.labels[label]["orphans"] == 0 for m in manifests[1:-1])


def test_orders_of_another_zone_than_the_days_are_named_in_a_note(tmp_path: Path) -> None:
    served_and_ordered(tmp_path, timedelta(0))
    made = draft(look_at([str(tmp_path / "served"), str(tmp_path / "orders")], no_catalog))
    assert any(note.startswith("Hardly any row of orders comes sooner than 7h") for note in made.notes)
    assert any("`time: timestamp(ordered_at) - interval 7 hours`" in note for note in made.notes)


def no_catalog(name: str) -> object:
    raise AssertionError(f"the catalog was asked for {name}")
