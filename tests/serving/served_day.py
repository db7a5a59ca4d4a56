"""A published day with a feature of every kind, and the rows that each of its impressions was made from."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from ctr_samples.config import load_config
from ctr_samples.job import run as job
from ctr_samples.job.fit import fit
from ctr_samples.shards import Manifest
from tests.support.whole_runs import write_rows

FITTED, DAY = date(2019, 6, 4), date(2019, 6, 5)
SCHEMA = (
    "t timestamp, user string, item string, request string, kind string, city string, price double, words array<string>, "
    "numbers array<double>, tags map<string, double>, count int, wide bigint, flag boolean, born date, seen timestamp, "
    "by_channel map<string, array<float>>, channel int, matrix array<array<float>>, amount decimal(12,3), "
    "inside struct<code: string>, picture string"
)
CONFIG = """
name: served
timezone: Asia/Kathmandu
sources:
  log:
    format: json
    path: {root}/{{date}}.json
    days_before: 1
    days_after: 1
    schema: "{schema}"
  items:
    format: json
    path: {root}/items.json
    schema: "item string, at timestamp, city string, price double, tags map<string, double>, vector array<float>"
impressions:
  source: log
  where: kind = 'shown'
  time: t
  user: user
  article: item
  request: request
  columns: {{{columns}}}
labels:
  clicked: {{source: log, where: kind = 'click', window: 1h}}
  paid: {{source: log, where: kind = 'click', window: 1h, value: price, reduce: sum}}
views:
  item: {{source: items, entity: article, key: item, event_time: at, ttl: 30d}}
  clicks:
    {{source: log, entity: article, key: item, event_time: t, where: kind = 'never', aggregates: {{windows: [1h],
      counts: {{n: 'true', of: 'true'}}, sums: {{sum: price}}, rates: {{ctr: {{count: n, of: of, prior: 0.1, strength: 7}}}}}}}}
histories:
  recent: {{source: log, where: kind = 'click', last: 5, within: 1d, columns: {{paid: price}}}}
features:
{features}
vocabularies:
  cities: {{capacity: 6, oov_buckets: 3}}
  words: {{capacity: 4}}
fitted: {{path: {root}/state_{out}}}
sampling: {{negatives: 0.7}}
split: {{by: time, eval_from: '23:59'}}
output: {{path: {root}/{out}, partitions: 2, layout: {layout}}}
"""
COLUMNS = (
    "city price words numbers tags count wide flag born seen by_channel channel matrix amount inside picture".split()
)

COLUMNS_FEATURES = """
  user: {from: impression.user, dtype: string}
  count: {from: impression.count, dtype: int64, default: -7}
  wide: {from: impression.wide, dtype: int64, nulls: omit}
  flag: {from: impression.flag, dtype: int64}
  flag_number: {from: impression.flag, dtype: float32, default: 0.5}
  price: {from: impression.price, dtype: float32}
  amount: {from: impression.amount, dtype: float32, log1p: true, clip: [0, 1000]}
  clipped: {from: impression.price, dtype: float32, clip: [-1, 2.5], nulls: omit}
  logged: {from: impression.price, dtype: float32, clip: [0, 1.0e+30], log1p: true}
  standard: {from: impression.price, dtype: float32, scale: standardise}
  min_max: {from: impression.price, dtype: float32, clip: [-100, 100], scale: min_max, default: -1}
  scaled_list: {from: impression.numbers, dtype: float32, shape: [3], pad: true, fill: 0.25, scale: standardise}
  buckets: {from: impression.price, dtype: int64, boundaries: [-1, 0, 1.5, 10]}
  bucket_list: {from: impression.numbers, dtype: int64, boundaries: [0, 1], ragged: true}
  quartile: {from: impression.price, dtype: int64, quantiles: 4}
  hashed: {from: impression.city, dtype: int64, hash_buckets: 1000}
  hashed_count: {from: impression.count, dtype: int64, hash_buckets: 97, salt: both}
  hashed_flag: {from: impression.flag, dtype: int64, hash_buckets: 97}
  hashed_born: {from: impression.born, dtype: int64, hash_buckets: 1000003, nulls: omit}
  hashed_words: {from: impression.words, dtype: int64, hash_buckets: 50, shape: [3]}
  hashed_ragged: {from: impression.words, dtype: int64, hash_buckets: 50, ragged: true, salt: both}
  city: {from: impression.city, dtype: int64, vocabulary: cities}
  item_city: {from: item.city, dtype: int64, vocabulary: cities, nulls: omit}
  word_ids: {from: impression.words, dtype: int64, vocabulary: words, shape: [4]}
  word_hot: {from: impression.words, dtype: float32, vocabulary: words, multi_hot: true}
  city_hot: {from: impression.city, dtype: int64, vocabulary: cities, multi_hot: true}
  count_hot: {from: impression.count, dtype: float32, hash_buckets: 5, multi_hot: true}
  top: {from: impression.tags, dtype: float32, top_k: 2, shape: [2], default: 0.125}
  top_keys: {from: impression.tags, dtype: string, top_k: 2, shape: [2], part: keys}
  least: {from: impression.tags, dtype: float32, top_k: 2, ragged: true, order: smallest}
  all_keys: {from: impression.tags, dtype: string, part: keys, ragged: true}
  all_values: {from: item.tags, dtype: float32, ragged: true}
  key_ids: {from: item.tags, dtype: int64, vocabulary: words, part: keys, top_k: 3, shape: [3]}
  greatest: {from: impression.numbers, dtype: float32, top_k: 2, shape: [2], order: smallest}
  in_channel: {from: impression.by_channel, at: impression.channel, dtype: float32, shape: [2], pad: true}
  in_tags: {from: item.tags, at: impression.city, dtype: float32, default: -2}
  at_a: {from: item.tags, at: "'a'", dtype: float32}
  cross: {cross: [city, hour, word], dtype: int64, hash_buckets: 1099511627776}
  cross_wide: {cross: [wide, user], dtype: int64, hash_buckets: 100003, salt: x}
  hour: {from: impression.impression_time, date_part: hour, dtype: int64}
  weekday: {from: impression.seen, date_part: weekday, dtype: int64}
  month_day: {from: impression.born, date_part: day, dtype: int64}
  month: {from: impression.seen, date_part: month, dtype: int64, nulls: omit}
  hour_of_week: {from: impression.impression_time, date_part: hour_of_week, dtype: int64}
  weekend: {from: impression.seen, date_part: weekend, dtype: float32}
  word: {from: impression.inside.code, dtype: string, default: none}
  bytes: {from: impression.picture, dtype: bytes, nulls: omit}
  texts: {from: impression.words, dtype: string, ragged: true, fill: "?"}
  matrix: {from: impression.matrix, dtype: float32, shape: [2, 2]}
  tensor: {from: impression.matrix, dtype: float32, shape: [2, 2], encoding: tensor}
  raw: {from: impression.matrix, dtype: float32, shape: [2, 2], encoding: raw, nulls: omit}
  vector: {from: item.vector, dtype: float32, shape: [4]}
  affinity: {lookup: {map: item.tags, keys: impression.words, reduce: sum}, dtype: float32, default: -3, clip: [0, 9]}
  affinities: {lookup: {map: item.tags, keys: impression.words}, dtype: float32, shape: [3], pad: true, fill: 0.5}
  at_channel: {lookup: {map: impression.by_channel, keys: impression.channel}, dtype: float32, shape: [2], pad: true}
  tags_under: {lookup: {map: item.tags, under: impression.city, separator: /}, dtype: string, part: keys, ragged: true}
  most_under: {lookup: {map: item.tags, under: impression.city, separator: /}, dtype: float32, top_k: 1, shape: [1]}
  tag_id:
    {lookup: {map: item.tags, under: impression.city, separator: /}, dtype: int64, part: keys, ragged: true, hash_buckets: 9}
  common: {overlap: {of: impression.words, with: recent.items}, dtype: int64}
  share: {overlap: {of: impression.words, with: item.city, as: share_of}, dtype: int64, boundaries: [0.25, 0.5]}
  square: {dot: {of: impression.numbers, with: impression.numbers}, dtype: float32, scale: standardise}
  cosine: {dot: {of: item.vector, with: item.vector, as: cosine}, dtype: float32}
  crossed: {cross: [common, hour], dtype: int64, hash_buckets: 100}
  sum_of: {expr: "impression.price + coalesce(item.price, 0)", dtype: float32, clip: [0, 5]}
  matched: {from: item.matched, dtype: int64}
  age: {from: item.age_s, dtype: float32, default: -1}
  n_1h: {from: clicks.n_1h, dtype: int64}
  sum_1h: {from: clicks.sum_1h, dtype: float32}
  ctr_1h: {from: clicks.ctr_1h, dtype: float32}
  recent: {from: recent.items, dtype: int64, hash_buckets: 30, shape: [3]}
  recent_paid: {from: recent.paid, dtype: float32, shape: [3], fill: -1}
  recent_ages: {from: recent.ages_s, dtype: float32, ragged: true}
  recent_length: {from: recent.length, dtype: int64}
  model_number: {from: impression.price, dtype: float32, clip: [0, 9], scale: standardise, computed: model}
  model_bucket: {from: impression.price, dtype: float32, boundaries: [1, 2], computed: model}
  model_buckets: {from: impression.numbers, dtype: float32, boundaries: [1, 2], ragged: true, computed: model}
  model_city: {from: impression.city, dtype: string, vocabulary: one, computed: model}
  city_omitted: {from: impression.city, dtype: int64, vocabulary: cities, nulls: omit}
  model_words: {from: impression.words, dtype: string, vocabulary: one, ragged: true, computed: model, nulls: default}
"""
FEW_FEATURES = """
  price: {from: impression.price, dtype: float32, scale: standardise}
  city: {from: impression.city, dtype: int64, vocabulary: cities}
  buckets: {from: impression.price, dtype: int64, boundaries: [-1, 0, 1.5, 10]}
  hashed_words: {from: impression.words, dtype: int64, hash_buckets: 50, shape: [3]}
  word_hot: {from: impression.words, dtype: float32, vocabulary: words, multi_hot: true}
  hour: {from: impression.impression_time, date_part: hour, dtype: int64}
  count: {from: impression.count, dtype: float32}
  cross: {cross: [city, hour], dtype: int64, hash_buckets: 1000}
  item: {from: item.price, dtype: float32}
"""
RAGGED = """\
  word_ids: {from: impression.words, dtype: int64, vocabulary: words, ragged: true}
"""
TEXTS = """\
  texts: {from: impression.words, dtype: string, ragged: true, fill: "?"}
  lists: {from: impression.numbers, dtype: float32, ragged: true, nulls: omit, fill: 0.5}
"""
FILLED = """\
  rest: {from: impression.numbers, dtype: float32, top_k: 104, shape: [104]}
"""
FEATURES = {
    "columns": COLUMNS_FEATURES,
    "dense": FEW_FEATURES,
    "sparse": FEW_FEATURES + RAGGED,
    "sequence": FEW_FEATURES + RAGGED + TEXTS,
    "legacy_121": FEW_FEATURES + FILLED,
}


VIEWS_AND_HISTORIES = (
    CONFIG[CONFIG.index("  clicks:\n") : CONFIG.index("features:\n")].replace("{{", "{").replace("}}", "}")
)
CHANGES: dict[str, dict[str, str]] = {
    "columns": {"vocabularies:\n": "vocabularies:\n  one: {capacity: 3}\n"},
    **{layout: {VIEWS_AND_HISTORIES: ""} for layout in ("dense", "sparse", "sequence")},
    "legacy_121": {
        VIEWS_AND_HISTORIES: "",
        "sampling: {negatives: 0.7}\n": "",
        "  paid: {source: log, where: kind = 'click', window: 1h, value: price, reduce: sum}\n": "",
    },
}


@dataclass(frozen=True)
class Served:
    """The manifest, the messages of the records in ``root``, and for each user the impression, its rows and what is given."""

    manifest: Manifest
    root: Path
    rows: Mapping[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]


def publish(spark: SparkSession, root: Path, layout: str) -> Served:
    """Fit on one day and make the samples of the next, in one of the layouts."""
    root.mkdir(parents=True, exist_ok=True)
    items = _items()
    write_rows(root / "items.json", items)
    shown = [_row(random.Random(n), DAY, n) for n in range(90)]
    clicks = [_click(row, minutes) for row in shown[::3] for minutes in (-40, -20, -20, 3)]
    write_rows(root / f"{FITTED}.json", [_row(random.Random(-n), FITTED, n) for n in range(1, 60)])
    write_rows(root / f"{DAY}.json", [*shown, *clicks])
    config = root / f"{layout}.yaml"
    columns = ", ".join(f"{name}: {name}" for name in COLUMNS)
    text = CONFIG.format(
        root=root, schema=SCHEMA, columns=columns, features=FEATURES[layout].strip("\n"), layout=layout, out=layout
    )
    for old, new in CHANGES[layout].items():
        assert old in text, old
        text = text.replace(old, new)
    config.write_text(text)
    loaded = load_config(config)
    if not (root / f"state_{layout}").exists():
        fit(spark, loaded, FITTED)
    manifest = job.run(spark, loaded, DAY).manifest
    return Served(manifest, root / layout, {row["user"]: _served(row, items, clicks) for row in shown})


def _items() -> list[dict[str, Any]]:
    rows = []
    for n in range(0, 12, 2):
        for hour in (1, 9):
            one = random.Random(1000 * n + hour)
            rows.append(
                {
                    "item": f"i{n}",
                    "at": f"2019-06-04T{hour:02}:00:00Z",
                    "city": one.choice(["Oslo", "Lund", None]),
                    "price": one.choice([None, one.uniform(-3, 3)]),
                    "tags": one.choice(
                        [
                            None,
                            {},
                            {
                                "a": 1.5,
                                "b": one.random(),
                                "Oslo": None,
                                "c": 1.5,
                                "Oslo/x": 2.5,
                                "Lund/y": -1,
                                "Oslo/z": 3,
                            },
                        ]
                    ),
                    "vector": [one.uniform(-1, 1) for _ in range(4)],
                }
            )
    return rows


def _row(one: random.Random, day: date, n: int) -> dict[str, Any]:
    """An impression with values of which each is missing now and then."""
    moment = datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(seconds=n * 600, milliseconds=n)
    row = {
        "city": one.choice(["Oslo", "Lund", "Kiel", "北京", "Rome " * 9, ""]),
        "price": one.choice([0.1, -0.0, 1.5, -40.25, 1e6, "NaN", one.uniform(-5, 20)]),
        "words": [one.choice(["a", "b", "c", "new", "ü" * 5, ""]) for _ in range(one.randrange(5))],
        "numbers": [one.choice([0.5, 3.25, -1.0, None, one.random()]) for _ in range(3)],
        "tags": {tag: one.choice([1.5, one.random(), None]) for tag in one.sample("abcde", one.randrange(5))},
        "count": one.randrange(-3, 50),
        "wide": one.choice([2**53 + 1, -(2**62), one.randrange(1000)]),
        "flag": one.random() < 0.5,
        "born": f"19{one.randrange(30, 99)}-0{one.randrange(1, 9)}-1{one.randrange(9)}",
        "seen": f"2019-0{one.randrange(1, 9)}-0{one.randrange(1, 9)}T{one.randrange(24):02}:30:00Z",
        "by_channel": {str(channel): [0.5, channel, -1] for channel in range(one.randrange(3))},
        "channel": one.randrange(3),
        "matrix": [[1.0, one.uniform(0, 1)], [0.0, -2.0]],
        "amount": one.choice([12.345, 0.001, 99999.999]),
        "inside": {"code": one.choice(["x", "y"])},
        "picture": one.choice(["\u00ff", "abc"]),
    }
    kept = {key: None if one.random() < 0.12 else value for key, value in row.items()}
    return {"t": moment.isoformat(), "user": f"u{n}", "item": f"i{n % 9}", "request": f"r{n}", "kind": "shown", **kept}


def _click(row: dict[str, Any], minutes: int) -> dict[str, Any]:
    """An action of the impression's user near it."""
    moment = datetime.fromisoformat(row["t"]) + timedelta(minutes=minutes)
    return {
        **row,
        "kind": "click",
        "t": moment.isoformat(),
        "request": None if minutes < 0 else row["request"],
        "item": f"i{-minutes}",
    }


def _served(
    row: dict[str, Any], items: list[dict[str, Any]], clicks: list[dict[str, Any]]
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """What a service has at hand: the values that the log holds, in the types of Python."""
    time = datetime.fromisoformat(row["t"])
    impression = {name: row[name] for name in COLUMNS} | {"impression_time": time, "user": row["user"]}
    if impression["price"] == "NaN":
        impression["price"] = float("nan")
    for name, read in (("born", date.fromisoformat), ("seen", datetime.fromisoformat)):
        impression[name] = read(row[name]) if row[name] else None
    earlier = [i for i in items if i["item"] == row["item"] and datetime.fromisoformat(i["at"]) < time]
    item = dict(max(earlier, key=lambda i: i["at"])) if earlier else None
    if item is not None:
        item["age_s"] = (time - datetime.fromisoformat(item["at"])).total_seconds()
    before = [c for c in clicks if c["user"] == row["user"] and datetime.fromisoformat(c["t"]) < time]
    newest = {c["item"]: c for c in sorted(before, key=lambda c: c["t"])}.values()
    listed = sorted(newest, key=lambda c: c["t"], reverse=True)
    recent = {
        "items": [c["item"] for c in listed],
        "ages_s": [(time - datetime.fromisoformat(c["t"])).total_seconds() for c in listed],
        "paid": [float(c["price"]) if c["price"] is not None else None for c in listed],
    }
    price, other = impression["price"], (item or {}).get("price") or 0.0
    given = {"sum_of": None if price is None else price + other}
    return impression, {"item": item, "clicks": None, "recent": recent if listed else None}, given
