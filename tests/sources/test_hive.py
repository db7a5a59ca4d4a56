"""Tables of a real Hive metastore, whose partitions are the days."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sources.hive import Metastore, new_metastore
from tests.sources.published_samples import samples_in
from tests.sources.submitted import Ended, submitted
from tests.support.daemons import free_port

SHOWN = """
    CREATE TABLE shop.shown (id bigint, at string, usr string, item string, tags array<string>) PARTITIONED BY (dt string)
    ROW FORMAT DELIMITED FIELDS TERMINATED BY ',' COLLECTION ITEMS TERMINATED BY '|' STORED AS TEXTFILE
"""
LINES = {
    "2019-06-05": "1,2019-06-05 10:00:00,u,a,red|blue\n2,2019-06-05 23:59:00,v,a,\n",
    "2019-06-06": "3,2019-06-06 10:00:00,u,a,red\n",
}
CLICKS = "CREATE TABLE shop.clicks (at timestamp, usr string, item string) PARTITIONED BY (dt date) STORED AS PARQUET"
CLICK = "INSERT INTO shop.clicks PARTITION (dt = '2019-06-06') VALUES (timestamp'2019-06-06 00:01:00Z', 'v', 'a')"
EARLY = "INSERT INTO shop.clicks PARTITION (dt = '2019-06-05') VALUES (timestamp'2019-06-05 09:00:00Z', 'u', 'a')"
PRICES = "CREATE TABLE shop.prices (item string, since timestamp, price decimal(10, 2)) STORED AS ORC"
PRICE = "INSERT INTO shop.prices VALUES ('a', timestamp'2019-06-01 00:00:00Z', 12.25)"
CONFIG = """
name: shop
timezone: UTC
sources:
  shown: {format: table, table: shop.shown, date_column: dt, days_after: 1}
  clicks: {format: table, table: shop.clicks, date_column: dt, days_after: 1}
  prices: {format: table, table: shop.prices}
impressions: {source: shown, time: at, user: usr, article: item, columns: {id: id, tags: tags}}
labels: {clicked: {source: clicks, time: at, user: usr, article: item, window: 10m}}
views: {price: {source: prices, entity: article, key: item, event_time: since, ttl: unbounded}}
features:
  id: {from: impression.id, dtype: int64}
  tags: {from: impression.tags, dtype: string, shape: [2], pad: true}
  price: {from: price.price, dtype: float32}
output: {path: OUT, partitions: 1}
quality: {volume: {fail: null}}
"""
SAMPLES = {
    1: {"tags": ["red", "blue"], "price": 12.25, "clicked": 0},
    2: {"tags": ["", ""], "price": 12.25, "clicked": 1},
}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Metastore:
    """The tables above, and in both logs a partition of an earlier day, whose file cannot be read."""
    metastore = new_metastore(tmp_path_factory.mktemp("hive"))
    warehouse = metastore.root / "warehouse/shop.db"
    log = {day: warehouse / f"shown/dt={day}" for day in ("2019-06-04", *LINES)}
    partitions = [f"ALTER TABLE shop.shown ADD PARTITION (dt = '{day}')" for day in log]
    broken = "ALTER TABLE shop.clicks ADD PARTITION (dt = '2019-06-04')"
    metastore.run("CREATE DATABASE shop", SHOWN, CLICKS, CLICK, EARLY, PRICES, PRICE, *partitions, broken)
    for day, lines in LINES.items():
        (log[day] / "log.csv").write_text(lines)
    (log["2019-06-04"] / "log.gz").write_text("no gzip")
    (warehouse / "clicks/dt=2019-06-04/log.parquet").write_text("no Parquet")
    return metastore


def night(root: Path, metastore: Metastore, date: str) -> Ended:
    (root / "shop.yaml").write_text(CONFIG.replace("OUT", str(root / "out")))
    return submitted(root / "shop.yaml", date, environ=metastore.environ)


def test_only_the_partitions_of_the_night_are_read(shop: Metastore, tmp_path: Path) -> None:
    ended = night(tmp_path, shop, "2019-06-05")
    assert ended.code == 0, ended.error
    assert samples_in(tmp_path / "out") == SAMPLES


def test_a_partition_that_cannot_be_read_is_one_sentence(shop: Metastore, tmp_path: Path) -> None:
    ended = night(tmp_path, shop, "2019-06-04")
    said = "sources.shown: the table shop.shown cannot be read: EOFException: Unexpected end of input stream."
    assert (ended.code, ended.error) == (3, said)
    assert not (tmp_path / "out").exists()


def test_a_metastore_that_does_not_answer_is_one_sentence(tmp_path: Path) -> None:
    metastore = new_metastore(tmp_path)
    site = tmp_path / "conf/hive-site.xml"
    nowhere = f"<property><name>hive.metastore.uris</name><value>thrift://127.0.0.1:{free_port()}</value></property>"
    once = "<property><name>hive.metastore.connect.retries</name><value>1</value></property>"
    site.write_text(f"<configuration>{nowhere}{once}</configuration>")
    ended = night(tmp_path, metastore, "2019-06-05")
    assert ended.code == 3
    assert ended.error.startswith("sources.shown: the table shop.shown cannot be read: ")
    assert ended.error.endswith("Unable to instantiate org.apache.hadoop.hive.ql.metadata.SessionHiveMetaStoreClient.")
