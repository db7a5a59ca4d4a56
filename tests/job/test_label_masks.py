"""Masks of labels: samples whose window had closed, and labels that come after others."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ctr_samples.config import load_config
from ctr_samples.errors import ConfigError, GateRefused
from ctr_samples.job import run as job
from ctr_samples.job.run import RunResult
from ctr_samples.quality.checks import CHECKS
from ctr_samples.readers import iter_batches
from ctr_samples.shards import open_storage
from tests.support.command_line import invoke

DAY = date(2019, 6, 5)
CONFIG = """
name: masks
timezone: UTC
sources:
  log:
    format: json
    path: ROOT/log/{date}.json
    days_after: 1
    schema: at TIMESTAMP, kind STRING, u STRING, i BIGINT, position BIGINT, delay BIGINT
impressions: {source: log, where: kind = 'shown', time: at, keys: {user: u, item: i}, columns: {place: position}}
labels:
  clicked: {source: log, where: kind = 'click', window: 1h, masks: final}
  bought: {source: log, where: kind = 'buy', window: 6h, after: clicked, masks: [final, after]}
  read: {expr: delay, dtype: float32, known_after: 2h, masks: [final]}
features:
  position: {from: impression.place, dtype: int64}
split: {eval: 0}
quality: {too_few: off}
output: {path: ROOT/out, partitions: 1}
"""
SHOWN = [("06:00", 1), ("18:00", 2), ("20:00", 3), ("23:30", 4)]
ACTIONS = [("06:10", "click", 1), ("07:00", "buy", 1), ("18:30", "buy", 2), ("20:30", "click", 3)]


def write(root: Path, *, next_day: bool = True) -> Path:
    (root / "log").mkdir(exist_ok=True)
    rows: list[dict[str, Any]] = [
        {"at": f"2019-06-05 {at}:00", "kind": "shown", "u": "u", "i": item, "position": item, "delay": 5}
        for at, item in SHOWN
    ]
    rows += [{"at": f"2019-06-05 {at}:00", "kind": kind, "u": "u", "i": item} for at, kind, item in ACTIONS]
    (root / "log/2019-06-05.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    late = {"at": "2019-06-06 00:10:00", "kind": "click", "u": "u", "i": 4}
    if next_day:
        (root / "log/2019-06-06.json").write_text(json.dumps(late) + "\n")
    path = root / "masks.yaml"
    path.write_text(CONFIG.replace("ROOT", str(root)))
    return path


def made(spark: SparkSession, config: Path, known_by: str | None = None, *, force: bool = False) -> RunResult:
    clock = None if known_by is None else datetime.fromisoformat(known_by).replace(tzinfo=UTC)
    return job.run(spark, load_config(config), DAY, known_by=clock, accept=CHECKS, force=force)


def labels(root: Path) -> dict[int, dict[str, float]]:
    """The labels and masks of each item."""
    (batch,) = iter_batches(root / "out", date=DAY, split="train", batch_size=100)
    rows = [
        {name: values[n].item() for name, values in batch.labels.items()} for n in range(len(batch.labels["clicked"]))
    ]
    return dict(sorted(zip(batch.features["position"].tolist(), rows, strict=True)))


@pytest.mark.thorough
def test_a_label_is_final_once_its_window_has_closed_by_the_clock_of_the_run(
    spark: SparkSession, tmp_path: Path
) -> None:
    result = made(spark, write(tmp_path), "2019-06-05 22:00")
    found = labels(tmp_path)
    assert {item: row["clicked__final"] for item, row in found.items()} == {1: 1, 2: 1, 3: 1}
    assert {item: row["bought__final"] for item, row in found.items()} == {1: 1, 2: 0, 3: 0}
    assert {item: row["read__final"] for item, row in found.items()} == {1: 1, 2: 1, 3: 1}
    facts = result.manifest.labels
    assert facts["bought"]["final"] == {"samples": 3, "final": 1, "by_hour": {"6": [1, 1], "18": [1, 0], "20": [1, 0]}}
    assert facts["clicked"]["final"]["final"] == 3
    page = open_storage(tmp_path / "out").read(f"dt={DAY}/data/{result.manifest.run_id}/report.html").decode()
    assert "Labels whose window had closed" in page
    assert "18:00 0" in page


@pytest.mark.thorough
def test_labels_that_reach_into_a_day_without_a_log_are_not_final(spark: SparkSession, tmp_path: Path) -> None:
    made(spark, write(tmp_path, next_day=False))
    found = labels(tmp_path)
    assert {item: row["clicked__final"] for item, row in found.items()} == {1: 1, 2: 1, 3: 1, 4: 0}
    assert {item: row["bought__final"] for item, row in found.items()} == {1: 1, 2: 1, 3: 0, 4: 0}


@pytest.mark.thorough
def test_all_labels_of_a_day_are_final_once_all_windows_have_closed(spark: SparkSession, tmp_path: Path) -> None:
    config = write(tmp_path, next_day=False)
    made(spark, config)
    write(tmp_path)
    assert made(spark, config).published
    found = labels(tmp_path)
    assert [row[f"{name}__final"] for row in found.values() for name in ("clicked", "bought", "read")] == [1] * 12
    assert found[4]["clicked"] == 1
    said = invoke("flips", str(tmp_path / "out"), str(DAY)).stdout.split()
    assert said[said.index("clicked") :][:6] == ["clicked", "1", "0", "0", "0", "bought"]
    only = invoke("flips", str(tmp_path / "out"), str(DAY), "--before", "2")
    assert (only.exit_code, "expected two to compare" in only.stderr) == (2, True)


@pytest.mark.slow
def test_a_run_as_of_an_earlier_time_does_not_blame_the_logs(spark: SparkSession, tmp_path: Path) -> None:
    config = write(tmp_path)
    made(spark, config)
    then = made(spark, config, "2019-06-05 20:00").manifest
    assert then.labels["clicked"]["flips"]["flipped_to_0"] == 1
    assert "final" not in then.labels["clicked"]["flips"]


@pytest.mark.slow
def test_masks_are_made_anew_with_the_clock_while_a_window_is_open(spark: SparkSession, tmp_path: Path) -> None:
    config = write(tmp_path, next_day=False)
    made(spark, config)
    text = config.read_text()
    config.write_text(text.replace("position: {from", "spot: {from"))
    again = made(spark, config)
    assert again.manifest.features_from is not None
    assert not again.manifest.features_from.labels


@pytest.mark.thorough
def test_positives_without_the_label_that_comes_first_are_counted_and_warned_of(
    spark: SparkSession, tmp_path: Path
) -> None:
    config = write(tmp_path)
    result = made(spark, config)
    assert result.manifest.labels["bought"]["funnel"] == {"after": "clicked", "positives": 2, "without": 1}
    assert {item: (row["bought"], row["bought__after"]) for item, row in labels(tmp_path).items()} == {
        1: (1, 1),
        2: (1, 0),
        3: (0, 1),
        4: (0, 1),
    }
    found = [(one["check"], one["subject"], one["severity"]) for one in result.manifest.quality["found"]]
    assert ("funnel", "bought", "warn") in found
    strict = load_config(config, ["quality.funnel.fail=0.2"])
    with pytest.raises(GateRefused, match="1 of the 2 samples with bought have no clicked, which comes first"):
        job.run(spark, strict, DAY, accept=["one_class", "constant", "leak", "heavy_user"], force=True)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("after: clicked, masks: [final, after]", "masks: after", "needs `after`, the label that comes first"),
        ("after: clicked", "after: klicked", "there is no label 'klicked'; did you mean 'clicked'"),
        ("after: clicked", "after: read", "'read' is a number, expected a label that is 0 or 1"),
        ("window: 1h,", "window: 1h, after: bought,", "comes after itself: clicked after bought after clicked"),
        ("position: {from", "bought__after: {from", "'bought__after' is also a feature"),
        ("masks: final", "masks: finally", "expected 'final' or 'after'"),
    ],
)
def test_masks_that_cannot_be_are_refused(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    config = tmp_path / "masks.yaml"
    config.write_text(CONFIG.replace(old, new, 1))
    with pytest.raises(ConfigError) as error:
        load_config(config)
    assert sentence in str(error.value)
