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


class Nights:
    """Simulated nights of one sample set."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self._spark, self._root = spark, root
        logs = simulated(root / "logs", NIGHTS + 2)
        self.text = (PROJECT / "conf/simulated.yaml").read_text().replace("build/simulated", str(logs))
        self._days = [FIRST + timedelta(days=n + 1) for n in range(NIGHTS)]
        self.seconds(self.text)

    def seconds(self, text: str, *, force: bool = False, out: str = "out") -> float:
        """How long it takes to make all nights."""
        path = self._root / "nights.yaml"
        path.write_text(text.replace("build/samples/simulated", str(self._root / out)))
        start = time.monotonic()
        outcomes = list(Backfill(self._spark, load_config(path), self._days, force, CHECKS).outcomes())
        assert [outcome.became for outcome in outcomes] == ["published"] * NIGHTS
        return time.monotonic() - start


def test_what_a_changed_feature_costs(figures: Figures, spark: SparkSession, tmp_path: Path) -> None:
    nights = Nights(spark, tmp_path)
    for what, (old, new, goal) in CHANGES.items():
        # A feature that is equal to another one would be read back.
        assert old in nights.text
        shares = []
        for _ in range(2):
            whole = nights.seconds(nights.text, force=True)
            shares.append(nights.seconds(nights.text.replace(old, new)) / whole)
        figures.add(f"{what}, share of {NIGHTS} whole nights", shares, "x", at_most(goal))


def test_what_a_second_set_costs(figures: Figures, spark: SparkSession, tmp_path: Path) -> None:
    nights = Nights(spark, tmp_path)
    few = f"{nights.text}sampling: {{negatives: 0.1}}\n"
    for what, text, goal in (
        ("with 1:10 negatives", few, 0.2),
        (
            "with 1:10 negatives and a feature more",
            few.replace(MORE, CHANGES["one feature of a small view more"][1]),
            0.3,
        ),
    ):
        shares = []
        for number in range(2):
            whole = nights.seconds(nights.text, force=True)
            second = f"{text}from_samples: {tmp_path}/out\n"
            shares.append(nights.seconds(second, out=f"{what}{number}".replace(" ", "_").replace(":", "")) / whole)
        figures.add(f"a second set {what}, share of {NIGHTS} whole nights", shares, "x", at_most(goal))
