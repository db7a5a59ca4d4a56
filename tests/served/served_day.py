"""A published day, and a simulated service that logs what it served."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from ctr_samples.config import Served as ServedConfig
from ctr_samples.config import load_config
from ctr_samples.contract import ExampleContract
from ctr_samples.job import run as job
from ctr_samples.job.reporting import Silent
from ctr_samples.quality.checks import CHECKS
from ctr_samples.readers import iter_batches
from ctr_samples.served.document import Served
from ctr_samples.served.log import ServedLog
from ctr_samples.served.run import Task, compare_served
from ctr_samples.shards import open_storage, require_manifest
from ctr_samples.simulator.server import Faults, Server, Store, StoredRow

DAY = date(2019, 6, 5)
START = datetime(2019, 6, 5, tzinfo=UTC)
SHOWN, USERS, ITEMS = 6000, 300, 40
NONE = Faults()
WITH_TIMES = ServedConfig(time="at")
CONFIG = """
name: served
timezone: UTC
sources:
  log: {format: json, path: DIR/log.json, schema: "at DOUBLE, n BIGINT, u BIGINT, i BIGINT, clicked BOOLEAN"}
  users: {format: json, path: DIR/users.json, schema: "u BIGINT, at DOUBLE, known DOUBLE, age DOUBLE, score DOUBLE"}
  items: {format: json, path: DIR/items.json, schema: "i BIGINT, at DOUBLE, known DOUBLE, price DOUBLE, color STRING"}
impressions:
  source: log
  time: timestamp_millis(bigint(at * 1000))
  keys: {user: u, item: i}
  columns: {n: n}
labels:
  clicked: {expr: clicked}
views:
  user:
    source: users
    on: user
    key: u
    event_time: timestamp_millis(bigint(at * 1000))
    available_time: timestamp_millis(bigint(known * 1000))
    ttl: 2d
  item:
    source: items
    on: item
    key: i
    event_time: timestamp_millis(bigint(at * 1000))
    available_time: timestamp_millis(bigint(known * 1000))
    ttl: 3d
features:
  n: {from: impression.n, dtype: int64}
  age: {from: user.age, dtype: float32}
  score: {expr: user.score * 2, dtype: float32}
  price: {from: item.price, dtype: float32}
  red: {expr: "case when item.color = 'red' then 1 else 0 end", dtype: int64}
  hour: {from: impression.impression_time, date_part: hour, dtype: int64}
  fit: {expr: user.score * item.price, dtype: float32, default: -1}
split: {eval: 0.1, by: impression}
output: {path: DIR/out, partitions: 2}
"""


@dataclass(frozen=True)
class Day:
    """A published day, what was shown, and the tables that a service looks up."""

    root: Path
    shown: list[dict[str, Any]]
    stores: Mapping[str, Store]
    ids: Mapping[int, int]

    def served(
        self, faults: Faults = NONE, change: Callable[[dict[str, Any]], object] = lambda line: None
    ) -> list[dict[str, Any]]:
        """The lines that a service logs, with faults, and with a change to each of them."""
        server, lines = Server(self.stores, faults, 3), []
        for one in self.shown:
            at = START + timedelta(seconds=one["at"])
            rows = server.rows(at, {"user": one["u"], "item": one["i"]})
            user, item = (rows[view].values if rows[view] else {} for view in ("user", "item"))  # type: ignore[union-attr]
            line = {
                "impression_id": self.ids[one["n"]],
                "u": one["u"],
                "i": one["i"],
                "n": one["n"],
                "at": at,
                "age": user.get("age", 0.0),
            }
            line |= {"score": 2 * user.get("score", 0.0), "price": item.get("price", 0.0), "hour": at.hour}
            line |= {"red": int(item.get("color") == "red")}
            line |= {"fit": user["score"] * item["price"] if user and item else -1.0}
            change(line)
            lines.append(line)
        return list(server.logged(lines))

    def compared(
        self,
        spark: SparkSession,
        lines: list[dict[str, Any]] | Path,
        served: ServedConfig = WITH_TIMES,
        *,
        propose: bool = False,
        causes: bool = True,
    ) -> Served:
        """The comparison with such lines, or with the log in a file."""
        path = lines if isinstance(lines, Path) else self.root / "served.parquet"
        if isinstance(lines, list):
            pq.write_table(pa.Table.from_pylist(lines), path)
        storage = open_storage(self.root / "out")
        manifest = require_manifest(storage, DAY)
        config = load_config(self.root / "c.yaml").config.model_copy(update={"served": served})
        log = ServedLog.open(str(path), ExampleContract.from_dict(dict(manifest.contract)), served)
        task = Task(storage, manifest, log, config, DAY, str(path))
        return compare_served(task, lambda: (spark, Silent()), causes=causes, propose=propose)


def tables(rng: random.Random) -> dict[str, list[dict[str, Any]]]:
    """Rows that change every few hours, with values that tell them apart, and are known some minutes later."""
    users, items = [], []
    for u in range(USERS):
        at = -rng.uniform(0, 20) * 3600
        while at < 24 * 3600:
            users.append(
                {"u": u, "at": at, "known": at + rng.uniform(0, 600), "age": rng.uniform(18, 90), "score": rng.random()}
            )
            at += rng.uniform(0.5, 6) * 3600
    for i in range(ITEMS):
        at = -rng.uniform(0, 20) * 3600
        while at < 24 * 3600:
            items.append(
                {"i": i, "at": at, "known": at + 60, "price": rng.uniform(1, 100), "color": rng.choice(["red", "blue"])}
            )
            at += rng.uniform(1, 8) * 3600
    shown = [
        {
            "at": rng.uniform(0, 86399),
            "n": n,
            "u": rng.randrange(USERS + 5),
            "i": rng.randrange(ITEMS),
            "clicked": rng.random() < 0.1,
        }
        for n in range(SHOWN)
    ]
    return {"users": users, "items": items, "log": sorted(shown, key=lambda row: row["at"])}


def published(spark: SparkSession, root: Path) -> Day:
    """Publish a day in a directory."""
    made = tables(random.Random(39))
    for name, unrounded in made.items():
        rows = [
            {**row, "at": round(row["at"], 3), **({"known": round(row["known"], 3)} if "known" in row else {})}
            for row in unrounded
        ]
        made[name] = rows
        base = START.timestamp()
        lines = [
            {**row, "at": base + row["at"], **({"known": base + row["known"]} if "known" in row else {})}
            for row in rows
        ]
        (root / f"{name}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (root / "c.yaml").write_text(CONFIG.replace("DIR", str(root)))
    job.run(spark, load_config(root / "c.yaml"), DAY, accept=CHECKS)
    ids = {}
    for split in ("train", "eval"):
        for batch in iter_batches(root / "out", date=DAY, split=split, batch_size=4096):
            ids |= dict(zip(batch.features["n"].tolist(), batch.keys["impression_id"].tolist(), strict=True))
    stores = {}
    for view, name, key, ttl in (("user", "users", "u", 2), ("item", "items", "i", 3)):
        rows = [
            (r[key], StoredRow(START + timedelta(seconds=r["at"]), START + timedelta(seconds=r["known"]), r))
            for r in made[name]
        ]
        stores[view] = Store.of(rows, timedelta(days=ttl))
    return Day(root, made["log"], stores, ids)
