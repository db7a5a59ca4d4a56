"""Three days of a tiny log, whose cities, prices and words are known, and a configuration that fits them."""

from __future__ import annotations

import json
from pathlib import Path

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
    path: {logs}/{{date}}.json
    days_after: 1
    schema: "t string, user string, item string, kind string, city string, price double, words array<string>"
impressions:
  source: log
  where: kind = 'shown'
  time: t
  user: user
  article: item
  columns: {{city: city, price: price, words: words}}
labels:
  clicked: {{source: log, where: kind = 'click', window: 1h}}
features:
  city: {{from: impression.city, dtype: int64, vocabulary: cities}}
  price: {{from: impression.price, dtype: float32, scale: standardise}}
  price_bucket: {{from: impression.price, dtype: int64, quantiles: 2}}
  words: {{from: impression.words, dtype: int64, vocabulary: cities, ragged: true}}
vocabularies:
  cities: {{capacity: 5, min_count: 2, oov_buckets: 1}}
fitted: {{path: {state}}}
split: {{by: time, eval_from: '20:00'}}
output: {{path: {out}, partitions: 1}}
"""


def write_logs(directory: Path) -> None:
    """One file for each night: an impression an hour, of which the first is clicked, and four in the evening."""
    directory.mkdir(parents=True)
    for day, cities in NIGHTS.items():
        shown = [(f"{day}T{hour:02}:00:00", city) for hour, city in enumerate(cities, 8)]
        shown += [(f"{day}T21:0{minute}:00", city) for minute, city in enumerate(EVENING)]
        rows = []
        for n, (time, city) in enumerate(shown):
            row = {
                "t": time,
                "user": f"u{n}",
                "item": f"i{n}",
                "city": city,
                "price": float(n),
                "words": [city] * (n if n < 3 else 0),
            }
            rows.append({**row, "kind": "shown"})
            if n == 0:
                rows.append({**row, "t": f"{day}T08:10:00", "kind": "click"})
        (directory / f"{day}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_config(directory: Path, name: str = "nights.yaml", **changes: str) -> Path:
    """The configuration, with some texts replaced by others."""
    text = CONFIG.format(logs=directory / "logs", state=directory / "state", out=directory / "out")
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    path = directory / name
    path.write_text(text)
    return path
