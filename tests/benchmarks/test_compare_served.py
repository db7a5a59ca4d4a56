"""What it costs to compare a day with what was served, for 40 features. ``CTR_SAMPLES_BENCH_SERVED`` sets the samples."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.figures import Figures, at_most, size
from tests.support.project import PROJECT

SAMPLES = size("SERVED", 1_000_000, quick=50_000)
FEATURES = 40
ROUNDS = 3

IDS = """
import sys
import numpy as np
from ctr_samples.readers import iter_batches
batches = iter_batches(sys.argv[1], date="2019-06-05", split="train", batch_size=8192)
pairs = [(one.features["n"], one.keys["impression_id"]) for one in batches]
np.save(sys.argv[2], np.array([np.concatenate(side) for side in zip(*pairs)]))
"""
CONFIG = """
name: wide
timezone: UTC
sources: {{log: {{format: parquet, path: {root}/log.parquet}}}}
impressions:
  source: log
  time: at
  keys: {{user: u, item: i}}
  columns: {{{columns}}}
labels: {{clicked: {{expr: clicked}}}}
features:
  n: {{from: impression.n, dtype: int64}}
{features}
split: {{eval: 0}}
output: {{path: {root}/out, partitions: 4}}
"""


def ctr_samples(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "ctr_samples", *arguments], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_day_of_forty_features(figures: Figures, tmp_path: Path) -> None:
    random = np.random.default_rng(39)
    half = FEATURES // 2
    values = {f"f{n}": random.random(SAMPLES).astype(np.float32) for n in range(half)}
    values |= {f"c{n}": random.integers(0, 1000, SAMPLES) for n in range(FEATURES - half)}
    log = {
        "n": np.arange(SAMPLES), "u": random.integers(0, 10**6, SAMPLES), "i": random.integers(0, 10**4, SAMPLES),
        "at": pa.array(1559692800 * 10**6 + np.sort(random.integers(0, 86_400_000_000, SAMPLES)), pa.timestamp("us", "UTC")),
        "clicked": random.random(SAMPLES) < 0.05,
    }  # fmt: skip
    pq.write_table(pa.table({**log, **values}), tmp_path / "log.parquet")
    features = "\n".join(
        f"  {name}: {{from: impression.{name}, dtype: {'float32' if name[0] == 'f' else 'int64'}}}" for name in values
    )
    columns = ", ".join(f"{name}: {name}" for name in ("n", *values))
    (tmp_path / "c.yaml").write_text(CONFIG.format(root=tmp_path, columns=columns, features=features))
    ctr_samples("generate", "--config", str(tmp_path / "c.yaml"), "--date", "2019-06-05")
    subprocess.run(
        [sys.executable, "-c", IDS, str(tmp_path / "out"), str(tmp_path / "ids.npy")], check=True, cwd=PROJECT
    )
    number, ids = np.load(tmp_path / "ids.npy")
    assert len(ids) == SAMPLES
    of_row = np.zeros(SAMPLES, np.int64)
    of_row[number] = ids
    pq.write_table(pa.table({"impression_id": of_row, **values}), tmp_path / "served.parquet")
    seconds = []
    for _ in range(ROUNDS):
        start = time.monotonic()
        ctr_samples("compare-served", str(tmp_path / "out"), "--served", str(tmp_path / "served.parquet"))
        seconds.append(time.monotonic() - start)
    report = ctr_samples(
        "compare-served", str(tmp_path / "out"), "--served", str(tmp_path / "served.parquet"), "--prometheus"
    )
    differ = [line for line in report.splitlines() if line.startswith("ctr_samples_served_different_ratio")]
    assert len(differ) == FEATURES
    assert all(line.endswith(" 0") for line in differ)
    figures.add(f"{SAMPLES:,} samples of {FEATURES} features, equal", seconds, "s", at_most(60))
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    figures.add("largest memory of these commands, with the job that made the samples", [peak], "MiB")
