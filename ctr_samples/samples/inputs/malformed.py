"""Explains the malformed lines of a source: values of the wrong type, too many or few columns, the wrong delimiter."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, cast

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DateType,
    DecimalType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ctr_samples.config import CsvSource, TextSource
from ctr_samples.config.problems import end_sentence
from ctr_samples.errors import InputError
from ctr_samples.samples.inputs.listing import SourceFrame
from ctr_samples.samples.inputs.log_days import by_day, in_log_of, kinds_by_day
from ctr_samples.samples.inputs.text_lines import (
    csv_options,
    delimiter_hint,
    encoding_hint,
    is_undecoded,
    object_of,
    parsed_line,
)
from ctr_samples.sparksql.columns import INTEGERS, quoted
from ctr_samples.sparksql.expressions import IS_REPEAT, MALFORMED
from ctr_samples.sparksql.observations import Aggregates

_MOST_COLUMNS = 3
_LONGEST = 60
_INTEGER = r"^\s*[+-]?\d+\s*$"
_NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"


@dataclass(frozen=True, slots=True)
class LineCounts:
    """Number of lines of a text source or of rows of another one, of malformed lines, and of repeats."""

    lines: int = 0
    malformed: int = 0
    repeated: int = 0


def line_kinds(source: str, frame: DataFrame, days: Collection[date]) -> Aggregates:
    """Return aggregates over the lines of a text source, or the rows of a source with `unique`, for :func:`line_counts`.
    ``days`` are the days of its log, if its path names them.
    """
    kind = F.col(IS_REPEAT).cast("int") * 2 if IS_REPEAT in frame.columns else F.lit(0)
    if MALFORMED in frame.columns:
        kind = F.when(F.col(MALFORMED).isNotNull(), 1).otherwise(kind)
    return kinds_by_day(source, kind, 3, days)


def line_counts(source: str, tallies: Mapping[str, Mapping[int, int]]) -> dict[date | None, LineCounts]:
    """Return the counts of a source for each day of its log."""
    counts = by_day(tallies, lambda _: 3).get(source, {})
    return {day: LineCounts(sum(of_day), *of_day[1:]) for day, of_day in counts.items()}


def check_lines(name: str, counts: Mapping[date | None, LineCounts], source: TextSource, frame: SourceFrame) -> None:
    """Raise InputError, with an explanation, if a day's log has more malformed lines than allowed."""
    allowed = source.bad_records.max_rate
    for day, of_day in counts.items():
        lines, malformed = of_day.lines, of_day.malformed
        if malformed > allowed * lines:
            bad = frame if day is None or frame.by_day is None else frame.by_day.only([day])
            raise InputError(
                f"sources.{name}: {malformed:,} of {lines:,} lines{in_log_of(day)} are malformed ({malformed / lines:.2%}), "
                f"more than `bad_records.max_rate: {allowed:g}` allows: {end_sentence(reasons(bad, source, lines))} Look at "
                "the file, or raise the rate."
            )


def reasons(source_frame: SourceFrame, source: TextSource, lines: int) -> str:
    """Explain the malformed lines among ``lines`` in total. Runs one Spark job over the source."""
    typed = _typed_fields(source_frame, source)
    bad = source_frame.frame.where(F.col(MALFORMED).isNotNull()).withColumn(
        "_texts", _texts(source_frame, source, typed)
    )
    first_line = source_frame.csv.first_line if source_frame.csv else ""
    counted = _counted(bad, typed, first_line, is_undecoded(F.col(MALFORMED), source))
    problems = [*_wrong_values(typed, counted, lines), *_other_lines(source_frame, source, counted)]
    headed = isinstance(source, CsvSource) and source.header
    if not headed and counted["first_line"] and counted["all_wrong"] <= len(source_frame.files or ()) < lines:
        problems.append("the first line looks like a header: set `header: true`")
    return "; ".join(problems)


def _typed_fields(source_frame: SourceFrame, source: TextSource) -> list[StructField]:
    """Return the columns in the lines that have a type other than text."""
    of_path = set() if source_frame.csv is None else set(source_frame.frame.columns) - set(source_frame.csv.names)
    declared = cast(StructType, StructType.fromDDL(source.schema_)).fieldNames()
    return [
        field
        for field in source_frame.frame.schema
        if field.name in declared and field.name not in of_path and not isinstance(field.dataType, StringType)
    ]


def _texts(source_frame: SourceFrame, source: TextSource, typed: list[StructField]) -> Column:
    """Return a struct with each column of a line as text. The last field is non-null if the line cannot be split."""
    line = F.col(MALFORMED)
    if isinstance(source, CsvSource) and source_frame.csv:
        texts = ", ".join(f"{quoted(name)} STRING" for name in (*source_frame.csv.names, MALFORMED))
        return F.from_csv(line, texts, {**csv_options(source), "columnNameOfCorruptRecord": MALFORMED})
    schema = StructType([StructField(field.name, StringType()) for field in typed])
    values, is_one_object = object_of(parsed_line(line, schema, MALFORMED), MALFORMED)
    texts_of = [values[field.name].alias(field.name) for field in typed]
    return F.struct(*texts_of, F.when(~is_one_object, line).alias(MALFORMED))


def _counted(bad: DataFrame, typed: list[StructField], first_line: str, undecoded: Column) -> Mapping[str, Any]:
    texts, line = F.col("_texts"), F.col(MALFORMED)
    untaken = texts[MALFORMED].isNotNull()
    taken = ~untaken & ~undecoded
    wrong = [texts[f.name].isNotNull() & bad[quoted(f.name)].isNull() & taken for f in typed]
    every, some = F.lit(bool(typed)), F.lit(False)
    for is_wrong in wrong:
        every, some = every & is_wrong, some | is_wrong
    counts = {
        # Spark rejects a CSV query that reads no column of the lines.
        "values": F.max(F.hash(*[quoted(name) for name in bad.columns if name not in ("_texts", MALFORMED)])),
        "others": F.count_if(~some & ~undecoded),
        "other": F.max(F.when(~some & ~undecoded, F.substring(line, 1, 1000))),
        "undecoded": F.count_if(undecoded),
        "such": F.max(F.when(undecoded, F.substring(F.make_valid_utf8(line), 1, 1000))),
        "first_line": F.count_if(every & (line == first_line)),
        "all_wrong": F.count_if(every),
    }
    for i, (field, is_wrong) in enumerate(zip(typed, wrong, strict=True)):
        text = F.when(is_wrong, F.substring(texts[field.name], 1, 1000))
        longest = F.max(F.when(is_wrong & (line != first_line), F.struct(F.length(text), text.alias("text"))))
        counts[f"{i}.lines"] = F.count_if(is_wrong)
        counts[f"{i}.value"] = F.coalesce(longest["text"], F.max(text))
        counts[f"{i}.integers"] = F.count_if(is_wrong & text.rlike(_INTEGER))
        counts[f"{i}.numbers"] = F.count_if(is_wrong & text.rlike(_NUMBER))
    return bad.agg(*[column.alias(key) for key, column in counts.items()]).collect()[0].asDict()


def _wrong_values(typed: list[StructField], counted: Mapping[str, Any], lines: int) -> Iterator[str]:
    columns = [(counted[f"{i}.lines"], i, field) for i, field in enumerate(typed) if counted[f"{i}.lines"]]
    for count, i, field in sorted(columns, key=lambda entry: (-entry[0], entry[1]))[:_MOST_COLUMNS]:
        value, kind = counted[f"{i}.value"], field.dataType.simpleString().upper()
        numbers = "integers" if counted[f"{i}.integers"] == count else "numbers"
        advice = _advice(value, field, numbers if counted[f"{i}.{numbers}"] == count else None)
        an = "an" if kind[0] in "AEIO" else "a"
        yield f"`{field.name}` = {_shown(value)} is not {an} {kind} in {count:,} of {lines:,} lines; use {advice}"
    if len(columns) > _MOST_COLUMNS:
        yield f"values of {len(columns) - _MOST_COLUMNS} more columns are wrong too"


def _advice(longest: str, field: StructField, all_are: str | None) -> str:
    """Return a type that accepts all values of a column. ``all_are`` is integers, numbers or None."""
    kind = field.dataType
    if isinstance(kind, DateType | TimestampType | TimestampNTZType):
        return f"STRING, and say its form where it is used, as in to_timestamp({field.name}, 'dd.MM.yyyy HH:mm')"
    is_exact = isinstance(kind, (*INTEGERS, DecimalType))
    if all_are == "integers" and is_exact:
        digits = len(re.sub(r"\D", "", longest))
        if digits <= 18 and not isinstance(kind, LongType | DecimalType):
            return "BIGINT"
        return f"STRING or DECIMAL({digits})" if digits <= 38 else "STRING"
    return "DOUBLE" if all_are is not None and is_exact else "STRING"


def _other_lines(source_frame: SourceFrame, source: TextSource, counted: Mapping[str, Any]) -> Iterator[str]:
    """Describe the lines that cannot be split like the rest, and those that are no text, if any."""
    if counted["undecoded"]:
        yield f"{counted['undecoded']:,} are not {encoding_hint(source)}, as in {_shown(counted['such'])}"
    count, line = counted["others"], counted["other"]
    if not count:
        return
    if source_frame.csv is None or not isinstance(source, CsvSource):
        yield f"{count:,} are not a single JSON object, such as {_shown(line)}"
        return
    width = len(source_frame.csv.names)
    hint = delimiter_hint(line, source.delimiter, width)
    if source.quote and source.quote in line and line.count(source.delimiter) == width - 1:
        hint = f"it has {width} if {source.quote} is plain text; did you mean `quote: ''`?"
    columns = "one column" if source.delimiter not in line else "a different number of columns"
    yield f"{count:,} have {columns}, expected {width}, such as {_shown(line)}" + (f"; {hint}" if hint else "")


def _shown(text: str) -> str:
    return repr(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}...")
