"""Forty days of hostile logs, windows and histories of every length over them, and the samples of a day as bytes."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
from pyspark.sql import SparkSession

from ctr_samples.periods import Period
from tests.support.whole_runs import made, write_rows

DAY = date(2019, 6, 5)
COLUMNS = pa.schema(
    [*[(name, pa.string()) for name in ("t", "kind", "user", "item", "request")], ("paid", pa.float64())]
)
KNOWN = "timestamp_micros(unix_micros(try_to_timestamp(t)) + 3600000000 * pmod(hash(user, paid), 60))"
"""When a row was known, up to sixty hours after its time."""

Document = dict[str, Any]
OF_ITEM: Document = {"source": "log", "entity": "article", "key": "item", "event_time": "t"}
OF_USER: Document = {"source": "log", "entity": "user", "key": "user", "event_time": "t"}
CLICKS = {"clicks": "kind = 'click'"}


def views_of(step: str = "1h", windows: Sequence[str] = ("1d", "2d"), delay: str = "0s") -> dict[str, Document]:
    """A view of each kind that is kept."""
    counted: Document = {"windows": windows, "step": step, "sums": {"paid": "paid"}, "distinct": {"users": "user"}}
    rates = {"ctr": {"count": "clicks", "of": "shown", "prior": 0.1, "strength": 5}}
    shown = {"counts": {"shown": "kind = 'shown'", **CLICKS}, "rates": rates}
    reported = {"ttl": "unbounded", "inclusive": True, "sequence": "pmod(hash(paid), 3)"}
    last = {"where": "kind <> 'click'", "ttl": "30d", "tombstone": "paid = -7.25"}
    return {
        "item": OF_ITEM | {"available_after": delay, "aggregates": counted | shown},
        "late": OF_ITEM | {"available_time": KNOWN, "aggregates": counted | {"counts": CLICKS}},
        "daily": OF_USER | {"available_after": delay, "ttl": "35d", "daily_counts": {"days": 30, "counts": CLICKS}},
        "last": OF_USER | {"available_after": delay, **last},
        "reported": OF_ITEM | {"available_time": KNOWN, **reported},
    }


BY_USER: Document = {"source": "log", "user": "user", "item": "item", "last": 3}
HISTORIES: dict[str, Document] = {
    "short": BY_USER | {"where": "kind = 'click'", "last": 1, "within": "1d"},
    "late": BY_USER | {"within": "5d", "available_after": "3d", "columns": {"paid": "paid"}},
    "known": BY_USER | {"within": "9d", "available_time": KNOWN},
    "long": BY_USER | {"where": "kind = 'click'", "within": "40d", "available_after": "10m"},
    "of_items": {
        "source": "log",
        "on": "article",
        "item": "user",
        "last": 3,
        "within": "unbounded",
        "columns": {"paid": "paid", "sort": "kind"},
    },
}


def with_views(*names: str, zone: str = "UTC", **how: Any) -> Document:
    """The configuration of samples whose features are all that some views count, or all of them, and how old that is."""
    every = views_of(**how)
    views = {name: every[name] for name in names or every}
    columns = {"daily": ["clicks"], "last": ["paid"], "reported": ["paid"]}
    for name in ("item", "late"):
        counted = every[name]["aggregates"]
        measures = [one for kind in ("counts", "sums", "distinct", "rates") for one in counted.get(kind, ())]
        columns[name] = [f"{measure}_{window}" for measure in measures for window in counted["windows"]]
    features = [f"{view}.{column}" for view in views for column in (*columns[view], "age_s", "matched")]
    made_of = {"dtype": "float32", "default": -1}
    return {
        "timezone": zone,
        "impressions": {"dedup": "10s"},
        "views": views,
        "features": {name.replace(".", "_"): {"expr": f"cast({name} as double)", **made_of} for name in features},
    }


def with_histories(
    *names: str, zone: str = "UTC", grain: str = "day", by_request: bool = True, views: Sequence[str] = ()
) -> Document:
    """The configuration of samples whose features are all that some histories list; views may be counted beside them."""
    histories = {name: HISTORIES[name] for name in names or HISTORIES}
    listed = {name: ["items", "ages_s", *of.get("columns", ())] for name, of in histories.items()}
    features = [f"{name}.{column}" for name, columns in listed.items() for column in columns]
    features += [f"{view}.age_s" for view in views]
    made_of = {"dtype": "string", "default": "none"}
    return {
        "timezone": zone,
        "grain": grain,
        "impressions": {"request": "request"} if by_request else {"dedup": "10s"},
        "views": {name: views_of()[name] for name in views},
        "histories": histories,
        "features": {name.replace(".", "_"): {"expr": f"to_json(array({name}))", **made_of} for name in features},
    }


def write_document(root: Path, out: str, config: Document, before: int = 3, form: str = "json") -> Path:
    """The file of a configuration with partial results; without, if its samples are put into ``plain``."""
    log: Document = {"format": form, "path": f"{root}/log/{{date}}.{form}", "days_before": before, "days_after": 1}
    if form == "json":
        log["schema"] = "t string, kind string, user string, item string, request string, paid double"
    shown = {"source": "log", "where": "kind = 'shown'", "time": "t", "user": "user", "article": "item"}
    document = {
        "name": "partial_days",
        "labels": {"clicked": {"source": "log", "where": "kind = 'click'", "window": "1h"}},
        **config,
        "sources": {"log": {**log, "bad_records": {"max_rate": 1}}},
        "impressions": {**shown, **config["impressions"]},
        "output": {**config.get("output", {}), "path": f"{root}/{out}", "partitions": 2},
        **({} if out == "plain" else {"partials": {"path": f"{root}/partials"}}),
    }
    path = root / f"{out}.yaml"
    path.write_text(json.dumps(document))
    return path


def both(root: Path, config: Document, **form: Any) -> tuple[Path, Path]:
    """The files of a configuration without partial results and with them."""
    return write_document(root, "plain", config, **form), write_document(root, "kept", config, **form)


def check_alike(spark: SparkSession, plain: Path, kept: Path, *periods: Period, **how: Any) -> None:
    """Samples from the logs and from partial results have the same bytes."""
    for period in periods:
        from_logs, from_partials = (made(spark, path, period, force=True, **how) for path in (plain, kept))
        assert from_partials.shards == from_logs.shards


def write_logs(root: Path, days: Iterable[int], day: date = DAY, zone: str = "UTC", **more: Any) -> None:
    """The logs of so many days after a day."""
    for n in days:
        write_log(root, day + timedelta(days=n), zone, **more)


def write_log(
    root: Path, day: date, zone: str, seed: int = 0, rows: int = 60, form: str = "json", years_off: float = 0
) -> None:
    """The log of a day: mostly its own rows, some of other days, a share of other centuries, and some that are hardly any."""
    chance = random.Random(f"{day} {seed}")
    midnight = datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(zone))
    write_rows(root / f"log/{day}.{form}", [_row(chance, midnight, years_off) for _ in range(rows)], COLUMNS)


def _row(chance: random.Random, midnight: datetime, years_off: float) -> dict[str, object]:
    late = chance.choice([0] * 20 + [-1, -2, -7, -31, 1])
    if years_off and chance.random() < years_off:
        late = chance.choice([-40_000, -400, 400, 80_000])
    seconds = chance.choice([0, 0.000001, 3599.999999, 86399.999999, *[chance.uniform(0, 86400)] * 12])
    at = midnight.astimezone(ZoneInfo("UTC")) + timedelta(days=late, seconds=seconds)
    known = chance.random() > 0.02
    requests = ["r1", "r2", f"around {at + timedelta(hours=3):%F %p}", None]
    return {
        "t": f"{at.astimezone(midnight.tzinfo):%F %T.%f}" if known else None,
        "kind": chance.choice(["shown", "shown", "click", "other"]),
        "user": chance.choice(["u1", "u2", "u3", None]),
        "item": chance.choice(["i1", "i2", "i3", "i4", None]),
        "request": chance.choice(requests),
        "paid": chance.choice([None, 0.1, 1e-9, -7.25, 12345.678]),
    }
