"""One DataFrame, view or table answers any sequence of queries as Parquet does: no query leaves anything to the next."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import ctr_samples

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
"""A setting for the Python sources of the whole session, which its owner or another library may have turned on."""

ROWS = 40
CONDITIONS = (
    "true",
    "m = 3",
    "m IN (1, 2)",
    "NOT m = 3",
    "p <> 0",
    "p = 0",
    "p = 0 AND m > 2",
    "p IS NULL",
    "text LIKE 'a%'",
    "text IS NULL",
    "x > 0.25",
    "id >= 20 OR p = 1",
    "id < 0",
)

Queries = dict[str, Callable[[DataFrame, str, str], DataFrame]]
QUERIES: Queries = {
    "filter": lambda frame, one, _: frame.where(one),
    "split": lambda frame, one, _: frame.where(one).unionAll(frame.where(f"NOT coalesce({one}, false)")),
    "join": lambda frame, one, other: frame.where(one).join(frame.where(other).select("id"), "id"),
    "two filters": lambda frame, one, other: frame.where(one).where(other),
}


@pytest.fixture(params=["unset", "true", "false"])
def pushdown(request: pytest.FixtureRequest, tfrecord: SparkSession) -> Iterator[str]:
    """What the owner of the session says about filters for Python sources."""
    if request.param != "unset":
        tfrecord.conf.set(PUSHDOWN, request.param)
    yield request.param
    tfrecord.conf.unset(PUSHDOWN)


@pytest.fixture(scope="module")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same rows as Parquet, as a directory of records, and as a partitioned table of ours."""
    path = tmp_path_factory.mktemp("written")
    ctr_samples.register(spark)
    rows = spark.range(0, ROWS, 1, 1).selectExpr(
        "id",
        "id % 7 AS m",
        "if(id % 5 = 0, NULL, concat(if(id % 2 = 0, 'a', 'b'), id)) AS text",
        "cast(if(id % 9 = 0, double('NaN'), id / 100) AS float) AS x",
        "cast(if(id % 4 = 3, NULL, id % 4) AS int) AS p",
    )
    rows.write.parquet(str(path / "parquet"))
    rows.write.format("tfrecord").mode("append").save(str(path / "table"))
    ctr_samples.write_tfrecord(rows, str(path / "partitions"), partition_by=["p"])
    return path


def relations(spark: SparkSession, written: Path) -> list[DataFrame]:
    """A DataFrame, a temporary view, and a partitioned table of those rows."""
    schema = spark.read.parquet(str(written / "parquet")).schema.simpleString().removeprefix("struct<")[:-1]
    frame = spark.read.format("tfrecord").schema(schema.replace(":", " ")).load(str(written / "table"))
    spark.read.format("tfrecord").load(str(written / "table")).createOrReplaceTempView("rows_seen")
    return [frame, spark.table("rows_seen"), spark.read.format("tfrecord").load(str(written / "partitions"))]


def answer(frame: DataFrame) -> list[str]:
    return sorted(map(str, frame.select("id", "m", "text", "x", "p").collect()))


@pytest.mark.parametrize(
    ("seed", "length"),
    [pytest.param(1, 4, marks=pytest.mark.thorough), *[pytest.param(n, 12, marks=pytest.mark.slow) for n in range(8)]],
)
def test_any_sequence_of_queries_is_answered_as_by_parquet(
    tfrecord: SparkSession, written: Path, pushdown: str, seed: int, length: int
) -> None:
    choose = random.Random(seed)
    truth = tfrecord.read.parquet(str(written / "parquet"))
    frames = relations(tfrecord, written)
    asked = []
    for _ in range(length):
        number, name = choose.randrange(len(frames)), choose.choice(list(QUERIES))
        one, other = choose.choices(CONDITIONS, k=2)
        asked.append((number, name, one, other))
        query = QUERIES[name]
        assert answer(query(frames[number], one, other)) == answer(query(truth, one, other)), asked
    for number, frame in enumerate(frames):
        assert (frame.count(), frame.agg({"id": "sum"}).collect()) == (ROWS, [(780,)]), (number, asked)
    tfrecord.catalog.dropTempView("rows_seen")


@pytest.mark.thorough
@pytest.mark.parametrize("pushdown", ["true"], indirect=True)
def test_a_filter_leaves_no_row_out_of_the_next_query_and_appended_rows_are_seen_by_what_is_loaded_then(
    tfrecord: SparkSession, tmp_path: Path, pushdown: str
) -> None:
    """What was loaded before may show the version of its first query."""
    for number in (1, 2):
        tfrecord.range(0, 3, 1, 1).write.format("tfrecord").mode("append").save(str(tmp_path))
        frame = tfrecord.read.format("tfrecord").load(str(tmp_path))
        assert (frame.where("id = 2").count(), frame.count()) == (number, 3 * number)


@pytest.mark.parametrize("owner", ["true", "false", None])
def test_the_settings_of_a_session_stay_as_its_owner_set_them(spark: SparkSession, owner: str | None) -> None:
    session = spark.newSession()
    if owner:
        session.conf.set(PUSHDOWN, owner)
    before = dict(session.conf.getAll)
    ctr_samples.register(session)
    assert dict(session.conf.getAll) == before
