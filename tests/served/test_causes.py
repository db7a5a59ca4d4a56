"""A simulated service with known faults: the comparison names each of them, with its figure."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from ctr_samples.config import load_config
from ctr_samples.contract import ExampleContract
from ctr_samples.job import run as job
from ctr_samples.job.reporting import Reporter, Silent
from ctr_samples.quality.checks import CHECKS
from ctr_samples.readers import iter_batches
from ctr_samples.served.document import Served
from ctr_samples.served.log import ServedLog
from ctr_samples.served.run import Task, compare_served
from ctr_samples.shards import open_storage
from ctr_samples.simulator.server import Faults, Server, Store, StoredRow, part_of

DAY = date(2019, 6, 5)
START = datetime(2019, 6, 5, tzinfo=UTC)
SHOWN, USERS, ITEMS = 6000, 300, 40
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
        self, faults: Faults = Faults(), change: Callable[[dict[str, Any]], object] = lambda line: None
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
        self, spark: SparkSession, lines: list[dict[str, Any]], *, propose: bool = False, causes: bool = True
    ) -> Served:
        """The comparison with such a log."""
        pq.write_table(pa.Table.from_pylist(lines), self.root / "served.parquet")
        storage = open_storage(self.root / "out")
        loaded = load_config(self.root / "c.yaml")
        (manifest,) = [job.run(spark, loaded, DAY, accept=CHECKS).manifest]
        config = loaded.config.model_copy(update={"served": loaded.config.served.model_copy(update={"time": "at"})})
        path = str(self.root / "served.parquet")
        log = ServedLog.open(path, ExampleContract.from_dict(dict(manifest.contract)), config.served)

        @contextmanager
        def session() -> Iterator[tuple[SparkSession, Reporter]]:
            yield spark, Silent()

        return compare_served(Task(storage, manifest, log, config, DAY, path), session, causes=causes, propose=propose)


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


@pytest.fixture(scope="module")
def day(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Day:
    root = tmp_path_factory.mktemp("served")
    made = tables(random.Random(39))
    for name, rows in made.items():
        rows = [
            {**row, "at": round(row["at"], 3), **({"known": round(row["known"], 3)} if "known" in row else {})}
            for row in rows
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


def share(lines: list[dict[str, Any]], right: list[dict[str, Any]], name: str) -> float:
    return float(np.mean([a[name] != b[name] for a, b in zip(lines, right, strict=True)]))


def test_a_faultless_service_has_no_difference(spark: SparkSession, day: Day) -> None:
    found = day.compared(spark, day.served())
    assert found.coverage.matched == found.coverage.samples == SHOWN
    assert {name: one.differ for name, one in found.features.items()} == dict.fromkeys(found.features, 0)
    assert found.beyond == []


def test_a_late_store_is_named_with_its_delay(spark: SparkSession, day: Day) -> None:
    lines = day.served(Faults(late={"user": timedelta(hours=3)}))
    found = day.compared(spark, lines, propose=True)
    assert {name for name, one in found.features.items() if one.differ} == {"age", "score", "fit"}
    for name in ("age", "score", "fit"):
        one = found.features[name]
        assert one.share == pytest.approx(share(lines, day.served(), name), abs=1e-9)
        assert one.causes[0].name == "late row", one.causes
        assert one.causes[0].share > 0.99
        assert "3h late" in one.causes[0].sentence
        assert one.unexplained is not None
        assert one.unexplained < 0.01
    (proposal,) = [one for one in found.proposals if one.view == "user"]
    assert (proposal.available_after, proposal.agreement) == ("3h", pytest.approx(1, abs=0.01))
    assert [one for one in found.proposals if one.view == "item"] == []


def test_one_late_partition_is_named(spark: SparkSession, day: Day) -> None:
    lines = day.served(Faults(late_part={"user": (8, timedelta(days=1))}))
    age = day.compared(spark, lines).features["age"]
    assert (age.causes[0].name, age.causes[0].share > 0.99) == ("late row", True)
    assert "1d late" in age.causes[0].sentence
    assert "only for a part of the keys" in age.causes[0].sentence
    assert age.share == pytest.approx(np.mean([part_of(line["u"], 8) == 0 for line in lines]), abs=0.02)


def test_failing_look_ups_are_named(spark: SparkSession, day: Day) -> None:
    found = day.compared(spark, day.served(Faults(failing={"item": 0.02})))
    price = found.features["price"]
    assert (price.causes[0].name, price.causes[0].share) == ("no row", 1.0)
    assert price.share == pytest.approx(0.02, abs=0.01)


def test_float16_a_wrong_zone_and_another_formula_are_told_apart(spark: SparkSession, day: Day) -> None:
    def wrong(line: dict[str, Any]) -> None:
        line["age"] = float(np.float16(line["age"]))
        line["hour"] = (line["hour"] + 8) % 24
        line["score"] = line["score"] * 1000
        line["price"] = line["price"] ** 2

    found = day.compared(spark, day.served(Faults(), wrong)).features
    assert [found[name].causes[0].name for name in ("age", "hour", "score")] == ["precision", "zone", "unit"]
    assert "+8 h apart" in found["hour"].causes[0].sentence
    assert "1000 times as large" in found["score"].causes[0].sentence
    assert found["price"].causes == []
    assert found["price"].unexplained == 1.0


def test_rows_of_another_key_are_named(spark: SparkSession, day: Day) -> None:
    found = day.compared(spark, day.served(Faults(stale_key={"user": 0.3}))).features["age"]
    assert found.causes[0].name == "another key"
    assert found.causes[0].share > 0.97
    assert found.share == pytest.approx(0.3, abs=0.02)


def test_a_clock_that_is_two_seconds_ahead_is_named(spark: SparkSession, day: Day) -> None:
    found = day.compared(spark, day.served(Faults(clock=timedelta(seconds=120)))).features["age"]
    assert found.causes[0].name == "early row"
    assert "2m earlier" in found.causes[0].sentence


def test_faults_together_are_told_apart(spark: SparkSession, day: Day) -> None:
    faults = Faults(late={"user": timedelta(hours=3)}, failing={"user": 0.05}, lost=0.03, repeated=0.02)
    lines = day.served(faults, lambda line: line.update(age=float(np.float16(line["age"]))))
    found = day.compared(spark, lines)
    age = found.features["age"]
    assert {one.name for one in age.causes} == {"precision", "late row", "no row"}
    assert age.unexplained is not None
    assert age.unexplained < 0.01
    assert found.coverage.not_served / SHOWN == pytest.approx(0.03, abs=0.01)
    assert found.coverage.repeated / SHOWN == pytest.approx(0.02, abs=0.01)


def test_served_lines_without_a_sample_are_looked_up(spark: SparkSession, day: Day) -> None:
    lines = day.served()
    lines[0] = {**lines[0], "impression_id": 12345}
    coverage = day.compared(spark, lines).coverage
    assert (coverage.not_served, coverage.no_sample) == (1, 1)
    assert coverage.why_no_sample == {"not in the log of impressions": 1}
