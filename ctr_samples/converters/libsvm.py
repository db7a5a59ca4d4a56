"""Read libsvm/libfm text, ``label [qid:N] index:value ... [# comment]``, as sparse columns. Column expressions only."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ctr_samples.addresses import check_address
from ctr_samples.errors import InputError, UsageError
from ctr_samples.shards import Table, open_storage
from ctr_samples.sparksql.failures import input_errors
from ctr_samples.tfrecord.schema import schemas_of

_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_PAIR = rf"^[0-9]{{1,18}}:{_NUMBER}$"
_TRIPLE = rf"^[0-9]{{1,18}}:[0-9]{{1,18}}:{_NUMBER}$"
_NO_PAIR = " is not index:value"
_LIBFFM = f"{_NO_PAIR} but field:index:value, the form of libffm, which is not read"
_LARGEST = 3.4028234663852886e38
"""Largest float32. A larger number would silently become infinite."""
_SHOWN = 200


def read_libsvm(spark: SparkSession, path: str, size: int | None = None, *, zero_based: bool = False) -> DataFrame:
    """Read a file, directory or glob as ``label`` (float), ``indices`` (array<long>), ``values`` (array<float>).

    ``indices`` start from 0, even if the text counts from 1 (libsvm; ``zero_based`` is for libfm). If any line has a
    ``qid``, the result has that column, null for lines without a ``qid``. ``size`` is the number of features, by
    default the largest index plus one, and is stored in the metadata of ``indices``. Skips empty lines and comments.

    Reads the text once to check it, then returns lazy rows. Raises InputError for a line that is malformed, has a
    number that float32 cannot hold, or has indices that repeat, descend or exceed the size. The message contains the
    line.
    """
    if size is not None and size < 1:
        raise UsageError(f"size is {size}; expected the number of features, at least 1.")
    check_address(path)
    with input_errors(f"{path} cannot be read"):
        lines = taken_apart(spark.read.text(path), 0 if zero_based else 1)
        size, ranked = _survey(path, lines, size, zero_based)
    return lines.select(
        F.col("label").cast("float").alias("label"),
        *([F.col("qid")] if ranked else []),
        F.col("indices").alias("indices", metadata={"size": size}),
        F.col("numbers").cast("array<float>").alias("values"),
    )


def size_of(frame: DataFrame) -> int:
    """Return the number of features in the result of :func:`read_libsvm`: the ``size`` of ``tf.io.SparseFeature``."""
    return int(frame.schema["indices"].metadata["size"])


def size_of_table(path: str) -> int:
    """Return the number of features over all parts of a table that were written from :func:`read_libsvm`."""
    manifest = Table(open_storage(path)).current()
    schemas = schemas_of(manifest, path) if manifest is not None else []
    return max((field.metadata.get("size", 0) for schema in schemas for field in schema), default=0)


def taken_apart(text: DataFrame, base: int) -> DataFrame:
    """Parse lines except comments to ``line``, ``label``, ``qid``, ``indices``, ``numbers`` and nullable ``problem``."""
    body = F.regexp_replace(F.substring_index("value", "#", 1), r"^\s+|\s+$", "")
    words = text.select(F.col("value").alias("line"), F.split(body, r"\s+").alias("words")).where(body != "")
    second = F.get("words", F.lit(1))
    ranked = F.coalesce(second.startswith("qid:"), F.lit(False))
    named = words.select(
        "line",
        F.get("words", F.lit(0)).alias("label_text"),
        F.when(ranked, second).alias("qid_text"),
        F.slice("words", F.when(ranked, 3).otherwise(2), F.size("words")).alias("pairs"),
    )
    parsed = named.select(
        "line",
        "label_text",
        "qid_text",
        "pairs",
        F.col("label_text").try_cast("double").alias("label"),
        F.substring("qid_text", 5, 20).try_cast("long").alias("qid"),
        F.transform("pairs", lambda p: F.substring_index(p, ":", 1).try_cast("long") - F.lit(base)).alias("indices"),
        F.transform("pairs", lambda p: F.substring_index(p, ":", -1).try_cast("double")).alias("numbers"),
    )
    return parsed.select("line", "label", "qid", "indices", "numbers", _problem(base).alias("problem"))


def _problem(base: int) -> Column:
    """Return an expression that describes the fault of a line, or is null for a valid line."""
    indices, count = F.col("indices"), F.size("indices")
    malformed = F.filter("pairs", lambda pair: ~pair.rlike(_PAIR))
    first = F.get(malformed, F.lit(0))
    steps = F.zip_with(
        F.slice(indices, 1, F.greatest(count - 1, F.lit(0))), F.slice(indices, 2, count), lambda a, b: b - a
    )
    large = F.exists("numbers", lambda number: F.abs(number) > _LARGEST) | (F.abs("label") > _LARGEST)
    return (
        F.when(~F.col("label_text").rlike(f"^{_NUMBER}$"), F.concat(F.lit("its label is "), _quoted("label_text")))
        .when(
            F.col("qid_text").isNotNull() & ~F.col("qid_text").rlike("^qid:[0-9]{1,18}$"), _no_pair("qid_text", "qid:N")
        )
        .when(
            F.size(malformed) > 0, F.concat(_quoted(first), F.when(first.rlike(_TRIPLE), _LIBFFM).otherwise(_NO_PAIR))
        )
        .when(large, F.lit("it has a number that float32 cannot hold"))
        .when(F.exists(indices, lambda index: index < 0), F.lit("it has the index 0"))
        .when(F.exists(steps, lambda step: step == 0), F.lit("it has an index twice"))
        .when(F.exists(steps, lambda step: step < 0), F.lit("its indices do not ascend"))
    )


def _quoted(text: str | Column) -> Column:
    return F.concat(F.lit("'"), text if isinstance(text, Column) else F.col(text), F.lit("'"))


def _no_pair(column: str, expected: str) -> Column:
    return F.concat(_quoted(column), F.lit(f" is not {expected}"))


def _survey(path: str, lines: DataFrame, size: int | None, zero_based: bool) -> tuple[int, bool]:
    """Check the text in one pass. Return the number of features, and whether any line has a ``qid``. Raises InputError with
    the first invalid line.
    """
    largest = F.try_element_at("indices", F.lit(-1))
    beyond = F.col("problem").isNull() & (largest >= (size if size is not None else 2**62))
    outside = F.concat(F.lit("its largest index lies beyond the declared size of "), F.lit(str(size)))
    problem = F.when(beyond, outside).otherwise(F.col("problem"))
    counted = lines.withColumn("problem", problem).agg(
        F.count("*").alias("lines"),
        F.count("problem").alias("malformed"),
        F.min(F.when(F.col("problem").isNotNull(), F.struct("line", "problem"))).alias("first"),
        F.max(largest).alias("largest"),
        F.count("qid").alias("ranked"),
    )
    (row,) = counted.collect()
    if row["malformed"]:
        line, problem_of_it = row["first"]
        counts = f"{row['malformed']:,} of {row['lines']:,}"
        raise InputError(_refusal(path, counts, line, problem_of_it, zero_based))
    if not row["lines"]:
        raise InputError(f"{path} has nothing but comments; expected `label index:value ...`.")
    if size is None and row["largest"] is None:
        raise InputError(f"{path} has no feature in any line; declare `size`.")
    return size or row["largest"] + 1, row["ranked"] > 0


def _refusal(path: str, counts: str, line: str, problem: str, zero_based: bool) -> str:
    shown = line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"
    remedy = "leave the fields out" if problem.endswith(_LIBFFM) else "correct or remove them"
    if problem.endswith("the index 0") and not zero_based:
        remedy = "libsvm counts from 1; if these count from 0, as libfm does, set zero_based"
    return f"{path}: {counts} lines cannot be read, such as {shown!r}: {problem}; {remedy}."
