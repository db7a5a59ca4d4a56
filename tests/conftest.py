"""One tiny Spark session for all tests of a process, and frames of literal rows."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from pyspark.sql import DataFrame, SparkSession

from ctr_samples.sparksql.session import remember_classes

PROJECT = Path(__file__).parent.parent

# Failed assertions of helpers are explained, too; it has to be said before a helper is imported.
pytest.register_assert_rewrite(*(f"tests.{place.name}" for place in (PROJECT / "tests").iterdir() if place.is_dir()))

settings.register_profile("any time", deadline=None)  # how long an example takes says nothing on a busy machine
settings.load_profile("any time")

os.environ["TZ"] = "America/St_Johns"  # an odd zone: a test that leans on the machine's zone fails
os.environ["PYSPARK_PYTHON"] = sys.executable  # workers need this environment's pyarrow and numba
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # a machine need not know its own name
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CTR_SAMPLES_CLASS_ARCHIVE"] = "off"  # each JVM that a test starts would write its classes when it ends
# Every Spark that a test starts, spark-submit too. With the better compiler half of a JVM's time goes into compiling; the
# other one's room for code is so small that a session of some minutes would spend its time in sweeping it. Spark's classes are
# not verified again each time.
os.environ.setdefault(
    "SPARK_SUBMIT_OPTS",
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m -XX:MetaspaceSize=256m "
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote",
)


INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.lightweightPlanChangeValidation": "false",
}
"""To compile a plan, or to plan it again after each shuffle, takes longer than to run it on tiny data. Slow tests run plans as
production does."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of the cases of a test with ``some(n)``, leave all but n to the thorough tests."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("some"):
            cases.setdefault(item.nodeid.split("[")[0], []).append(item)
    for alike in cases.values():
        (kept,) = alike[0].get_closest_marker("some").args  # type: ignore[union-attr]
        kept, in_order = min(kept, len(alike)), sorted(alike, key=lambda item: item.nodeid)
        chosen = [in_order[number * len(alike) // kept] for number in range(kept)]
        for item in set(alike) - set(chosen):
            item.add_marker("thorough")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[SparkSession]:
    """Local Spark, as small as it gets; the session's zone is UTC and the config's zone must win over it."""
    warehouse = tmp_path_factory.mktemp("warehouse")
    settings = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",  # more partitions only cost time on tiny data
        "spark.default.parallelism": "2",
        "spark.ui.enabled": "false",  # no port, no thread
        "spark.driver.host": "127.0.0.1",  # no look-up of the machine's name
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        # Literal rows go through tasks like those of files.
        "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation",
        "spark.sql.warehouse.dir": str(warehouse),  # nothing is written into the checkout
        "spark.driver.extraJavaOptions": (
            f"-Dderby.system.home={warehouse} -Dlog4j2.configurationFile={PROJECT / 'ctr_samples/sparksql/log4j2.properties'}"
        ),
        "spark.python.sql.dataFrameDebugging.enabled": "false",  # to note who made each column takes seven calls to the JVM
        "spark.python.worker.reuse": "true",  # starting a worker costs more than most tests
        **({} if pytestconfig.getoption("markexpr") == "slow" else INTERPRETED),
    }
    builder = SparkSession.builder.master("local[2]").appName("tests")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    remember_classes(session)
    yield session
    session.stop()


Rows = list[tuple[Any, ...]]


@pytest.fixture
def frame(spark: SparkSession) -> Callable[[str, Rows], DataFrame]:
    """``frame("user string, at timestamp", [("u1", "2019-06-05 10:00:00")])``: times may be written as text (UTC)."""

    def make(schema: str, rows: Rows) -> DataFrame:
        from pyspark.sql.types import DateType, StructType, TimestampType

        from tests.support.literal_frames import literal

        target = StructType.fromDDL(schema)
        texts = ", ".join(
            f"`{f.name}` {'string' if isinstance(f.dataType, TimestampType | DateType) else f.dataType.simpleString()}"
            for f in target
        )
        loose = literal(spark, rows, texts)
        return loose.select(*[loose[f.name].cast(f.dataType).alias(f.name) for f in target])

    return make
