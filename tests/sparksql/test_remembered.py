"""PySpark asks the JVM for a class and a method once, not at each column."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ctr_samples.sparksql.releases import without_call_sites
from ctr_samples.sparksql.session import remember_classes
from tests.support.jvm_questions import noted_questions


def test_a_second_column_takes_one_question_to_the_jvm(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    remember_classes(spark)
    with without_call_sites():
        F.col("first")
        asked = noted_questions(monkeypatch)
        column = F.col("second")
    assert len(asked) == 1, asked
    assert "second" in asked[0]
    assert str(column) == "Column<'second'>"


def test_a_class_is_the_one_that_another_session_remembers(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    remember_classes(spark)
    before = jvm.functions
    remember_classes(spark.newSession())
    assert jvm.functions is before
