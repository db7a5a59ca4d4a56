"""Tables of a real PostgreSQL: their types, their days, several tasks, a password, and a server that dies."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.sources.postgres import PASSWORD, Database, driver
from tests.sources.published_samples import manifests_in, samples_in
from tests.sources.submitted import Ended, ended, started, submitted

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


def night(config: Path, *submit: str, password: str = PASSWORD, options: Sequence[str] = ()) -> Ended:
    environ = {"SHOP_PASSWORD": password}
    return submitted(config, "2019-06-05", "--jars", str(driver()), *submit, environ=environ, options=options)


@pytest.mark.parametrize(
    ("at", "day", "cut"),
    [
        ("at", "day", "id 0 4"),
        ("at", "at", "day 2019-06-04 2019-06-07"),
        ("local", "local", "at 2019-06-05T00:00:00 2019-06-06T00:00:00"),
        ("local", "day_text", "id 0 4"),
    ],
)
def test_types_days_and_times_are_those_of_the_database_however_it_is_cut(
    shop: Database, tmp_path: Path, at: str, day: str, cut: str
) -> None:
    ended = night(configured(tmp_path, shop, at, day, cut))
    assert ended.code == 0, ended.error
    assert samples_in(tmp_path / "out") == SAMPLES


def test_a_changed_day_is_made_anew_and_the_password_is_written_nowhere(shop: Database, tmp_path: Path) -> None:
    config = configured(tmp_path, shop)
    (tmp_path / "events").mkdir()
    logged = ["--conf", "spark.eventLog.enabled=true", "--conf", "spark.eventLog.compress=false"]
    logged += ["--conf", f"spark.eventLog.dir=file:{tmp_path}/events"]
    first = night(config, *logged)
    shop.run("DELETE FROM shown WHERE id = 3", "UPDATE shown SET price = 99 WHERE id = 1")
    again = night(config, *logged)
    assert (first.code, again.code) == (0, 0), again.error
    assert {number: sample["price"] for number, sample in samples_in(tmp_path / "out").items()} == {1: 99, 2: -1}
    assert PASSWORD not in first.printed + again.printed
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len([path for path in files if "SparkListenerJobEnd" in path.read_text(errors="replace")]) == 2
    assert not [path for path in files if PASSWORD.encode() in path.read_bytes()]


def test_a_wrong_password_and_a_missing_driver_are_one_sentence(shop: Database, tmp_path: Path) -> None:
    config = configured(tmp_path, shop)
    wrong = night(config, password="not-the-one")
    place = f"sources.shown: the table shown of {shop.url} cannot be read:"
    assert (wrong.code, wrong.error) == (3, f'{place} FATAL: password authentication failed for user "shop".')
    assert "not-the-one" not in wrong.printed
    without = submitted(config, "2019-06-05", environ={"SHOP_PASSWORD": PASSWORD})
    assert without.code == 3
    assert without.error.startswith(
        f"{place} Spark does not find the driver org.postgresql.Driver; give its jar to spark-submit"
    )
    assert not (tmp_path / "out").exists()


HELD = [
    "ALTER TABLE clicks RENAME TO clicked",
    "CREATE VIEW clicks AS SELECT clicked.* FROM clicked, (SELECT pg_advisory_lock_shared(1)) AS held",
]
"""Whoever reads the clicks waits for a lock, if somebody holds it."""
WAITING = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"


def test_a_database_that_dies_while_it_is_read_leaves_the_version_before(
    database_to_kill: Database, tmp_path: Path
) -> None:
    database = database_to_kill
    database.run(LOG, ROWS, CLICKS, CLICK, PRICES, PRICE, *HELD)
    config = configured(tmp_path, database)
    assert night(config).code == 0
    published = manifests_in(tmp_path / "out")
    jars, environ = ("--jars", str(driver())), {"SHOP_PASSWORD": PASSWORD}
    with subprocess.Popen(database.command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        print("SELECT pg_advisory_lock(1);\n\\echo held", file=holder.stdin, flush=True)
        assert [holder.stdout.readline(), holder.stdout.readline()] == ["\n", "held\n"]
        with started(config, "2019-06-05", *jars, environ=environ, options=["--force"]) as run:
            while database.run(WAITING) == "0":
                assert run.poll() is None, "the run ended before it read the clicks"
            database.kill()
            done = ended(run)
        holder.kill()
    assert done.code == 3
    named = {"shown": "the table shown", "clicks": "the table clicks", "prices": "the query"}
    places = ", or ".join(f"sources.{name}: {what} of {database.url}" for name, what in named.items())
    assert re.fullmatch(rf"{re.escape(places)} cannot be read: [^\n]+\.", done.error)
    assert PASSWORD not in done.printed
    assert manifests_in(tmp_path / "out") == published
    assert samples_in(tmp_path / "out") == SAMPLES
