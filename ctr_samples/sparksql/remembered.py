"""Classes of the JVM that PySpark looks up for each column. They are looked up once."""

from __future__ import annotations

from typing import Any, cast

from py4j.java_gateway import JavaClass, JavaMember
from pyspark.sql import SparkSession

_USED = (
    "functions",
    "org.apache.spark.sql.functions",
    "org.apache.spark.sql.classic.SparkSession",
    "PythonRDD",
    "PythonSQLUtils",
    "PythonUtils",
    "SerDeUtil",
    "SimplePythonFunction",
)
"""Names by which PySpark looks up its classes. Those without a dot are searched for in several packages and all jars."""


class _Remembered(JavaClass):  # type: ignore[misc]
    """A class that looks up each of its static methods once."""

    def __getattr__(self, name: str) -> Any:
        member = super().__getattr__(name)
        if isinstance(member, JavaMember):  # the value of a field may change
            setattr(self, name, member)
        return member


def remember_classes(spark: SparkSession) -> None:
    """Look up what PySpark needs of the JVM, so that it does not do so at each use.

    Otherwise ``col("a")`` asks the JVM for a class and for its method before it calls it, each time. That is a third of all
    questions that the planning of a run asks.
    """
    jvm = cast(Any, spark)._jvm
    for name in _USED:
        found = getattr(jvm, name)
        if type(found) is JavaClass:  # a package, if this release of Spark has no such class
            found.__class__ = _Remembered
            setattr(jvm, name, found)
