"""What a changed feature costs over days that are published: the share of whole nights over the same days."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from pyspark.sql import SparkSession

from ctr_samples.config import load_config
from ctr_samples.job.many_days import Backfill
from ctr_samples.quality.checks import CHECKS
from tests.benchmarks.simulated_days import FIRST, simulated
from tests.support.figures import Figures, at_most, size
from tests.support.project import PROJECT

NIGHTS = size("REUSED_NIGHTS", 4, quick=1)
"""How many days, of as many impressions as ``CTR_SAMPLES_BENCH_STATE_IMPRESSIONS`` says."""
MORE = "split: {eval"
CHANGES: Mapping[str, tuple[str, str, float]] = {
    "one feature of a small view more": (
        MORE,
        f"  x: {{from: article.channel_id, dtype: int64, hash_buckets: 100}}\n{MORE}",
        0.3,
    ),
    "one feature of a large view more": (MORE, f"  x: {{from: user.age, dtype: int64}}\n{MORE}", 0.5),
    "a feature less": ("  recent_clicks: {from: recent.length, dtype: int64}\n", "", 0.15),
    "a feature renamed": ("  recent_clicks: {from", "  clicks_of_late: {from", 0.15),
    "another default": (
        "  recent_clicks: {from: recent.length",
        "  recent_clicks: {default: 9, from: recent.length",
        0.15,
    ),
}


def test_what_a_changed_feature_costs(figures: Figures, spark: SparkSession, tmp_path: Path) -> None:
    logs = simulated(tmp_path / "logs", NIGHTS + 2)
    text = (PROJECT / "conf/simulated.yaml").read_text().replace("build/simulated", str(logs))
    days = [FIRST + timedelta(days=n + 1) for n in range(NIGHTS)]

    def seconds(name: str, of: str, *, force: bool = False) -> float:
        path = tmp_path / f"{name}.yaml"
        path.write_text(of.replace("build/samples/simulated", str(tmp_path / "out")))
        start = time.monotonic()
        outcomes = list(Backfill(spark, load_config(path), days, force, CHECKS).outcomes())
        assert [outcome.became for outcome in outcomes] == ["published"] * NIGHTS
        return time.monotonic() - start

    seconds("warm", text)
    for number, (what, (old, new, goal)) in enumerate(CHANGES.items()):
        # A feature that is equal to another one would be read back.
        assert old in text
        shares = []
        for _ in range(2):
            whole = seconds("base", text, force=True)
            shares.append(seconds(f"changed{number}", text.replace(old, new)) / whole)
        figures.add(f"{what}, share of {NIGHTS} whole nights", shares, "x", at_most(goal))
