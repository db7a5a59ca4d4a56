"""A published day, and a simulated service that logs what it served."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
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
from ctr_samples.job.fit import fit
from ctr_samples.quality.checks import CHECKS
from ctr_samples.quality.served import Served
from ctr_samples.readers import iter_batches
from ctr_samples.served.log import ServedLog
from ctr_samples.served.run import Task, compare_served
from ctr_samples.shards import open_storage, require_manifest
from ctr_samples.sparksql.observations import Silent
from tests.served.server import Faults, Server, Store, StoredRow
from tests.support import small_days
from tests.support.whole_runs import write_rows

DAY = date(2019, 6, 5)
START = datetime(2019, 6, 5, tzinfo=UTC)
SHOWN, USERS, ITEMS = 6000, 300, 40
NONE = Faults()
STEP = 600
PLACES = {"home": 3, "search": 4}
"""The ids of the second version of the vocabulary. The first one knows `home` alone, and others have id 2."""
BY_IDS, WITH_TIMES = ServedConfig(), ServedConfig(time="at")
CONFIG = """
name: served
timezone: UTC
sources:
  log: {format: json, path: DIR/log.json, schema: "at DOUBLE, n BIGINT, u BIGINT, i BIGINT, place STRING, clicked BOOLEAN"}
  users: {format: json, path: DIR/users.json, schema: "u BIGINT, at DOUBLE, known DOUBLE, age DOUBLE, score DOUBLE,
    scores ARRAY<DOUBLE>"}
  items: {format: json, path: DIR/items.json, schema: "i BIGINT, at DOUBLE, known DOUBLE, price DOUBLE, color STRING,
    prices ARRAY<DOUBLE>"}
  homes: {format: json, path: DIR/homes.json, schema: "u BIGINT, code BIGINT"}
impressions:
  source: log
  time: timestamp_millis(bigint(at * 1000))
  keys: {user: u, item: i}
  columns: {n: n, place: place}
labels:
  clicked: {expr: clicked}
views:
  user:
    source: users
    on: user
    key: u
    event_time: timestamp_millis(bigint(at * 1000))
    ttl: 2d
  item:
    source: items
    on: item
    key: i
    event_time: timestamp_millis(bigint(at * 1000))
    available_time: timestamp_millis(bigint(known * 1000))
    ttl: 3d
  shows:
    source: log
    on: item
    key: i
    event_time: timestamp_millis(bigint(at * 1000))
    aggregates: {windows: [1h, 6h], step: 10m, counts: {all: "true"}}
  home: {source: homes, on: user, key: u, static: true}
vocabularies:
  places: {capacity: 10, min_count: 1}
fitted: {path: DIR/fitted, days: 1}
features:
  n: {from: impression.n, dtype: int64}
  age: {from: user.age, dtype: float32}
  score: {expr: user.score * 2, dtype: float32}
  price: {from: item.price, dtype: float32}
  red: {expr: "case when item.color = 'red' then 1 else 0 end", dtype: int64}
  hour: {from: impression.impression_time, date_part: hour, dtype: int64}
  fit: {expr: user.score * item.price, dtype: float32, default: -1}
  product: {dot: {of: user.scores, with: item.prices}, dtype: float32, default: -1}
  home: {from: home.code, dtype: int64}
  shows_1h: {from: shows.all_1h, dtype: int64}
  shows_6h: {from: shows.all_6h, dtype: int64}
  place: {from: impression.place, vocabulary: places, dtype: int64}
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
    times: Mapping[int, Sequence[float]]
    """When each item was shown, in seconds since the day began, days before included."""

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
            line |= {"product": line["fit"]}
            line |= {f"shows_{hours}h": self.shows(one["i"], one["at"], hours) for hours in (1, 6)}
            line |= {"home": 7 * one["u"] + 1 if one["u"] < USERS else 0}
            line |= {"place": PLACES[one["place"]]}
            change(line)
            lines.append(line)
        return list(server.logged(lines))

    def shows(self, item: int, at: float, hours: int) -> int:
        """How often an item was shown in the last hours before the last full step of ten minutes."""
        end = at // STEP * STEP
        times = self.times[item]
        return bisect_left(times, end) - bisect_left(times, end - 3600 * hours)

    def compared(
        self, spark: SparkSession, lines: list[dict[str, Any]] | Path, served: ServedConfig = WITH_TIMES, **how: bool
    ) -> Served:
        """The comparison with such lines, or with the log in a file."""
        path = lines if isinstance(lines, Path) else self.root / "served.parquet"
        if isinstance(lines, list):
            pq.write_table(pa.Table.from_pylist(lines), path)
        return compared(spark, self.root / "c.yaml", path, served, **how)


def small_lines(wrong: int = 0) -> list[dict[str, Any]]:
    """What a service logs of the small samples, with so many wrong numbers."""
    rows = [row for first in range(0, 500, 50) for row in small_days.rows(first, 50).to_pylist()]
    return [{**row, "number": row["number"] + (n < wrong)} for n, row in enumerate(rows)]


def small_compared(root: Path, lines: list[dict[str, Any]] | Path, served: ServedConfig = BY_IDS) -> Served:
    """The comparison of the small samples with such lines, or with the log in a file, without Spark."""
    path = lines if isinstance(lines, Path) else root / "served.json"
    if isinstance(lines, list):
        write_rows(path, lines)
    return compared(None, root / "c.yaml", path, served, causes=False)


def compared(spark: SparkSession | None, config: Path, path: Path, served: ServedConfig, **how: bool) -> Served:
    """The comparison of the day that a configuration has published with the log in a file or directory."""
    job_config = load_config(config).config.model_copy(update={"served": served})
    storage = open_storage(job_config.output.path)
    manifest = require_manifest(storage, DAY)
    log = ServedLog.open(str(path), ExampleContract.from_dict(dict(manifest.contract)), served)
    task = Task(storage, manifest, log, job_config, DAY, str(path))
    return compare_served(task, lambda: (spark, Silent()), **{"causes": True, "propose": False, **how})


def tables(rng: random.Random) -> dict[str, list[dict[str, Any]]]:
    """Rows that change every few hours, with values that tell them apart, and are known at once or, of items, minutes later."""
    users, items = [], []
    for u in range(USERS):
        at = -rng.uniform(0, 20) * 3600
        while at < 24 * 3600:
            users.append({"u": u, "at": at, "known": at, "age": rng.uniform(18, 90), "score": rng.random()})
            at += rng.uniform(0.5, 6) * 3600
    for i in range(ITEMS):
        at = -rng.uniform(0, 20) * 3600
        while at < 24 * 3600:
            items.append(
                {
                    "i": i,
                    "at": at,
                    "known": at + rng.uniform(0, 600),
                    "price": rng.uniform(1, 100),
                    "color": rng.choice(["red", "blue"]),
                }
            )
            at += rng.uniform(1, 8) * 3600
    shown = [
        {
            "at": rng.uniform(0, 86399),
            "n": n,
            "u": rng.randrange(USERS + 5),
            "i": rng.randrange(ITEMS),
            "place": rng.choice(["home", "search"]),
            "clicked": rng.random() < 0.1,
        }
        for n in range(SHOWN)
    ]
    return {"users": users, "items": items, "log": sorted(shown, key=lambda row: row["at"])}


def lists_of(row: dict[str, Any]) -> dict[str, Any]:
    """A row, with its score and its price in lists as well."""
    return {**row, **{f"{name}s": [row[name]] for name in ("score", "price") if name in row}}


def published(spark: SparkSession, root: Path) -> Day:
    """Publish a day in a directory."""
    made = tables(random.Random(39))
    before = [
        {"at": -3600.0 * hours, "n": -hours, "u": 1, "i": hours % ITEMS, "place": place, "clicked": False}
        for hours, place in [*((n, "search") for n in range(1, 20)), *((n, "home") for n in range(20, 48))]
    ]
    for name, unrounded in made.items():
        rows = [
            {**row, "at": round(row["at"], 3), **({"known": round(row["known"], 3)} if "known" in row else {})}
            for row in unrounded
        ]
        made[name] = rows
        rows = [*before, *rows] if name == "log" else rows
        base = START.timestamp()
        lines = [
            {**lists_of(row), "at": base + row["at"], **({"known": base + row["known"]} if "known" in row else {})}
            for row in rows
        ]
        write_rows(root / f"{name}.json", lines)
    homes = [{"u": u, "code": 7 * u + 1} for u in range(USERS)]
    write_rows(root / "homes.json", homes)
    (root / "c.yaml").write_text(CONFIG.replace("DIR", str(root)))
    earlier = load_config(root / "c.yaml", ["features.red.expr=case when item.color = 'blue' then 1 else 0 end"])
    for days in (2, 1):
        fit(spark, load_config(root / "c.yaml"), DAY - timedelta(days=days))
    job.run(spark, earlier, DAY - timedelta(days=1), accept=CHECKS)
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
    times: dict[int, list[float]] = {item: [] for item in range(ITEMS)}
    for one in sorted([*before, *made["log"]], key=lambda row: row["at"]):
        times[one["i"]].append(one["at"])
    return Day(root, made["log"], stores, ids, times)
