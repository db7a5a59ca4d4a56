"""Forty days of hostile logs, windows and histories of every length over them, and the samples of a day as bytes."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq

from ctr_samples.job.gate import read_metrics
from ctr_samples.shards import Manifest, open_storage

CONFIG = """
name: partial_days
timezone: ZONE
sources:
  log:
    format: json
    path: ROOT/log/{date}.json
    days_before: BEFORE
    days_after: 1
    bad_records: {max_rate: 1}
    schema: t string, kind string, user string, item string, request string, paid double
impressions: {source: log, where: kind = 'shown', time: t, user: user, article: item, SHOWN}
labels:
  clicked: {source: log, where: kind = 'click', window: 1h}
JOINED
features:
FEATURES
output: {path: ROOT/OUT, partitions: 2}
"""

VIEWS = {
    "item": """  item:
    source: log
    entity: article
    key: item
    event_time: t
    available_after: DELAY
    aggregates:
      windows: [WINDOWS]
      step: STEP
      counts: {shown: kind = 'shown', clicks: kind = 'click'}
      sums: {paid: paid}
      distinct: {users: user}
      rates: {ctr: {count: clicks, of: shown, prior: 0.1, strength: 5}}
""",
    "late": """  late:
    source: log
    entity: article
    key: item
    event_time: t
    available_time: timestamp_micros(unix_micros(try_to_timestamp(t)) + 3600000000 * pmod(hash(user, paid), 60))
    aggregates:
      windows: [WINDOWS]
      step: STEP
      counts: {clicks: kind = 'click'}
      sums: {paid: paid}
      distinct: {users: user}
""",
    "daily": """  daily:
    source: log
    entity: user
    key: user
    event_time: t
    available_after: DELAY
    ttl: 35d
    daily_counts:
      days: 30
      counts: {clicks: kind = 'click'}
""",
    "last": """  last:
    source: log
    entity: user
    key: user
    where: kind <> 'click'
    event_time: t
    available_after: DELAY
    ttl: 30d
    tombstone: paid = -7.25
""",
    "reported": """  reported:
    source: log
    entity: article
    key: item
    event_time: t
    available_time: timestamp_micros(unix_micros(try_to_timestamp(t)) + 3600000000 * pmod(hash(user, paid), 60))
    ttl: unbounded
    inclusive: true
    sequence: pmod(hash(paid), 3)
""",
}


HISTORIES = {
    "short": "{source: log, where: kind = 'click', user: user, item: item, last: 1, within: 1d}",
    "late": "{source: log, user: user, item: item, last: 3, within: 5d, available_after: 3d, columns: {paid: paid}}",
    "known": "{source: log, user: user, item: item, last: 3, within: 9d, available_time: KNOWN}",
    "long": "{source: log, where: kind = 'click', user: user, item: item, last: 3, within: 40d, available_after: 10m}",
    "of_items": "{source: log, on: article, item: user, last: 3, within: unbounded, columns: {paid: paid, sort: kind}}",
}
KNOWN = "timestamp_micros(unix_micros(try_to_timestamp(t)) + 3600000000 * pmod(hash(user, paid), 60))"
"""When a row was known, up to sixty hours after its time."""
HISTORIES["known"] = HISTORIES["known"].replace("KNOWN", f"'{KNOWN}'")
LISTS = {"late": ["paid"], "of_items": ["paid", "sort"]}
"""What histories list besides items and ages."""


def write_config(
    root: Path,
    out: str,
    *,
    zone: str = "UTC",
    step: str = "1h",
    windows: Sequence[str] = ("1d", "2d"),
    delay: str = "0s",
    before: int = 3,
    views: Sequence[str] = tuple(VIEWS),
) -> Path:
    """The configuration of a set of samples whose features are all that the views count, and how old that is."""
    columns = {
        "item": [f"{name}_{window}" for name in ("shown", "clicks", "paid", "users", "ctr") for window in windows],
        "late": [f"{name}_{window}" for name in ("clicks", "paid", "users") for window in windows],
        "daily": ["clicks"],
        "last": ["paid"],
        "reported": ["paid"],
    }
    names = [f"{view}.{column}" for view in views for column in (*columns[view], "age_s", "matched")]
    features = {name: f"expr: 'cast({name} as double)', dtype: float32, default: -1" for name in names}
    values = {"BEFORE": str(before), "STEP": step, "DELAY": delay, "WINDOWS": ", ".join(windows)}
    return _written(root, out, zone, "views:\n" + "".join(VIEWS[view] for view in views), features, values)


def write_config_of_histories(
    root: Path,
    out: str,
    *,
    zone: str = "UTC",
    grain: str = "day",
    by_request: bool = True,
    views: Sequence[str] = (),
    names: Sequence[str] = tuple(HISTORIES),
) -> Path:
    """The configuration of a set of samples whose features are all that histories list; views may be counted beside them."""
    counted = "".join(["views:\n", *[VIEWS[view] for view in views]]) if views else ""
    listed = "".join(["histories:\n", *[f"  {name}: {HISTORIES[name]}\n" for name in names]])
    lists = [f"{name}.{column}" for name in names for column in ("items", "ages_s", *LISTS.get(name, []))]
    lists += [f"{view}.age_s" for view in views]
    features = {name: f"expr: 'to_json(array({name}))', dtype: string, default: none" for name in lists}
    values = {"BEFORE": "45", "DELAY": "0s", **({"SHOWN": "request: request"} if by_request else {})}
    return _written(root, out, zone, f"grain: {grain}\n{counted}{listed}", features, values)


def _written(
    root: Path, out: str, zone: str, joined: str, features: Mapping[str, str], values: Mapping[str, str]
) -> Path:
    lines = [f"  {name.replace('.', '_')}: {{{feature}}}" for name, feature in features.items()]
    text = CONFIG.replace("JOINED", joined).replace("FEATURES", "\n".join(lines))
    common = {"ROOT": str(root), "OUT": out, "ZONE": zone, "SHOWN": "dedup: 10s"}
    for key, value in {**common, **values}.items():
        text = text.replace(key, value)
    path = root / f"{out}.yaml"
    path.write_text(text if out == "plain" else f"{text}partials: {{path: {root}/partials}}\n")
    return path


def write_log(
    root: Path, day: date, zone: str, seed: int = 0, rows: int = 60, form: str = "json", years_off: float = 0
) -> None:
    """The log of a day: mostly its own rows, some of other days, a share of other centuries, and some that are hardly any."""
    chance = random.Random(f"{day} {seed}")
    midnight = datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(zone))
    (root / "log").mkdir(parents=True, exist_ok=True)
    made = [_row(chance, midnight, years_off) for _ in range(rows)]
    if form == "parquet":
        pq.write_table(pa.Table.from_pylist(made, _COLUMNS), root / f"log/{day}.parquet")
    else:
        (root / f"log/{day}.json").write_text("".join(f"{json.dumps(row)}\n" for row in made))


_COLUMNS = pa.schema(
    [*[(name, pa.string()) for name in ("t", "kind", "user", "item", "request")], ("paid", pa.float64())]
)


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


def shards_of(manifest: Manifest, out: Path) -> list[bytes]:
    """The shards of a day in their order."""
    return [(out / shard.path).read_bytes() for shard in manifest.shards]


MEASURED = (
    "samples",
    "accounting",
    "labels",
    "actions",
    "click_rate",
    "features",
    "views",
    "users",
    "duplicates",
    "baseline",
)


def rounded(facts: Any) -> Any:
    """Facts without the last digits of numbers, which depend on how many rows were added up at a time."""
    if isinstance(facts, Mapping):
        return {name: rounded(one) for name, one in facts.items()}
    if isinstance(facts, list | tuple):
        return [rounded(one) for one in facts]
    return float(f"{facts:.12g}") if isinstance(facts, float) else facts


def measured(output: Path, manifest: Manifest) -> dict[str, Any]:
    """What was measured of the samples of a day and is the same in each run that makes them."""
    metrics = asdict(read_metrics(open_storage(output), manifest))
    return {key: rounded(metrics[key]) for key in MEASURED}


def facts(manifest: Manifest) -> dict[str, Any]:
    """What the manifests of runs with equal samples share."""
    labels = {n: {k: v for k, v in one.items() if k != "flips"} for n, one in manifest.labels.items()}
    views = {n: {k: v for k, v in one.items() if k != "canaries"} for n, one in manifest.views.items()}
    return {**asdict(manifest), **dict.fromkeys(VARYING), "labels": labels, "views": views}


VARYING = (
    "run_id", "parent", "created_at", "generation", "shards", "config", "seconds", "plan", "quality", "features_from",
    "checksum", "fingerprint",
)  # fmt: skip
"""What two runs do not share, though their samples are equal."""
