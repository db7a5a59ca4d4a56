"""What a client of a Spark Connect server does with this package; prints what it saw, as JSON. Usage: URL DIRECTORY."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import date, datetime

from pyspark.sql import SparkSession

import ctr_samples
from ctr_samples.config import load_config
from ctr_samples.errors import UsageError
from ctr_samples.job.run import run
from tests.support.project import PROJECT


def _said(call: Callable[[], object]) -> str:
    try:
        call()
    except UsageError as error:
        return str(error)
    return "nothing"


def main(url: str, directory: str) -> None:
    spark = SparkSession.builder.remote(url).getOrCreate()
    ctr_samples.register(spark)
    rows = spark.range(100).selectExpr("id", "cast(id as float) x", "array(id, id + 1) l", "cast(id % 2 as string) s")
    rows.write.format("tfrecord").mode("overwrite").save(f"{directory}/written")
    read = spark.read.format("tfrecord").load(f"{directory}/written")
    for mode in ("errorifexists", "append"):
        ctr_samples.write_tfrecord(rows, f"{directory}/published", mode=mode)
    at = [datetime(2019, 6, 5, hour) for hour in (9, 10)]
    shown = spark.createDataFrame([("u1", at[1])], "user string, t timestamp")
    known = spark.createDataFrame([("u1", at[0], 3.0)], "user string, t timestamp, v double")
    refused = (
        lambda: ctr_samples.as_of_join(shown, known, on="user", time="t", event_time="t"),
        lambda: run(spark, load_config(PROJECT / "conf/open_bandit.yaml"), date(2019, 11, 26)),
    )
    seen = {
        "session": type(spark).__module__,
        "read": sorted([row["id"], row["x"], row["l"], row["s"]] for row in read.collect()),
        "published": spark.read.format("tfrecord").load(f"{directory}/published").count(),
        "said": [_said(call) for call in refused],
    }
    spark.stop()
    sys.stdout.write(f"{json.dumps(seen)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
