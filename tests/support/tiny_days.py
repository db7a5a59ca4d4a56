"""Any number of tiny days of literal logs, and the configuration of their samples."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from pathlib import Path

from tests.support.whole_runs import write_rows

IMPRESSIONS = 24
"""Of a day: one in each hour; every sixth is clicked."""

CONFIG = """
name: tiny_days
timezone: UTC
sources:
  log:
    format: json
    path: ROOT/log/{date}.json
    days_after: 1
    schema: t string, kind string, user string, item string, price double
impressions: {source: log, where: kind = 'shown', time: t, user: user, article: item, columns: {price: price}}
labels:
  clicked: {source: log, where: kind = 'click', window: 1h}
features:
  price: {from: impression.price, dtype: float32}
output: {path: ROOT/out, partitions: 1}
"""


def write_days(root: Path, first: date, count: int) -> Path:
    """Write so many days of logs below ``root``; gives the path of the configuration."""
    (root / "log").mkdir(parents=True)
    for n in range(count):
        write_day(root, first + timedelta(days=n))
    path = root / "tiny_days.yaml"
    path.write_text(CONFIG.replace("ROOT", str(root)))
    return path


def write_day(root: Path, day: date) -> None:
    """Write the log of one day anew."""
    rows = [row for hour in range(IMPRESSIONS) for row in _rows(day, hour)]
    write_rows(root / f"log/{day}.json", rows)


def _rows(day: date, hour: int) -> list[dict[str, object]]:
    at = datetime(day.year, day.month, day.day, hour, 10)
    row = {"t": f"{at:%F %T}", "kind": "shown", "user": f"u{hour % 5}", "item": f"i{hour}", "price": float(hour)}
    click = {**row, "t": f"{at + timedelta(minutes=5):%F %T}", "kind": "click"}
    return [row, click] if hour % 6 == 0 else [row]
