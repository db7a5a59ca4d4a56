"""A program, run by Spark 4.1: a job whose sources are an Iceberg and a Delta table of a Hive metastore, which change between
its runs."""

from __future__ import annotations

import sys
from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ctr_samples.config import load_config
from ctr_samples.errors import InputError
from ctr_samples.job.run import run

JARS = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0,io.delta:delta-spark_4.1_2.13:4.4.0"
DAY = date(2019, 6, 5)
CONFIG = """
name: lake
timezone: UTC
sources:
  log: {format: table, table: lake.db.log, date_column: at, days_after: 1}
  prices: {format: table, table: prices}
impressions: {source: log, time: at, user: user, article: item}
labels: {clicked: {source: log, where: "false", window: 1m}}
views: {price: {source: prices, entity: article, key: item, event_time: since, ttl: unbounded}}
features: {price: {from: price.price, dtype: int64}}
output: {path: PATH/out, partitions: 1}
quality: {volume: {fail: null}}
"""


def session(root: Path) -> SparkSession:
    settings = {
        "spark.jars.packages": JARS,
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions,"
        "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hive",
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={root}/metastore;create=true",
        "spark.hadoop.hive.metastore.schema.verification": "false",
        "spark.hadoop.datanucleus.schema.autoCreateAll": "true",
        "spark.hadoop.datanucleus.connectionPoolingType": "none",
        "spark.hadoop.iceberg.engine.hive.lock-enabled": "false",
        "spark.sql.warehouse.dir": f"{root}/warehouse",
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={root}",
    }
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def main(root: Path) -> None:
    spark = session(root)
    spark.sql("CREATE NAMESPACE lake.db")
    spark.sql(
        "CREATE TABLE lake.db.log (user string, item string, at timestamp) USING iceberg PARTITIONED BY (days(at))"
    )
    spark.sql("CREATE TABLE prices (item string, since timestamp, price bigint) USING delta")
    spark.sql("INSERT INTO lake.db.log VALUES ('u', 'a', timestamp'2019-06-05 10:00:00Z')")
    spark.sql("INSERT INTO lake.db.log VALUES ('w', 'a', timestamp'2019-06-04 23:59:59Z')")
    (day_before,) = root.glob("warehouse/db.db/log/data/at_day=2019-06-04/*.parquet")
    day_before.write_text("not to be opened")
    spark.sql("INSERT INTO prices VALUES ('a', timestamp'2019-06-01 00:00:00Z', 10)")
    (root / "lake.yaml").write_text(CONFIG.replace("PATH", str(root)))
    loaded = load_config(root / "lake.yaml")

    first = run(spark, loaded, DAY)
    snapshots = {name: facts["snapshot"] for name, facts in first.manifest.inputs.items()}
    assert [snapshots[name]["format"] for name in ("log", "prices")] == ["iceberg", "delta"], snapshots
    assert not run(spark, loaded, DAY).published, "unchanged tables are a run with nothing to do"

    spark.sql("INSERT INTO prices VALUES ('a', timestamp'2019-06-02 00:00:00Z', 20)")
    dearer = run(spark, loaded, DAY).manifest
    assert dearer.inputs["log"] == first.manifest.inputs["log"]
    spark.sql("INSERT INTO lake.db.log VALUES ('v', 'a', timestamp'2019-06-05 11:00:00Z')")
    more = run(spark, loaded, DAY).manifest
    assert (dearer.generation, dearer.records, more.generation, more.records) == (2, 1, 3, 2)

    again = run(spark, loaded, DAY, as_of_generation=1).manifest
    assert (again.generation, again.records, again.fingerprint) == (4, 1, first.manifest.fingerprint)
    assert [s.crc32c for s in again.shards] == [s.crc32c for s in first.manifest.shards]
    assert [s.crc32c for s in again.shards] != [s.crc32c for s in dearer.shards]

    spark.sql("DROP TABLE prices")
    spark.sql("CREATE TABLE prices (item string, since timestamp, price bigint) USING delta")
    with pytest.raises(InputError, match="the table is another one now than that whose version 1 it read"):
        run(spark, loaded, DAY, as_of_generation=1)
    (root / "done").touch()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
