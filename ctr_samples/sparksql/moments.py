"""Detect expressions that depend on the current time, in Spark's plan rather than in the expression text.

Spark's parser replaces ``timestamp 'now'`` with the current time, and its optimizer does the same with cast text
(``cast(concat('to', 'day') as date)``). A time of day, as text (``12:30``), in JSON, in a VARIANT or as a TIME, becomes
a timestamp on the current day. Only text in a plain column can be handled row by row; all other cases are errors.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, cast

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ctr_samples.errors import ExpressionError

_DATED = re.compile(r"\s*[+-]?\d{4,7}(?:-.*)?\s*", re.DOTALL)
"""Text with a date. Spark reads other text as a time on the current day, as a special value, or not at all."""
_PLAIN_LITERAL = re.compile(r"\w+\s*(?:'([^'\\]*)'|\"([^\"\\]*)\")")
TIME_FORMAT = "yyyy-M-d[['T'][' ']H:m[:s][.SSSSSSSSS][[' ']VV][XXX][XX][X]]"
"""Timestamp format for text sources. Equals Spark's default parsing, except that it requires a date."""
_WITH_DATE = r"^[\x00-\x20\x7f]*[+-]?\d{4,7}(?:-|[\x00-\x20\x7f]*$)"
"""Start of text with a date, after control characters and spaces that Spark ignores."""
_DEPENDS = "depends on when the job runs, which is not allowed"
_REPLACE = "org.apache.spark.sql.catalyst.optimizer.ReplaceExpressions"
_PATTERNS = "org.apache.spark.sql.catalyst.trees.TreePattern"


def check_literal(literal: Any, where: str) -> None:
    """Raise ExpressionError for a timestamp or date literal without a date."""
    if not _is_dated(literal.dataType().simpleString()):
        return
    text = _written(literal)
    plain = _PLAIN_LITERAL.fullmatch(text)
    if plain is None or not _DATED.fullmatch(plain[1] or plain[2] or ""):
        raise ExpressionError(f"{where}: {text} {_DEPENDS}; write it as in timestamp '2019-06-05 00:00:00'.")


def without_today(
    frame: DataFrame, column: Column, selected: DataFrame, where: str, *, variants: bool = False
) -> Column:
    """Return the column with null in rows where Spark would read text without a date as a time on the current day.

    ``selected`` is the analyzed frame with only that column, and ``variants`` tells whether it calls ``variant_get``.
    Runs no Spark job. Raises ExpressionError for constant text without a date, for conversions of a time of day to a
    date, and for text in lists, JSON or a VARIANT, which cannot be inspected.
    """
    spark = frame.sparkSession
    plan = cast(Any, selected)._jdf.queryExecution().analyzed()
    patterns = jvm_class(spark, _PATTERNS)
    if plan.containsPattern(patterns.JSON_TO_STRUCT()):
        for node in _nodes(plan.projectList().head()):
            if node.getClass().getSimpleName() == "JsonToStructs":
                _check_json(node, where)
    if variants:
        for node in _nodes(plan.projectList().head()):
            if node.getClass().getSimpleName() == "VariantGet":
                _check_cast({"variant"}, _plain_kinds(node.dataType()), where)
    replaced = jvm_class(spark, _REPLACE).apply(plan).projectList().head()
    if not replaced.containsPattern(patterns.CAST()):
        return column
    for node in _nodes(replaced):
        if node.getClass().getSimpleName() != "Cast":
            continue
        of, kind = node.child().dataType().simpleString(), node.dataType().simpleString()
        if of != "string":
            _check_cast(_plain_kinds(node.child().dataType()), _plain_kinds(node.dataType()), where)
        elif node.child().foldable() and _is_dated(kind):
            _check_constant(node.child(), kind, where)
        elif _is_timestamp(kind):
            text = _text_of_row(frame, node.child(), where)
            undated = ~text.rlike(_WITH_DATE) & text.try_cast(kind).isNotNull()
            column = F.when(~F.coalesce(undated, F.lit(False)), column)
    return column


def _check_cast(of: set[str], to: set[str], where: str) -> None:
    """Raise ExpressionError for a cast that would use the current day. Each type is a set of plain type names."""
    dated = sorted(filter(_is_dated, to))
    if dated and any(kind.startswith("time(") for kind in of):
        raise ExpressionError(
            f"{where}: a time of day as {dated[0]} {_DEPENDS}; say the date too, as in "
            "make_timestamp(date '2019-06-05', x)."
        )
    if any(map(_is_timestamp, to)) and "variant" in of:
        raise _needs_format(where, "to_timestamp(variant_get(x, '$.at', 'string'), 'yyyy-MM-dd HH:mm:ss')")
    if any(map(_is_timestamp, to)) and any(kind.startswith("string") for kind in of):
        raise _needs_format(where)


def _check_json(node: Any, where: str) -> None:
    """Raise ExpressionError if ``from_json`` parses timestamps without a format, or may ignore the format."""
    if not any(map(_is_timestamp, _plain_kinds(node.schema()))):
        return
    options = {entry._1().lower(): entry._2() for entry in _all(node.options())}
    falls_back = options.get("enabledatetimeparsingfallback", "false").lower() != "false"
    if "timestampformat" not in options or falls_back:
        raise _needs_format(where, "from_json(x, 'at TIMESTAMP', map('timestampFormat', 'yyyy-MM-dd HH:mm:ss'))")


def _is_timestamp(kind: str) -> bool:
    """Whether a type is a timestamp of any precision, with or without a time zone, such as ``timestamp_ltz(9)``."""
    return kind.startswith("timestamp")


def _is_dated(kind: str) -> bool:
    return kind == "date" or _is_timestamp(kind)


def _plain_kinds(kind: Any) -> set[str]:
    """Return the names of the plain types in a nested type, such as ``{"string", "bigint"}`` for a map."""
    return set(_plain_kinds_of(json.loads(kind.json())))


def _plain_kinds_of(document: Any) -> Iterator[str]:
    if isinstance(document, str):
        yield document
        return
    parts = document["fields"] if document["type"] == "struct" else [document]
    for part in parts:
        for key in ("type", "elementType", "keyType", "valueType", "sqlType"):
            if part is not document or key != "type":
                yield from _plain_kinds_of(part[key]) if key in part else ()


def jvm_class(spark: SparkSession, name: str) -> Any:
    """Return a JVM class by its full name with a single JVM call. A dotted chain would need a call per part."""
    return getattr(cast(Any, spark)._jvm, name)


def _check_constant(constant: Any, kind: str, where: str) -> None:
    value = constant.eval(None)
    if value is not None and not _DATED.fullmatch(value.toString()):
        raise ExpressionError(
            f"{where}: {value.toString()!r} as {kind} {_DEPENDS}; expected a date, as in timestamp '2019-06-05 00:00:00'."
        )


def _text_of_row(frame: DataFrame, text: Any, where: str) -> Column:
    """Return the text that Spark parses as a time, with unqualified column names, as in other frames."""
    written = text.sql()
    for node in _nodes(text):
        if node.getClass().getSimpleName() == "AttributeReference" and not node.qualifier().isEmpty():
            written = written.replace(node.sql(), "`" + node.name().replace("`", "``") + "`")
    column = F.expr(written)
    try:
        frame.select(column)
    except PySparkException:
        raise _needs_format(where) from None
    return column


def _needs_format(where: str, example: str = "to_timestamp(x, 'yyyy-MM-dd HH:mm:ss')") -> ExpressionError:
    return ExpressionError(
        f"{where} reads text as a time, and text without a date would become a time on the day of the run; give the format, as "
        f"in {example}."
    )


def example_of(value: str, text: str) -> str:
    """Suggest an expression to parse ``value`` as a time, such as ``to_timestamp(t, 'dd/MM/yyyy HH:mm')``.

    Assumes that the day precedes the month, unless the numbers only fit the opposite order.
    """
    if re.fullmatch(r"\d{9,17}", value):
        unit = "seconds" if len(value) < 12 else "millis" if len(value) < 15 else "micros"
        return f"timestamp_{unit}(bigint({text}))"
    return f"to_timestamp({text}, '{_form_of(value) or 'dd/MM/yyyy HH:mm:ss'}')"


def _form_of(value: str) -> str | None:
    """Return the Spark format of a numeric date with optional time, or None for any other text."""
    match = re.fullmatch(
        r"(\d+)([-/. ])(\d+)\2(\d+)(?:([ T])(\d+):\d\d(?::(\d\d)([.,]\d+)?)?( ?)([AaPp][Mm])?)?", value
    )
    if match is None:
        return None
    first, by, second, third, *clock = match.groups()
    if len(first) == 4:
        letters = "yMd"
    else:
        letters = "Mdy" if int(second) > 12 >= int(first) else "dMy"
        letters = "yMd" if len(third) == len(first) == 2 and int(third) <= 31 < int(first) else letters
    form = by.join(letter * len(part) for letter, part in zip(letters, (first, second, third), strict=True))
    between, hour, second, fraction, gap, half = clock
    if hour is None:
        return form
    form += between.replace("T", "''T''") + ("h" if half else "H") * len(hour) + ":mm" + ":ss" * (second is not None)
    return form + (fraction[0] + "S" * (len(fraction) - 1) if fraction else "") + gap + "a" * (half is not None)


def _written(node: Any) -> str:
    """Return the expression text of a parsed node."""
    origin = node.origin()
    text: str = origin.sqlText().get()
    return text[origin.startIndex().get() : origin.stopIndex().get() + 1]


def _nodes(node: Any) -> Iterator[Any]:
    yield node
    for child in _all(node.children()):
        yield from _nodes(child)


def _all(sequence: Any) -> Iterator[Any]:
    iterator = sequence.iterator()
    while iterator.hasNext():
        yield iterator.next()
