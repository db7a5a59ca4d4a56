"""A day of feeds: requests of 1 to 20 items and one of 400, some without an id, some of unknown users."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ctr_samples.config import LoadedConfig, load_config
from tests.support.whole_runs import write_config

DAY = "2019-06-05"
LARGEST = 400
_SIZES = [1, 1, 2, 3, 5, 8, 13, 20]

CONFIG = """
name: feeds
timezone: UTC
sources:
  log: {format: parquet, path: ROOT/log.parquet}
impressions:
  source: log
  time: at
  request: req
  keys: {user: uid, item: item}
  columns: {taste: taste, price: price, req: "coalesce(req, concat(uid, at), concat(item, at))"}
labels:
  clicked: {expr: clicked}
features:
  taste: {from: impression.taste, dtype: float32, shape: [24]}
  price: {from: impression.price, dtype: float32}
  item: {from: impression.item, dtype: string}
  user: {from: impression.user, dtype: string}
  req: {from: impression.req, dtype: string}
  hour: {expr: "hour(impression.impression_time)", dtype: int64}
split: {by: request, eval: 0.3}
output: {path: ROOT/OUT, partitions: 3, shard_size: 64KiB}
"""


def write_log(root: Path) -> None:
    """Write the log of the day in random order."""
    chance = random.Random(36)
    rows = [row for number in range(300) for row in _request(chance, number)]
    chance.shuffle(rows)
    table = pa.Table.from_pylist(rows)
    pq.write_table(table.set_column(0, "at", table["at"].cast(pa.timestamp("us", "UTC"))), root / "log.parquet")


def _request(chance: random.Random, number: int) -> list[dict[str, Any]]:
    at = datetime(2019, 6, 5, tzinfo=UTC) + timedelta(seconds=chance.randrange(86_000))
    user = None if number % 29 == 3 else f"u{chance.randrange(60)}"
    size = LARGEST if number == 7 else chance.choice(_SIZES)
    taste = [chance.random() for _ in range(24)]
    own = None if number % 11 == 5 else f"r{number % 250}"  # users share the names of some requests
    items = chance.sample(range(1000), size)
    return [
        {
            "at": at if own is None else at + timedelta(seconds=position // 4),
            "req": own,
            "uid": user,
            "item": f"i{item}",
            "taste": taste,
            "price": item / 7,
            "clicked": chance.random() < 0.1,
        }
        for position, item in enumerate(items)
    ]


def feeds(root: Path, out: str, *overrides: str) -> LoadedConfig:
    """Return the configuration, with its output at ``out`` below ``root``."""
    return load_config(write_config(root, out, CONFIG), overrides, {})
