"""One day of literal logs, small and with known truth, and the configuration of its samples."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

DAY = date(2019, 6, 5)
IMPRESSIONS = 3_000
USERS = 200  # every second one has a profile
NUMBERS = range(IMPRESSIONS)
"""Each impression has a number of its own, which is also a feature."""

CLICKED = {n for n in NUMBERS if n % 7 == 0}
REPEATS, NO_TIME, NO_ARTICLE, MALFORMED, STRAY_CLICKS = 40, 11, 25, 12, 9
PARTITIONS = 8
VECTOR = 64
AGENT = "Mozilla/5.0 (Linux) " * 64
"""Logged, and used by nothing: with it the log has 4 MiB, of which a run makes four tasks in each shuffle."""

ACCOUNTING = {
    "impressions": IMPRESSIONS + REPEATS + NO_TIME + NO_ARTICLE,
    "samples": IMPRESSIONS,
    "no_time": NO_TIME,
    "no_article": NO_ARTICLE,
    "repeated": REPEATS,
}
LABELS = {"clicked": {"actions": len(CLICKED) + STRAY_CLICKS, "orphans": STRAY_CLICKS, "without_value": 0}}
VIEWS = {"profile": {"matched": IMPRESSIONS // 2}}
LINES = {"lines": ACCOUNTING["impressions"] + len(CLICKED) + STRAY_CLICKS + MALFORMED, "malformed": MALFORMED}

_CONFIG = """
name: known_day
timezone: UTC
sources:
  log:
    format: json
    path: ROOT/log/dt={date}
    days_before: 1
    days_after: 1
    schema: kind STRING, at STRING, user STRING, item INT, n BIGINT
    bad_records: {max_rate: 0.05}
  profiles: {format: parquet, path: ROOT/profiles}
impressions:
  {source: log, where: kind = 'show', time: at, user: user, article: item, dedup: 30s, columns: {n: n}}
labels:
  clicked: {source: log, where: kind = 'click', window: 10m}
views:
  profile: {source: profiles, entity: user, key: user, event_time: updated_at, ttl: 30d}
features:
  n: {from: impression.n, dtype: int64}
  known: {from: profile.matched, dtype: int64}
  vector: {from: profile.vector, dtype: float32, shape: [VECTOR], default: -1}
split: {eval: 0.2, by: user}
output: {path: ROOT/samples, partitions: PARTITIONS, shard_size: 32KiB}
"""


def write_known_day(root: Path) -> Path:
    """Write the inputs below ``root``; gives the path of the configuration."""
    log = root / f"log/dt={DAY}"
    log.mkdir(parents=True)
    lines = [json.dumps(entry) for entry in _entries()]
    for position in range(MALFORMED):
        lines.insert(97 * position, '{"kind": "show", "at": ')
    for part in range(4):  # as many map tasks
        (log / f"part-{part}.json").write_text("\n".join(lines[part::4]) + "\n")
    (root / "profiles").mkdir()
    pq.write_table(_profiles(), root / "profiles/part-0.parquet")
    config = _CONFIG.replace("ROOT", str(root)).replace("VECTOR", str(VECTOR)).replace("PARTITIONS", str(PARTITIONS))
    (root / "known_day.yaml").write_text(config)
    return root / "known_day.yaml"


def user_of(n: int) -> int:
    """The user that impression ``n`` was shown to."""
    return n % USERS


def _entries() -> list[dict[str, Any]]:
    shows = [_entry("show", n) for n in NUMBERS]
    clicks = [_entry("click", n, seconds=60) for n in sorted(CLICKED)]
    repeats = [_entry("show", n, seconds=5) | {"n": 10**6 + n} for n in range(0, 3 * REPEATS, 3)]
    timeless = [_entry("show", n) | {"n": 2 * 10**6 + n, "at": None} for n in range(NO_TIME)]
    of_nothing = [_entry("show", n) | {"n": 3 * 10**6 + n, "item": None} for n in range(NO_ARTICLE)]
    stray = [_entry("click", n) | {"user": "stranger"} for n in range(STRAY_CLICKS)]
    return shows + clicks + repeats + timeless + of_nothing + stray


def _entry(kind: str, n: int, seconds: int = 0) -> dict[str, Any]:
    at = datetime(DAY.year, DAY.month, DAY.day) + timedelta(seconds=25 * n + seconds)
    entry = {"kind": kind, "at": f"{at:%F %T}", "user": f"u{user_of(n)}", "item": n // USERS, "n": n}
    return entry | {"agent": AGENT}


def _profiles() -> pa.Table:
    users = range(0, USERS, 2)
    updated = pa.array([datetime(2019, 6, 1)] * len(users), pa.timestamp("us", "UTC"))
    vectors = pa.array([[float(user)] * VECTOR for user in users], pa.list_(pa.float32()))
    return pa.table({"user": [f"u{user}" for user in users], "updated_at": updated, "vector": vectors})
