"""Write what a release publishes: ``python tests/golden/make.py``, run with the Python path of a checkout of that release.

A small log of four days and the samples of the third one, in each layout; a table of the format, a fitted state, partial
results, and an exported model. All lies below :data:`ROOT`, since generations know the paths of their sources.
"""

from __future__ import annotations

import json
import os
import runpy
import shutil
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

values_of = runpy.run_path(str(Path(__file__).with_name("values.py")))["values_of"]

ROOT = Path("/tmp/ctr-samples-golden")  # noqa: S108
DAYS = [date(2019, 6, day) for day in (3, 4, 5, 6)]
WRITTEN = datetime(2019, 7, 1, tzinfo=UTC).timestamp()
"""When the logs were written: a generation knows them by their names, sizes and times."""

CONFIG = f"""
name: golden
timezone: Europe/Berlin
sources:
  log:
    format: json
    path: {ROOT}/log/{{date}}.json
    days_before: 2
    days_after: 1
    schema: t string, kind string, user string, item string, request string, price double, position int
  users:
    format: json
    path: {ROOT}/users.json
    schema: user string, since string, age int, city string, vector array<double>
impressions:
  source: log
  where: kind = 'shown'
  time: t
  user: user
  article: item
  position: position
  columns: {{price: price}}
labels:
  clicked: {{source: log, where: kind = 'click', window: 1h}}
views:
  user: {{source: users, entity: user, key: user, event_time: since, ttl: unbounded}}
  item:
    source: log
    entity: article
    key: item
    event_time: t
    available_after: 10m
    aggregates:
      windows: [6h, 1d]
      step: 1h
      counts: {{shown: kind = 'shown', clicks: kind = 'click'}}
      rates: {{ctr: {{count: clicks, of: shown, prior: 0.1, strength: 5}}}}
histories:
  recent: {{source: log, where: kind = 'click', user: user, item: item, last: 3, within: 1d}}
features:
  price: {{from: impression.price, dtype: float32, scale: standardise}}
  age: {{from: user.age, dtype: float32, default: 40}}
  hour: {{expr: hour(impression.impression_time), dtype: int64}}
  city: {{from: user.city, dtype: int64, vocabulary: cities}}
  article: {{from: impression.article, dtype: int64, hash_buckets: 50}}
  ctr: {{from: item.ctr_1d, dtype: float32}}
  last: {{from: recent.items, dtype: int64, hash_buckets: 50, ragged: true}}
vocabularies: {{cities: {{capacity: 9}}}}
fitted: {{path: {ROOT}/fitted}}
partials: {{path: {ROOT}/partials}}
split: {{eval: 0.25}}
output: {{path: {ROOT}/columns, partitions: 2}}
"""
NUMBERS = {
    "price": {"from": "impression.price", "dtype": "float32"},
    "rest": {"from": "user.vector", "dtype": "float32", "shape": [120]},
}
"""121 numbers, for the layout of the old system."""


def documents() -> dict[str, dict[str, Any]]:
    """The configuration of each set, by its name."""
    whole: dict[str, Any] = YAML(typ="safe").load(CONFIG)
    numbers = {name: whole["features"][name] for name in ("price", "age", "hour", "city", "article", "ctr")}
    plain = {name: whole["features"][name] for name in ("age", "hour", "article", "ctr", "last")}
    every_day = {key: value for key, value in whole["sources"]["log"].items() if not key.startswith("days_")}
    every_day["path"] = f"{ROOT}/log"
    no_days = {key: whole[key] for key in whole if key != "partials"}
    changed: dict[str, dict[str, Any]] = {
        "columns": whole,
        "dense": {key: whole[key] for key in whole if key != "histories"} | {"features": numbers},
        "sparse": whole,
        "sequence": whole,
        "legacy_121": {key: whole[key] for key in whole if key not in ("histories", "vocabularies", "fitted")}
        | {"features": NUMBERS, "views": {"user": whole["views"]["user"]}},
        "gzip": whole,
        "by_request": whole
        | {"impressions": whole["impressions"] | {"request": "request"}, "split": {"eval": 0.25, "by": "request"}},
        "sampled": whole | {"sampling": {"negatives": 0.5}},
        "hours": no_days | {"grain": "hour"},
        "whole": {key: no_days[key] for key in no_days if key not in ("vocabularies", "fitted")}
        | {"grain": "all", "sources": whole["sources"] | {"log": every_day}, "features": plain},
    }
    outputs: dict[str, dict[str, str]] = {
        **{name: {"layout": name} for name in ("dense", "sparse", "sequence", "legacy_121")},
        "gzip": {"compression": "gzip"},
        "by_request": {"order": "request", "compression": "gzip"},
    }
    return {
        name: document | {"output": {"path": f"{ROOT}/{name}", "partitions": 2, **outputs.get(name, {})}}
        for name, document in changed.items()
    }


def rows() -> Iterator[dict[str, Any]]:
    """Impressions and clicks of four days: ten in a request, some of them clicked up to two hours later."""
    for day in DAYS:
        for n in range(6):
            at = datetime(day.year, day.month, day.day, 1 + 4 * n, 10)
            for place in range(10):
                item = f"i{(7 * n + place) % 12}"
                row = {
                    "t": f"{at:%F %T}",
                    "kind": "shown",
                    "user": f"u{n % 4}",
                    "item": item,
                    "request": f"{day}-{n}",
                    "price": round(1.5 * place + n, 2),
                    "position": place,
                }
                yield row
                if (n + place) % 4 == 0:
                    later = at + timedelta(minutes=5 + 11 * place)
                    yield row | {"t": f"{later:%F %T}", "kind": "click"}


def write_inputs() -> None:
    """Write the logs and the table of users."""
    (ROOT / "log").mkdir(parents=True, exist_ok=True)
    every = list(rows())
    for day in DAYS:
        text = "".join(json.dumps(row) + "\n" for row in every if row["t"].startswith(str(day)))
        (ROOT / f"log/{day}.json").write_text(text)
    users = [
        {
            "user": f"u{n}",
            "since": f"2019-06-0{1 + n} 00:00:00",
            "age": 20 + n,
            "city": ["Wien", "Köln", "Bern"][n],
            "vector": [float(n + place) for place in range(120)],
        }
        for n in range(3)
    ]
    (ROOT / "users.json").write_text("".join(json.dumps(user, ensure_ascii=False) + "\n" for user in users))
    set_times(ROOT)


def set_times(root: Path) -> None:
    """Give the inputs below a directory the time at which they were written."""
    for path in [*(root / "log").iterdir(), root / "users.json"]:
        os.utime(path, (WRITTEN, WRITTEN))


def periods_of(name: str) -> list[str]:
    """The periods of a set."""
    return {"hours": ["2019-06-05T01", "2019-06-05T05"], "whole": ["all"]}.get(name, [str(DAYS[2])])


def written() -> list[Path]:
    """Write the configurations."""
    (ROOT / "conf").mkdir()
    paths = {ROOT / f"conf/{name}.yaml": document for name, document in documents().items()}
    for path, document in paths.items():
        path.write_text(json.dumps(document, indent=1, ensure_ascii=False))
    return list(paths)


def publish() -> None:
    """Publish all sets of the third day, of two of its hours, and of the whole log."""
    from ctr_samples.config import load_config
    from ctr_samples.job.fit import fit
    from ctr_samples.job.run import run
    from ctr_samples.periods import period_of
    from ctr_samples.quality.checks import CHECKS
    from ctr_samples.sparksql.session import session_of_command

    with session_of_command("golden") as spark:
        for name, loaded in [(path.stem, load_config(path)) for path in written()]:
            if name == "columns":
                fit(spark, loaded, DAYS[1])
            for period in periods_of(name):
                run(spark, loaded, period_of(period), accept=CHECKS)
        write_table(spark)


def write_table(spark: Any) -> None:
    """Write a table of the format, twice, in partitions, and what is read of it."""
    import ctr_samples

    ctr_samples.register(spark)
    schema = "id bigint, score double, name string, tags array<string>, place struct<x: int, y: float>, day string"
    for first in (0, 5):
        values = [
            (n, n / 3, None if n % 4 == 0 else f"name {n}", [f"t{k}" for k in range(n % 3)], (n, n / 2), f"d{n % 2}")
            for n in range(first, first + 5)
        ]
        frame = spark.createDataFrame(values, schema).coalesce(1)
        ctr_samples.write_tfrecord(frame, str(ROOT / "table"), mode="append", partition_by=["day"])
    (ROOT / "table.json").write_text(json.dumps(read_table(spark, ROOT / "table")))


def read_table(spark: Any, path: Path) -> list[Any]:
    """The columns and the rows of a table."""
    frame = spark.read.format("tfrecord").load(str(path)).orderBy("id")
    return [
        frame.schema.simpleString(),
        *[json.loads(row[0]) for row in frame.selectExpr("to_json(struct(*))").collect()],
    ]


def train() -> None:
    """Export a model that was trained on the samples in columns."""
    from ctr_samples.training.fit_options import FitOptions
    from ctr_samples.training.fitting import fit

    fit(
        FitOptions(samples=f"{ROOT}/columns", days=(str(DAYS[2]),), model="logistic", epochs=1, export=f"{ROOT}/export")
    )


if __name__ == "__main__":
    shutil.rmtree(ROOT, ignore_errors=True)
    write_inputs()
    publish()
    train()
    values = {name: {period: values_of(ROOT / name, period) for period in periods_of(name)} for name in documents()}
    (ROOT / "values.json").write_text(json.dumps(values, separators=(",", ":")))
    shutil.copytree(ROOT, sys.argv[1])
