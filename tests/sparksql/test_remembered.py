"""PySpark asks the JVM for a class and a method once, not at each column."""

from __future__ import annotations

from typing import Any

import pytest
from py4j.clientserver import ClientServerConnection
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ctr_samples.sparksql.releases import without_call_sites
from ctr_samples.sparksql.remembered import remember_classes


def test_a_second_column_takes_one_question_to_the_jvm(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    send = ClientServerConnection.send_command

    def noted(connection: ClientServerConnection, command: str) -> Any:
        if not command.startswith("m"):  # the garbage collector's, whenever it runs
            asked.append(command)
        return send(connection, command)

    remember_classes(spark)
    with without_call_sites():
        F.col("first")
        monkeypatch.setattr(ClientServerConnection, "send_command", noted)
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
