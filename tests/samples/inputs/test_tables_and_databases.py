"""Tables of a catalog and of a database: their days, what they lack, and errors that tell no secret."""

from __future__ import annotations

import re
import subprocess
import sys
import traceback
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from pydantic import ValidationError
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ctr_samples.config import CatalogSource, ColumnarSource, DatabaseSource, load_config
from ctr_samples.errors import ConfigError, InputError
from ctr_samples.job import run as job
from ctr_samples.samples.inputs.databases import database_error, errors_of_sources
from ctr_samples.samples.inputs.sources import read_source
from ctr_samples.sparksql.columns import time_column
from ctr_samples.sparksql.session import run_session
from tests.samples.inputs.reading import DAY, SOURCE, rows_of
from tests.support.command_line import invoke
from tests.support.literal_frames import literal
from tests.support.minimal_config import MINIMAL, written


def table(name: str, **keys: object) -> CatalogSource:
    return CatalogSource.model_validate({"format": "table", "table": name, **keys})


TIMES_OF_ROWS = {
    "the last microsecond of the day before": "2019-06-04 23:59:59.999999",
    "midnight": "2019-06-05 00:00:00",
    "the last microsecond": "2019-06-05 23:59:59.999999",
    "the next midnight": "2019-06-06 00:00:00",
    "the day after the next": "2019-06-07 00:00:00",
}


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["timestamp_ltz", "timestamp_ntz", "date", "string"])
def test_a_time_is_of_the_day_that_the_clocks_of_the_configuration_show(spark: SparkSession, kind: str) -> None:
    session = run_session(spark, "Asia/Shanghai")
    rows = literal(session, [*TIMES_OF_ROWS.items(), ("no time", None)], "name string, time string")
    time = F.col("time") if "time" in kind else F.substring("time", 1, 10)
    rows.select("name", time.cast(kind).alias("at.time")).createOrReplaceTempView("times")
    source = table("times", date_column="AT.time")
    found = read_source(session, "t", source, DAY)
    assert sorted(r.name for r in found.frame.collect()) == ["midnight", "the last microsecond"]
    later = read_source(session, "t", source.model_copy(update={"days_before": 1, "days_after": 3}), DAY)
    assert sorted(r.name for r in later.frame.collect()) == sorted(TIMES_OF_ROWS)
    assert later.missing_days == (date(2019, 6, 8),)
    assert later.snapshot == {"files": None, "bytes": None, "fingerprint": None, "missing_days": ["2019-06-08"]}
    with pytest.raises(InputError, match="^sources.t: the table times has no rows with AT.time = 2019-06-08; wait for"):
        read_source(session, "t", source, date(2019, 6, 8))


def test_a_time_is_of_its_day_where_the_clocks_skip_midnight(spark: SparkSession) -> None:
    session = run_session(spark, "America/Sao_Paulo")  # 2018-11-04 began at 1:00
    session.sql(
        "create or replace temp view skipped as select timestamp'2018-11-04 02:59:59Z' + (n * interval 1 second) as at, n "
        "from values (0), (1), (82800), (82801) as t (n)"
    )
    found = read_source(session, "t", table("skipped", date_column="at"), date(2018, 11, 4))
    assert sorted(r.n for r in found.frame.collect()) == [1, 82800]


@pytest.mark.thorough
def test_a_table_or_date_column_that_is_not_there_or_of_another_type_is_named_with_a_hint_at_hive_while_its_catalog_is_off(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.sql("create or replace temp view typed as select cast(null as array<date>) dt")

    def refusal(name: str, **keys: str) -> str:
        with pytest.raises(InputError) as caught:
            read_source(spark, "t", table(name, **keys), DAY)
        return str(caught.value)

    assert refusal("typed", date_column="day") == "sources.t.date_column: the table typed has no column 'day'."
    assert refusal("typed", date_column="DT") == (
        "sources.t.date_column: 'DT' of the table typed is of type array<date>; expected a date, a timestamp, or text such "
        "as 2019-06-05. Name another column, or make a date of it in a view or a query."
    )
    hint = " If it is a Hive table, run with `--conf spark.sql.catalogImplementation=hive`."
    unknown = "sources.t: the table no.such cannot be read: The table or view `no`.`such` cannot"
    said = refusal("no.such")
    assert (said.startswith(unknown), said.endswith(hint)) == (True, True)
    monkeypatch.setattr(type(spark.conf), "get", lambda *_: "hive")
    said = refusal("no.such")
    assert (said.startswith(unknown), hint in said) == (True, False)


SHOP = "jdbc:derby:memory:shop"


@pytest.fixture(scope="module")
def shop(spark: SparkSession) -> str:
    """A database in this process with a table of ten rows on two days."""
    jvm = spark._jvm
    jvm.java.lang.Class.forName("org.apache.derby.iapi.jdbc.AutoloadedDriver")
    connection = jvm.java.sql.DriverManager.getConnection(f"{SHOP};create=true")
    statement = connection.createStatement()
    statement.execute("create table items (id bigint, seen timestamp, day date, dt varchar(10), city varchar(20))")
    insert = connection.prepareStatement("insert into items values (?, ?, ?, ?, ?)")
    for i in range(10):
        day = f"2019-06-0{4 + i % 2}"
        for place, value in enumerate((str(i), f"{day} 10:00:00", day, day, f"city {i}"), 1):
            insert.setString(place, value)
        insert.executeUpdate()
    connection.close()
    return SHOP


def jdbc(**more: object) -> DatabaseSource:
    return DatabaseSource.model_validate({"format": "jdbc", "url": SHOP, **more})


@pytest.mark.slow
def test_a_table_or_query_of_a_database_is_read_by_one_or_more_tasks(spark: SparkSession, shop: str) -> None:
    whole = read_source(spark, "items", jdbc(table="items"), DAY)
    assert whole.frame.count() == 10
    assert whole.snapshot["fingerprint"] is None
    cut = {"column": "id", "lower": 2, "upper": 8, "count": 3}
    some = jdbc(query="select id, city from items where id > 3", partition=cut)
    rows = read_source(spark, "items", some, DAY).frame
    assert rows.rdd.getNumPartitions() == 3
    assert sorted((r.ID, r.CITY) for r in rows.collect()) == [(i, f"city {i}") for i in range(4, 10)]


def test_only_the_days_needed_are_read_from_a_database_and_times_are_those_of_the_configured_zone(
    spark: SparkSession, shop: str
) -> None:
    session, frames = run_session(spark, "Asia/Shanghai"), {}
    for column in ("day", "DT", "seen"):
        source = jdbc(table="items", date_column=column, days_after=1)
        found = read_source(session, "items", source, DAY)
        assert found.missing_days == (date(2019, 6, 6),)
        with pytest.raises(InputError, match=f"the table items of {SHOP} has no rows with {column} = 2019-06-07; wait"):
            read_source(session, "items", source, date(2019, 6, 7))
        at = F.unix_micros(time_column(found.frame, "seen", "here")).alias("at")
        frames[column] = found.frame.select("id", at), ["id", "at"]
    plan = frames["day"][0]._jdf.queryExecution().executedPlan().toString()
    assert re.search(r"PushedFilters: \[[^]]*DAY", plan), "the database looks the days up"
    ten = int(datetime(2019, 6, 5, 2, tzinfo=UTC).timestamp()) * 1_000_000
    expected = tuple((number, ten) for number in (1, 3, 5, 7, 9))
    assert {tuple(sorted(rows)) for rows in rows_of(frames).values()} == {expected}


NO_DRIVER = (
    "; give its jar to spark-submit by `--jars`, or its coordinates by `--packages`, and name its class, as in "
    "`driver: org.postgresql.Driver`."
)


@pytest.mark.parametrize(
    ("url", "keys", "said"),
    [
        (
            "jdbc:derby:memory:nowhere;password=hush",
            {"table": "items"},
            "the table items of jdbc:derby:memory:nowhere cannot be read: Database 'memory:nowhere' not found.",
        ),
        (
            "jdbc:nosuch://u:hush@db:5432/shop?password=hush",
            {"table": "items"},
            "the table items of jdbc:nosuch://db:5432/shop cannot be read: Spark does not find the driver for its address"
            + NO_DRIVER,
        ),
        (
            "jdbc:nosuch://db:5432/shop",
            {"table": "items", "driver": "org.nosuch.Driver"},
            "the table items of jdbc:nosuch://db:5432/shop cannot be read: Spark does not find the driver org.nosuch.Driver"
            + NO_DRIVER,
        ),
        (f"{SHOP};password=hush", {"table": "nosuch", "user": "sa", "password": "hush"}, "the table nosuch of "),
        (f"{SHOP};password=hush", {"query": "selekt 'hush'", "user": "sa", "password": "hush"}, "the query of "),
    ],
)
def test_a_database_that_cannot_be_read_is_named_with_the_reason_and_without_a_secret(
    spark: SparkSession, shop: str, url: str, keys: dict[str, str], said: str
) -> None:
    with pytest.raises(InputError) as caught:
        read_source(spark, "items", jdbc(url=url, **keys), DAY)
    text = str(caught.value)
    assert text == f"sources.items: {said}" or (
        said.endswith("of ") and text.startswith(f"sources.items: {said}{SHOP}")
    )
    assert "hush" not in text
    assert "\n" not in text


LOGGED = """
import os, sys
from pathlib import Path
from pyspark.sql import SparkSession
from ctr_samples.config import DatabaseSource
from ctr_samples.samples.inputs.databases import open_database_table
from ctr_samples.sparksql.session import run_session
settings = {"master": "local[1]", "ui.enabled": "false", "eventLog.enabled": "true", "eventLog.compress": "false",
            "eventLog.dir": Path(sys.argv[1]).as_uri()}
builder = SparkSession.builder
for key, value in settings.items():
    builder = builder.config(f"spark.{key}", value)
spark = builder.getOrCreate()
url = "jdbc:derby:memory:logged;create=true;password=hush-in-url"
statement = spark._jvm.java.sql.DriverManager.getConnection(url).createStatement()
statement.execute("create table items (id int)")
statement.execute("insert into items values (1)")
login = {"user": "hush_user", "password": "hush-password"}
for what in ({"table": "app.items"}, {"query": "select 1 / (id - 1) as never from app.items"}):
    source = DatabaseSource.model_validate({"format": "jdbc", "url": url, **login, **what})
    try:
        open_database_table(run_session(spark, "UTC"), source).groupBy().count().show()
        open_database_table(run_session(spark, "UTC"), source).collect()
    except Exception:
        print("failed")
spark.stop()
"""


@pytest.mark.slow
def test_the_event_log_holds_no_login_of_a_database(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", LOGGED, str(tmp_path)], capture_output=True, text=True, check=True, timeout=300
    )
    log = "".join(file.read_text() for file in tmp_path.rglob("*") if file.is_file())
    assert "failed" in run.stdout
    assert "JDBCRelation(app.items)" in log
    assert "SparkListenerTaskEnd" in log
    assert "hush" not in log


def test_no_error_of_a_task_that_reads_a_database_tells_a_secret(spark: SparkSession, shop: str) -> None:
    query = "select id, 10 / (id - 3) as share from APP.items"
    source = jdbc(url=f"{SHOP};password=hush", query=query, user="sa", password="hush")
    frame = read_source(spark, "items", source, DAY).frame
    with pytest.raises(InputError) as caught, errors_of_sources({"items": source}):
        frame.collect()
    assert str(caught.value) == f"sources.items: the query of {SHOP} cannot be read: Attempt to divide by zero."
    assert caught.value.__cause__ is None, "what Spark threw may hold the address"
    assert "hush" not in "".join(traceback.format_exception(caught.value))


TASK_FAILED = "An error occurred while calling o1.collect.\n: org.apache.spark.SparkException: Job aborted: "


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "Lost task 0.0 in stage 3.0 (TID 3) (h exec 1): java.sql.SQLException: No suitable driver found for URL\n\tat x",
            "No suitable driver found for jdbc:postgresql://db:5432/shop.",
        ),
        (
            "Lost task (h executor 1): org.apache.spark.SparkSQLException: [FAILED_JDBC.CONNECTION] Failed JDBC URL\n"
            'Caused by: org.postgresql.util.PSQLException: FATAL: password authentication failed for user "u"\n\tat x',
            'FATAL: password authentication failed for user "u".',
        ),
        (
            "Lost task: com.mysql.cj.jdbc.exceptions.CommunicationsException: no link with hush\n",
            "the database refused with a message that contains a secret.",
        ),
        (
            "Lost task: java.io.IOException: while reading URL\n",
            "a task failed while reading its rows.",
        ),
        ("Lost task: java.lang.OutOfMemoryError: Java heap space\n", None),
        ("Lost task: org.apache.spark.sql.AnalysisException: [X] no such column\n", None),
    ],
)
def test_what_drivers_say_on_executors_is_told_without_the_address(text: str, said: str | None) -> None:
    url = "jdbc:postgresql://u:hush@db:5432/shop?password=hush"
    sources = {"items": jdbc(url=url, table="items"), "log": ColumnarSource(format="parquet", path="log")}
    found = database_error(RuntimeError(TASK_FAILED + text.replace("URL", url)), sources)
    place = "sources.items: the table items of jdbc:postgresql://db:5432/shop cannot be read: "
    assert (found and str(found)) == (said and place + said)
    assert database_error(RuntimeError(TASK_FAILED + text), {"log": sources["log"]}) is None


@pytest.mark.parametrize(
    ("login", "key"),
    [
        (f"url: {SHOP}, user: sa, password: hush", "password"),
        (f"url: '{SHOP};password=hush', user: sa, password: '${{SECRET}}'", "url"),
    ],
)
def test_a_password_that_stands_in_the_file_is_refused(
    spark: SparkSession, tmp_path: Path, login: str, key: str
) -> None:
    path = written(tmp_path, MINIMAL.replace("format: parquet, path: log.parquet", f"format: jdbc, table: t, {login}"))
    with pytest.raises(ConfigError, match=f"sources.log.{key} holds a secret, which would be written") as caught:
        job.run(spark, load_config(path, environ={"SECRET": "hush-hush"}), DAY)
    assert "hush" not in str(caught.value)
    found = invoke("config", "--config", str(path), env={"SECRET": "hush-hush"})
    assert (found.exit_code, "holds a secret" in found.stderr, "hush" in found.output) == (2, True, False)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"format": "jdbc", "table": "t"}, "url\n  Field required"),
        ({"format": "jdbc", "url": SHOP, "table": "t", "query": "select 1"}, "needs either `table` or `query`"),
        ({"format": "jdbc", "url": SHOP, "table": "t", "schema": "a INT"}, "schema\n  Extra inputs"),
        ({"format": "jdbc", "url": "http://db", "table": "t"}, "String should match pattern"),
    ],
)
def test_a_database_needs_an_address_and_one_thing_to_read(source: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        SOURCE.validate_python(source)
