"""Translate Spark exceptions into sentences, such as the error of a Python worker or an unreadable file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from ctr_samples import errors
from ctr_samples.config.masking import LEFT_OUT, written
from ctr_samples.errors import NO_TENSORFLOW, CtrSamplesError, InputError, StorageError
from ctr_samples.sparksql.expressions import CONFIGURATION, left_out_of, place_of_expression

_OURS = re.compile(r"^ctr_samples\.errors\.(\w+): (.+)$", re.MULTILINE)
_UNREADABLE = re.compile(
    r"\[(?:FAILED_READ_FILE|CANNOT_READ_FILE_FOOTER|MALFORMED_CSV_RECORD)[A-Z_.]*\]\s*(?P<what>[^\n]+)", re.IGNORECASE
)
_HEADER = re.compile(
    r"(?:CSV header does not conform to the schema|Number of column in CSV header is not equal)[^\n]*\n"
    r"(?P<what>(?: ?(?:Header|Schema|Expected)[^\n]*\n)+)CSV file: (?P<file>\S+)"
)
_OTHER_TYPE = re.compile(
    r"\[FAILED_READ_FILE\.PARQUET_COLUMN_DATA_TYPE_MISMATCH\].* reading file (?P<file>\S+)\. .*column \[(?P<column>.*)\]\. "
    r"Expected Spark type (?P<expected>.+), actual Parquet type (?P<found>\w+)"
)
_VALUE = re.compile(
    r"\[[A-Z0-9_.]+\]\s*(?P<what>[^\n]+)(?=[^\[]*SQLSTATE: 2[23]\w{3})|(?P<range>Illegal sequence boundaries[^\n]+)"
)
"""Spark errors on values in the data: SQLSTATE classes 22 and 23, such as casts, divisions by zero or indexes."""
_CALLED = re.compile(rf'"(?P<key>[^"\n]+)" was called from\n{CONFIGURATION}$', re.MULTILINE)
_QUOTED = re.compile(r"^== SQL \(line 1, position \d+\) ==\n(?P<text>.+)\n\s*\^", re.MULTILINE)
_ADVICE = re.compile(r"\s*(?:If necessary|To return NULL|Use |SQLSTATE)[^\n]*$")
_OUTSIDE = (
    (
        re.compile(r"No space left on device|Disk quota exceeded"),
        StorageError,
        "A disk is full, most likely the one with Spark's temporary files. Free some space, or point `spark.local.dir` (the "
        "environment variable SPARK_LOCAL_DIRS) to a larger disk.",
    ),
    (re.compile(r"No module named '(?:tensorflow|keras)'"), CtrSamplesError, f"{NO_TENSORFLOW}, on the executors too."),
    (
        re.compile(r"String (?:value )?length \(\d+\) exceeds the maximum|StreamConstraintsException"),
        InputError,
        "A string in JSON is longer than the 20,000,000 characters that functions such as from_json read; give the column a "
        "type in `schema` instead, or shorten it in the source.",
    ),
    (
        re.compile(
            r"OutOfMemoryError|OversizedAllocationException|Cannot grow BufferHolder|NegativeArraySizeException|"
            r"ArrowCapacityError|capacity error|exceeds the maximum array|Buffer overflow|offset overflow"
        ),
        InputError,
        "A task ran out of memory, most likely because of a very large value. Drop or shorten the column with values of "
        "many megabytes, or give Spark more memory (`spark.executor.memory`, locally SPARK_DRIVER_MEMORY).",
    ),
)
"""Failures with an external cause, by Java or Python message."""
_NANOSECONDS = re.compile(r"\(TIMESTAMP\(NANOS,|timestamp_(?:ltz|ntz)\([789]\)")
"""A type that Spark does not read, or reads for ``spark.sql.timestampNanosTypes.enabled`` and PySpark does not know."""
_FILE = re.compile(r"(?:file|hdfs|s3a?|gs|abfss?):/+[^\s,;)]+|/[^\s,;)]+\.\w+")


_MICROSECONDS = (
    "write times in microseconds, in pandas with "
    "`to_parquet(path, coerce_timestamps='us', allow_truncated_timestamps=True)`"
)

SPARK_FAILURES = (PySparkException, Py4JJavaError)
"""Exceptions of a failed action. PySpark translates only some Java exceptions."""


@contextmanager
def expected_errors(secretly: Callable[[Exception], CtrSamplesError | None] | None = None) -> Iterator[None]:
    """Translate Spark exceptions in the block into the expected errors that caused them, if any.

    ``secretly`` runs first and handles exceptions that contain secrets. Its error is raised without a cause.
    """
    try:
        yield
    except SPARK_FAILURES as error:
        alone = secretly(error) if secretly else None
        if alone is not None:
            raise alone from None
        expected = as_expected_error(error)
        if expected is None:
            raise
        raise expected from (None if LEFT_OUT in str(expected) else error)


@contextmanager
def input_errors(what: str) -> Iterator[None]:
    """Convert Hadoop and Spark exceptions into an InputError with one sentence that starts with ``what``."""
    try:
        yield
    except SPARK_FAILURES as error:
        raise InputError(f"{what}: {LEFT_OUT if written(what) else _reason(error)}.") from None


def as_expected_error(error: Exception) -> CtrSamplesError | None:
    """Return the expected error that caused a Spark job to fail, or None.

    A worker exception arrives as text with a traceback. The last line with an error of this package is the cause.
    """
    text = str(error)
    ours = _OURS.findall(text)
    if ours:
        name, message = ours[-1]
        kind = getattr(errors, name, CtrSamplesError)
        return kind(message) if issubclass(kind, CtrSamplesError) else CtrSamplesError(message)
    header = _HEADER.search(text)
    if header:
        differences = "; ".join(line.strip() for line in header["what"].splitlines())
        return InputError(
            f"The first line of {header['file']} differs from that of the other files of its source: {differences}. Give all "
            "files the same columns in the same order."
        )
    other = _OTHER_TYPE.search(text)
    if other:
        of_time = "timestamp" in other["expected"] and other["found"] == "INT64"
        return InputError(
            f"{other['file']}: `{other['column']}` is {other['found']}, which does not fit {other['expected']}, the type that "
            f"its source has elsewhere; {_MICROSECONDS if of_time else 'write all files with one type'}."
        )
    for sign, kind, sentence in _OUTSIDE:
        if sign.search(text):
            return kind(sentence)
    unreadable = _UNREADABLE.search(text)
    if unreadable:
        file = _FILE.search(unreadable["what"])
        path = file[0].rstrip(".") if file else "an input file"
        return InputError(f"{path} cannot be read; it is damaged or in another format. Restore or remove it.")
    value = _VALUE.search(text)
    if value:
        what = _ADVICE.sub("", value["what"] or value["range"]).rstrip(";. ")
        place = _place_of(text)
        which = f"{place}: the expression" if place else "An expression in the configuration"
        return InputError(f"{which} fails on a value in the data: {left_out_of(place) or what}.")
    return None


def _place_of(text: str) -> str | None:
    """Return the key of the expression that caused an error, if the error contains its call site or text."""
    called = _CALLED.search(text)
    if called:
        return called["key"]
    quoted = _QUOTED.search(text)
    return quoted and place_of_expression(quoted["text"])


def _reason(error: PySparkException | Py4JJavaError) -> str:
    """Return the first sentence of an error message, without error class, Java package and SQL state."""
    text = str(error)
    if isinstance(error, Py4JJavaError):
        message = str(error.java_exception.getMessage())
        text = message if message.startswith("[") else error.java_exception.toString()
    if _NANOSECONDS.search(text):
        return f"its times are in nanoseconds, which Spark does not read; {_MICROSECONDS}"
    # Before Spark 4.2, the message about an unreadable footer is far below the job failure.
    footer = re.search(r"\[[A-Z_.]*CANNOT_READ_FILE_FOOTER\][^\n]+", str(error))
    line = footer[0] if footer else (text.strip().splitlines() or [""])[0]
    line = re.sub(r"^.*Job aborted due to stage failure: .*\(TID \d+\) \([^)]*\): ", "", line)
    line = re.sub(r"^\[[A-Z0-9_.]+\]\s*|^(?:[a-z]\w*\.)+(?=\w+: )", "", line)
    return re.split(r"\.\s|\s*SQLSTATE: ", line)[0].rstrip(".; ")
