"""Turns what Spark throws into one sentence: the error that a Python worker raised, or the file that could not be read."""

from __future__ import annotations

import re

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from ctr_samples import errors
from ctr_samples.errors import CtrSamplesError, InputError

_OURS = re.compile(r"^ctr_samples\.errors\.(\w+): (.+)$", re.MULTILINE)
_UNREADABLE = re.compile(
    r"\[(?:FAILED_READ_FILE|CANNOT_READ_FILE_FOOTER|MALFORMED_CSV_RECORD)[A-Z_.]*\]\s*(?P<what>[^\n]+)", re.IGNORECASE
)
_CAST = re.compile(
    r"\[(?:CAST_INVALID_INPUT|CAST_OVERFLOW|CANNOT_PARSE_TIMESTAMP)\]\s*(?P<what>[^\n]+?)\s*(?:SQLSTATE|$)"
)
_FILE = re.compile(r"(?:file|hdfs|s3a?|gs|abfss?):/+[^\s,;)]+|/[^\s,;)]+\.\w+")


SPARK_FAILURES = (PySparkException, Py4JJavaError)
"""What a failed action raises: PySpark translates some Java exceptions and passes on the others."""


def as_expected_error(error: Exception) -> CtrSamplesError | None:
    """The expected error behind a failed Spark job, or None when it is none of those.

    A worker's exception arrives as text with its traceback; the last line that names one of our errors is the cause.
    """
    text = str(error)
    ours = _OURS.findall(text)
    if ours:
        name, message = ours[-1]
        kind = getattr(errors, name, CtrSamplesError)
        return kind(message) if issubclass(kind, CtrSamplesError) else CtrSamplesError(message)
    unreadable = _UNREADABLE.search(text)
    if unreadable:
        file = _FILE.search(unreadable["what"])
        place = file[0].rstrip(".") if file else "an input file"
        return InputError(f"{place} cannot be read; it is damaged or of another format. Restore it, or remove it.")
    cast = _CAST.search(text)
    if cast:
        return InputError(f"A value in the data has another form than the configuration expects: {cast['what']}")
    return None
