"""Failed jobs as sentences: what is full, too large or not installed, and what to do."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from ctr_samples.errors import CtrSamplesError, InputError, StorageError
from ctr_samples.sparksql.failures import as_expected_error
from ctr_samples.sparksql.session import session_of_command

JOB = "Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most recent failure: Lost task 0.0: "


@pytest.mark.parametrize(
    ("said", "kind", "sentence"),
    [
        ("java.io.IOException: No space left on device", StorageError, "A disk is full"),
        ("java.nio.file.FileSystemException: /tmp/blockmgr: Disk quota exceeded", StorageError, "A disk is full"),
        ("java.lang.OutOfMemoryError: Java heap space", InputError, "A task ran out of memory"),
        ("Cannot grow BufferHolder by size 2147483640 because", InputError, "A task ran out of memory"),
        ("org.apache.arrow.memory.OutOfMemoryException: x; OversizedAllocationException", InputError, "A task ran out"),
        ("ModuleNotFoundError: No module named 'tensorflow'", CtrSamplesError, "TensorFlow is not installed here"),
        (
            "StreamConstraintsException: String value length (20051112) exceeds the maximum allowed (20000000)",
            InputError,
            "A string in JSON is longer than the 20,000,000 characters",
        ),
    ],
)
def test_a_cause_outside_of_the_job_is_told_with_what_to_do(
    said: str, kind: type[CtrSamplesError], sentence: str
) -> None:
    error = as_expected_error(PySparkException(JOB + said))
    assert type(error) is kind
    assert str(error).startswith(sentence)


def test_an_error_of_ours_wins_over_what_java_says_beside_it() -> None:
    said = "java.io.IOException: No space left on device\nctr_samples.errors.StorageError: out/x: the disk is full.\n"
    assert str(as_expected_error(PySparkException(said))) == "out/x: the disk is full."


@pytest.mark.parametrize("home", ["/nowhere", None])
def test_missing_java_is_told_before_spark_is_started(monkeypatch: pytest.MonkeyPatch, home: str | None) -> None:
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    if home:
        monkeypatch.setenv("JAVA_HOME", home)
    with (
        pytest.raises(CtrSamplesError, match=r"^Spark needs Java 17 or newer, but .*; install it, or set JAVA_HOME\.$"),
        session_of_command("test"),
    ):
        pass
