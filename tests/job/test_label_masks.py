"""Masks of labels: samples whose window had closed, and labels that come after others."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ctr_samples.config import load_config
from ctr_samples.errors import ConfigError, GateRefused
from ctr_samples.job import run as job
from tests.support.command_line import invoke
from tests.support.whole_runs import Made, made, write_config, write_rows

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
output: {path: ROOT/OUT, partitions: 1}
"""
SHOWN = [("06:00", 1), ("18:00", 2), ("20:00", 3), ("23:30", 4)]
ACTIONS = [("06:10", "click", 1), ("07:00", "buy", 1), ("18:30", "buy", 2), ("20:30", "click", 3)]


def write(root: Path, *, next_day: bool = True) -> Path:
    rows: list[dict[str, Any]] = [
        {"at": f"2019-06-05 {at}:00", "kind": "shown", "u": "u", "i": item, "position": item, "delay": 5}
        for at, item in SHOWN
    ]
    rows += [{"at": f"2019-06-05 {at}:00", "kind": kind, "u": "u", "i": item} for at, kind, item in ACTIONS]
    write_rows(root / "log/2019-06-05.json", rows)
    if next_day:
        write_rows(root / "log/2019-06-06.json", [{"at": "2019-06-06 00:10:00", "kind": "click", "u": "u", "i": 4}])
    return write_config(root, "out", CONFIG)


def at(clock: str) -> datetime:
    return datetime.fromisoformat(f"2019-06-05 {clock}+00:00")


def masks(day: Made, name: str) -> dict[int, int]:
    """The masks of a label in the sample of each item."""
    return dict(day.values("position", name))


@pytest.mark.thorough
def test_a_label_is_final_once_its_window_has_closed_by_the_clock_of_the_run(
    spark: SparkSession, tmp_path: Path
) -> None:
    day = made(spark, write(tmp_path), DAY, known_by=at("22:00"))
    assert masks(day, "clicked__final") == {1: 1, 2: 1, 3: 1}
    assert masks(day, "bought__final") == {1: 1, 2: 0, 3: 0}
    assert masks(day, "read__final") == {1: 1, 2: 1, 3: 1}
    facts = day.manifest.labels
    assert facts["bought"]["final"] == {"samples": 3, "final": 1, "by_hour": {"6": [1, 1], "18": [1, 0], "20": [1, 0]}}
    assert facts["clicked"]["final"]["final"] == 3
    assert "Labels whose window had closed" in day.page
    assert "18:00 0" in day.page


@pytest.mark.thorough
def test_all_labels_of_a_day_are_final_once_all_windows_have_closed_and_their_logs_are_there(
    spark: SparkSession, tmp_path: Path
) -> None:
    config = write(tmp_path, next_day=False)
    early = made(spark, config, DAY)
    assert masks(early, "clicked__final") == {1: 1, 2: 1, 3: 1, 4: 0}
    assert masks(early, "bought__final") == {1: 1, 2: 1, 3: 0, 4: 0}
    write(tmp_path)
    final = made(spark, config, DAY)
    assert final.published
    assert final.values("clicked__final", "bought__final", "read__final") == [(1, 1, 1)] * 4
    assert masks(final, "clicked")[4] == 1
    said = invoke("flips", tmp_path / "out", DAY).stdout.split()
    assert said[said.index("clicked") :][:6] == ["clicked", "1", "0", "0", "0", "bought"]
    only = invoke("flips", tmp_path / "out", DAY, "--before", "2")
    assert (only.exit_code, "expected two to compare" in only.stderr) == (2, True)
    earlier = made(spark, config, DAY, known_by=at("20:00")).manifest.labels["clicked"]["flips"]
    assert (earlier["flipped_to_0"], "final" in earlier) == (1, False), "the logs are blamed"


@pytest.mark.slow
def test_masks_are_made_anew_with_the_clock_while_a_window_is_open(spark: SparkSession, tmp_path: Path) -> None:
    made(spark, write(tmp_path, next_day=False), DAY)
    renamed = write_config(tmp_path, "out", CONFIG, {"position: {from": "spot: {from"})
    assert not made(spark, renamed, DAY).features_from.labels


@pytest.mark.thorough
def test_positives_without_the_label_that_comes_first_are_counted_and_warned_of(
    spark: SparkSession, tmp_path: Path
) -> None:
    config = write(tmp_path)
    day = made(spark, config, DAY)
    assert day.manifest.labels["bought"]["funnel"] == {"after": "clicked", "positives": 2, "without": 1}
    assert day.values("position", "bought", "bought__after") == [(1, 1, 1), (2, 1, 0), (3, 0, 1), (4, 0, 1)]
    found = [(one["check"], one["subject"], one["severity"]) for one in day.manifest.quality["found"]]
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
