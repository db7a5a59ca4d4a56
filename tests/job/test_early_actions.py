"""Actions whose times are cut to whole seconds or minutes, and so lie before their impressions."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.quality.checks.counts import alarms
from tests.support.manifests import manifest
from tests.support.whole_runs import Made, made, write_config, write_rows

DAY, MIDNIGHT = date(2019, 6, 5), datetime(2019, 6, 5, tzinfo=UTC)
CONTRACT = ExampleContract((FeatureSpec("n", "int64"), FeatureSpec("clicked", "int64", role="label")))

CONFIG = """
name: early
timezone: UTC
sources:
  log: {format: parquet, path: "ROOT/log/{date}", days_before: 1, days_after: 1}
impressions: {source: log, where: kind = 'shown', time: at, user: user, article: item, request: request, columns: {n: n}}
labels:
  clicked: {source: log, where: kind = 'click', window: 10m, SKEW match: MATCH}
views:
  last: {source: log, where: kind = 'click', on: user, key: user, event_time: at, AFTER ttl: 1d}
histories:
  lately: {source: log, where: kind = 'click', last: 3, AFTER within: 12h}
features:
  n: {from: impression.n, dtype: int64}
  last: {from: last.n, dtype: int64, default: -1}
  length: {from: lately.length, dtype: int64}
split: {eval: 0}
output: {path: ROOT/OUT, partitions: 1}
"""


def write(root: Path, unit: timedelta, *, seed: int = 1) -> list[tuple[datetime, datetime | None, str]]:
    """Write impressions at random times and the clicks of some, cut to the unit. Gives time, click and user of each."""
    drawn, shown = random.Random(seed), []
    for n in range(400):
        at = MIDNIGHT + timedelta(hours=1, minutes=3 * n, milliseconds=drawn.randrange(60_000))
        delay = timedelta(seconds=drawn.uniform(0, 3) * unit.total_seconds())
        shown.append((at, at + delay if n % 2 else None, f"u{n % 5}"))
    rows = []
    for n, (at, clicked, user) in enumerate(shown):
        row = {"at": at, "kind": "shown", "user": user, "item": f"i{n}", "request": f"r{n}", "n": n}
        rows.append(row)
        if clicked:
            cut = MIDNIGHT + (clicked - MIDNIGHT) // unit * unit
            rows.append({**row, "at": cut, "kind": "click", "request": None})
    write_rows(root / f"log/{DAY}/part.parquet", rows)
    log = pq.read_table(root / f"log/{DAY}/part.parquet")
    for day in ("2019-06-04", "2019-06-06"):
        (root / f"log/{day}").mkdir()
        pq.write_table(log.slice(0, 0), root / f"log/{day}/part.parquet")
    return shown


def day_of(spark: SparkSession, root: Path, skew: str = "", after: str = "", match: str = "[[user, article]]") -> Made:
    skew, after = skew and f"skew: {skew},", after and f"available_after: {after},"
    config = write_config(root, "out", CONFIG, {"MATCH": match, "SKEW": skew, "AFTER": after})
    return made(spark, config, DAY, force=True, accept=())


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("unit", "name", "longer", "match"),
    [(1, "1s", "1001ms", "[[user, article]]"), (60, "1m", "60001ms", "[[request, article], [user, article]]")],
)
def test_clicks_of_cut_times_are_found_again_by_the_skew_that_the_run_tells(
    spark: SparkSession, tmp_path: Path, unit: int, name: str, longer: str, match: str
) -> None:
    cut = timedelta(seconds=unit)
    shown = write(tmp_path, cut)
    early = [at for at, clicked, _ in shown if clicked and MIDNIGHT + (clicked - MIDNIGHT) // cut * cut < at]
    first = day_of(spark, tmp_path, match=match)
    clicked = first.manifest.labels["clicked"]
    assert clicked["orphans"] == len(early) > 20
    assert clicked["early_orphans"] == {"within": name, "count": len(early)}
    assert first.found("early_orphans") == [
        f"{len(early)} of the {len(early)} actions of clicked that match no impression lie less than {name} before one with "
        f"their keys: their times are cut, or clocks disagree. Set `labels.clicked.skew: {name}`, and on views and histories "
        f"of the same log `available_after: {longer}`, so that no impression sees its own action."
    ]
    second = day_of(spark, tmp_path, name, match=match)
    assert (second.manifest.labels["clicked"]["orphans"], second.manifest.label_sum("clicked")) == (0, 200)
    assert second.found("early_orphans") == []
    assert [sentence.partition(" reads")[0] for sentence in second.found("own_actions")] == [
        "views.last",
        "histories.lately",
    ]


@pytest.mark.thorough
def test_no_impression_sees_its_own_click_once_views_and_histories_know_it_later(
    spark: SparkSession, tmp_path: Path
) -> None:
    second = timedelta(seconds=1)
    shown = write(tmp_path, second, seed=2)
    day = day_of(spark, tmp_path, "1s", "1001ms")
    assert day.found("own_actions") == []
    samples = day.values("n", "last", "length", "clicked")
    for n, (at, clicked, user) in enumerate(shown):
        known = [
            k
            for k, (_, done, whose) in enumerate(shown[:n])
            if done and whose == user and MIDNIGHT + (done - MIDNIGHT) // second * second + 1.001 * second <= at
        ]
        assert samples[n] == (n, known[-1] if known else -1, min(3, len(known)), int(clicked is not None))


@pytest.mark.parametrize(
    ("actions", "orphans", "early", "warns"),
    [
        (1000, 152, 152, True),
        (10_000, 52, 50, True),
        (10_000, 9_000, 100, True),
        (10_000, 9_000, 40, False),
        (1000, 4, 4, False),
    ],
)
def test_a_few_actions_just_before_an_impression_are_chance(
    actions: int, orphans: int, early: int, warns: bool
) -> None:
    label = {"actions": actions, "orphans": orphans, "early_orphans": {"within": "1s", "count": early}}
    assert ("early_orphans" in checks({"clicked": label}, {})) == warns


@pytest.mark.parametrize(
    ("keys", "warns"),
    [
        ({"event_time": "t"}, True),
        ({"event_time": "t", "available_after": "1s"}, True),
        ({"event_time": "t", "available_after": "1001ms"}, False),
        ({"event_time": "t", "available_time": "known"}, False),
        ({"event_time": "t", "available_after": "${DELAY}"}, False),
        ({"event_time": "t", "source": "other"}, False),
        ({"snapshot": "dt"}, False),
    ],
)
def test_a_view_of_a_log_with_early_actions_warns_unless_it_knows_them_later(keys: dict[str, str], warns: bool) -> None:
    config = {"labels": {"clicked": {"source": "log", "skew": "1s"}}, "views": {"last": {"source": "log", **keys}}}
    assert ("own_actions" in checks({}, config)) == warns


def checks(labels: Mapping[str, Any], config: Mapping[str, Any]) -> list[str]:
    one = replace(manifest(CONTRACT), inputs={}, views={}, labels=labels, config=config)
    return [finding.check for finding in alarms(one, None)]
