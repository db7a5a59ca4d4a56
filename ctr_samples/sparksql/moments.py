"""Finds expressions that would depend on when the job runs, in what Spark makes of them and not in their text.

Spark's parser turns ``timestamp 'now'`` into the moment of the run, its optimizer does so with text that is cast
(``cast(concat('to', 'day') as date)``), and text without a date, such as ``12:30``, becomes a time of the day of the run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ctr_samples.errors import ExpressionError

_DATED = re.compile(r"\s*[+-]?\d{4,7}(?:-.*)?\s*", re.DOTALL)
"""Text with a date: Spark takes any other text for a time of today, for a special moment, or for no time."""
_PLAIN_LITERAL = re.compile(r"\w+\s*(?:'([^'\\]*)'|\"([^\"\\]*)\")")
TIME_FORMAT = "yyyy-M-d[['T'][' ']H:m[:s][.SSSSSSSSS][[' ']VV][XXX][XX][X]]"
"""For timestamps in the schema of a text source: what Spark reads without a format, but for text that does not say its day."""
_WITHOUT_DATE = r"^\s*(?:[Tt]|\d{1,2}:)"
_DEPENDS = "depends on when the job runs, which is not allowed"
_REPLACE = "org.apache.spark.sql.catalyst.optimizer.ReplaceExpressions"
_PATTERNS = "org.apache.spark.sql.catalyst.trees.TreePattern"
_TIMES = ("timestamp", "timestamp_ntz", "timestamp_ltz")


def check_literal(literal: Any, where: str) -> None:
    """ExpressionError for a literal of the parsed expression that is a time or date, but does not say which one."""
    if literal.dataType().simpleString() not in ("date", *_TIMES):
        return
    text = _written(literal)
    plain = _PLAIN_LITERAL.fullmatch(text)
    if plain is None or not _DATED.fullmatch(plain[1] or plain[2] or ""):
        raise ExpressionError(f"{where}: {text} {_DEPENDS}; write it as in timestamp '2019-06-05 00:00:00'.")


def without_today(frame: DataFrame, column: Column, selected: DataFrame, where: str) -> Column:
    """A column of ``frame``, null where it would read text without a date as a time of the day of the run.

    ``selected`` is the frame with that column alone, analysed already. Planning only. ExpressionError for constant text that
    says no date, and for text in lists, which cannot be looked at.
    """
    plan = cast(Any, selected)._jdf.queryExecution().analyzed()
    replaced = jvm_class(frame.sparkSession, _REPLACE).apply(plan).projectList().head()
    if not replaced.containsPattern(jvm_class(frame.sparkSession, _PATTERNS).CAST()):
        return column
    for node in _nodes(replaced):
        if node.getClass().getSimpleName() != "Cast":
            continue
        of, kind = node.child().dataType().simpleString(), node.dataType().simpleString()
        if of != "string":
            if "string" in of and "timestamp" in kind:
                raise _needs_format(where)
        elif node.child().foldable() and kind in ("date", *_TIMES):
            _check_constant(node.child(), kind, where)
        elif kind in _TIMES:
            undated = F.coalesce(_text_of_row(frame, node.child(), where).rlike(_WITHOUT_DATE), F.lit(False))
            column = F.when(~undated, column)
    return column


def jvm_class(spark: SparkSession, name: str) -> Any:
    """A class of the JVM; by its whole name, as py4j asks the JVM for each part of a dotted one."""
    return getattr(cast(Any, spark)._jvm, name)


def _check_constant(constant: Any, kind: str, where: str) -> None:
    value = constant.eval(None)
    if value is not None and not _DATED.fullmatch(value.toString()):
        raise ExpressionError(
            f"{where}: {value.toString()!r} as {kind} {_DEPENDS}; expected a date, as in timestamp '2019-06-05 00:00:00'."
        )


def _text_of_row(frame: DataFrame, text: Any, where: str) -> Column:
    """A text that is read as a time, by the names of its columns: other frames have them too."""
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


def check_parsed_json(call: Any, where: str) -> None:
    """ExpressionError for a call of ``from_json`` in the parsed expression that reads timestamps without a format."""
    text = _written(call).lower()
    if "timestamp" in text and "timestampformat" not in text:
        raise _needs_format(where, "from_json(x, 'at TIMESTAMP', map('timestampFormat', 'yyyy-MM-dd HH:mm:ss'))")


def _needs_format(where: str, example: str = "to_timestamp(x, 'yyyy-MM-dd HH:mm:ss')") -> ExpressionError:
    return ExpressionError(
        f"{where} reads text as a time, and text without a date would become a time on the day of the run; give the format, as "
        f"in {example}."
    )


def _written(node: Any) -> str:
    """The part of the expression that the parser made a node of."""
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
