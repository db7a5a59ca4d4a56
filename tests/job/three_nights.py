"""Three days of a tiny log, whose cities, prices and words are known, and a configuration that fits them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.whole_runs import write_rows

NIGHTS = {
    "2019-06-03": ["Oslo", "Oslo", "Oslo", "Lund", "Lund", "Rome"],
    "2019-06-04": ["Lund", "Lund", "Lund", "Kiel", "Kiel", "Oslo"],
    "2019-06-05": ["Bonn", "Bonn", "Kiel", None, "Lund", "Rome"],
}
EVENING = ["Atlantis"] * 4
"""Cities of the evening, which goes to the split eval."""

CONFIG = """
name: nights
timezone: UTC
sources:
  log:
    format: json
    path: ROOT/logs/{date}.json
    days_after: 1
    schema: "t string, user string, item string, kind string, city string, price double, words array<string>"
impressions:
  source: log
  where: kind = 'shown'
  time: t
  user: user
  article: item
  columns: {city: city, price: price, words: words}
labels:
  clicked: {source: log, where: kind = 'click', window: 1h}
features:
  city: {from: impression.city, dtype: int64, vocabulary: cities}
  price: {from: impression.price, dtype: float32, scale: standardise}
  price_bucket: {from: impression.price, dtype: int64, quantiles: 2}
  words: {from: impression.words, dtype: int64, vocabulary: cities, ragged: true}
vocabularies:
  cities: {capacity: 5, min_count: 2, oov_buckets: 1}
fitted: {path: ROOT/state}
split: {by: time, eval_from: '20:00'}
output: {path: ROOT/out, partitions: 1}
"""


def write_logs(directory: Path) -> None:
    """One file for each night: an impression an hour, of which the first is clicked, and four in the evening."""
    for day, cities in NIGHTS.items():
        shown = [(f"{day}T{hour:02}:00:00", city) for hour, city in enumerate(cities, 8)]
        shown += [(f"{day}T21:0{minute}:00", city) for minute, city in enumerate(EVENING)]
        rows: list[dict[str, Any]] = []
        for n, (at, city) in enumerate(shown):
            words = [city] * (n if n < 3 else 0)
            row = {"t": at, "user": f"u{n}", "item": f"i{n}", "city": city, "price": float(n), "words": words}
            rows.append({**row, "kind": "shown"})
            if n == 0:
                rows.append({**row, "t": f"{day}T08:10:00", "kind": "click"})
        write_rows(directory / f"{day}.json", rows)
