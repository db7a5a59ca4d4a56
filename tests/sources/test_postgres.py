"""Tables of a real PostgreSQL: their types, their days, several tasks, a password, and a server that dies."""

from __future__ import annotations

from pathlib import Path

import pytest
from postgres import PASSWORD, Database, driver
from published import samples_in
from submitted import Ended, submitted

LOG = """
    CREATE TABLE shown (
        id int, day date, day_text varchar, at timestamptz, local timestamp, usr uuid, item bigint, price numeric(10, 2),
        any_number numeric, tags text[], note text, good boolean)
"""
ROWS = """
    INSERT INTO shown VALUES
    (1, '2019-06-05', '2019-06-05', '2019-06-05 08:00:00+00', '2019-06-05 10:00:00',
     '00000000-0000-0000-0000-00000000000a', 7, 12.25, 0.125, '{red,"a,b"}', 'naïve', true),
    (2, '2019-06-05', '2019-06-05', '2019-06-05 21:59:59.999999+00', '2019-06-05 23:59:59.999999',
     '00000000-0000-0000-0000-00000000000b', 7, NULL, NULL, NULL, NULL, NULL),
    (3, '2019-06-05', '2019-06-05', '2019-06-04 22:00:00+00', '2019-06-05 00:00:00',
     '00000000-0000-0000-0000-00000000000c', 900000000000, -0.5, 1234567.5, '{}', '', false),
    (4, '2019-06-06', '2019-06-06', '2019-06-06 08:00:00+00', '2019-06-06 10:00:00',
     '00000000-0000-0000-0000-00000000000a', 7, 1, 1, '{}', '', false)
"""
CLICKS = "CREATE TABLE clicks (day date, at timestamptz, usr uuid, item bigint)"
CLICK = "INSERT INTO clicks VALUES ('2019-06-05', '2019-06-05 10:01:00+02', '00000000-0000-0000-0000-00000000000a', 7)"
PRICES = "CREATE TABLE prices (item bigint, since timestamptz, until timestamptz, price numeric(10, 2), sizes real[])"
PRICE = """
    INSERT INTO prices VALUES
    (7, '-infinity', '2019-06-05 21:00+00', 1.5, '{1.5,2.5}'), (7, '2019-06-05 21:00+00', 'infinity', 2.5, '{}')
"""
CONFIG = """
name: shop
timezone: Europe/Berlin
sources:
  shown: {format: jdbc, url: "URL", user: shop, password: "${SHOP_PASSWORD}", driver: org.postgresql.Driver,
          table: shown, date_column: DAY, days_after: 1,
          partition: {column: CUT, lower: LOWER, upper: UPPER, count: 3}}
  clicks: {format: jdbc, url: "URL", user: shop, password: "${SHOP_PASSWORD}", driver: org.postgresql.Driver,
          table: clicks}
  prices: {format: jdbc, url: "URL", user: shop, password: "${SHOP_PASSWORD}", driver: org.postgresql.Driver,
          query: "SELECT * FROM prices"}
impressions: {source: shown, time: AT, user: usr, article: item, columns: {id: id, price: price, any: any_number, note: note,
              tags: tags, good: good}}
labels: {clicked: {source: clicks, time: at, user: usr, article: item, window: 10m}}
views:
  price: {source: prices, entity: article, key: item, event_time: since, valid_to: until, ttl: unbounded}
features:
  id: {from: impression.id, dtype: int64}
  price: {from: impression.price, dtype: float32, default: -1}
  any: {from: impression.any, dtype: float32, default: -1}
  note: {from: impression.note, dtype: string, default: "none"}
  tags: {from: impression.tags, dtype: string, shape: [2], pad: true}
  good: {from: impression.good, dtype: int64, default: -1}
  paid: {from: price.price, dtype: float32, default: -1}
  sizes: {from: price.sizes, dtype: float32, shape: [2], pad: true}
output: {path: OUT, partitions: 1}
quality: {volume: {fail: null}}
"""
SAMPLES = {
    1: {"price": 12.25, "any": 0.125, "note": "naïve", "tags": ["red", "a,b"], "good": 1, "paid": 1.5, "sizes": [1.5, 2.5],
        "clicked": 1},
    2: {"price": -1, "any": -1, "note": "none", "tags": ["", ""], "good": -1, "paid": 2.5, "sizes": [0, 0], "clicked": 0},
    3: {"price": -0.5, "any": 1234567.5, "note": "", "tags": ["", ""], "good": 0, "paid": -1, "sizes": [0, 0],
        "clicked": 0},
}  # fmt: skip


@pytest.fixture
def shop(database: Database) -> Database:
    """Empty tables, then the rows above."""
    drop = [f"DROP TABLE IF EXISTS {table}" for table in ("shown", "clicks", "prices")]
    database.run(*drop, LOG, ROWS, CLICKS, CLICK, PRICES, PRICE)
    return database


def configured(root: Path, shop: Database, at: str = "at", day: str = "day", cut: str = "id 0 4") -> Path:
    column, lower, upper = cut.split()
    words = {"URL": shop.url, "OUT": str(root / "out"), "CUT": column, "LOWER": lower, "UPPER": upper}
    text = CONFIG.replace("time: AT", f"time: {at}").replace("date_column: DAY", f"date_column: {day}")
    for word, value in words.items():
        text = text.replace(word, value)
    (root / "shop.yaml").write_text(text)
    return root / "shop.yaml"


def night(config: Path, *options: str, password: str = PASSWORD) -> Ended:
    return submitted(
        config, "2019-06-05", "--jars", str(driver()), environ={"SHOP_PASSWORD": password}, options=options
    )


def test_types_days_and_times_are_those_of_the_database(shop: Database, tmp_path: Path) -> None:
    ended = night(configured(tmp_path, shop))
    assert ended.code == 0, ended.error
    assert samples_in(tmp_path / "out") == SAMPLES
