"""Lines of JSON as rows. Spark's own reader takes the first object of a line and ignores whatever follows it."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ctr_samples.sparksql.moments import TIME_FORMAT

_MARKS = 3
"""Elements that are put behind a line's object; more make it less likely that a damaged line has them itself."""


def objects_of(lines: DataFrame, schema: StructType, malformed: str) -> DataFrame:
    """The objects in ``value``, one per line; other columns of ``lines`` take precedence over fields of the same name.

    ``schema`` has the text column ``malformed``: the line, unless it is one object whose fields have these types, and nothing
    else. Blank lines are no rows.
    """
    options = {
        "columnNameOfCorruptRecord": malformed,
        "maxStringLen": str(2**31 - 1),
        "timestampFormat": TIME_FORMAT,
    }
    line = F.col("value")
    keys = [name for name in lines.columns if name != "value"]
    known = {key.lower() for key in keys}
    rows = lines.where(F.trim(F.regexp_replace(line, "[\t\r]", " ")) != "").select(
        F.from_json(line, schema, options).alias("_object"), F.when(~_is_whole(line), line).alias("_glued"), *keys
    )
    fields = [
        F.coalesce(f"_object.{malformed}", "_glued").alias(malformed)
        if field.name == malformed
        else F.col("_object")[field.name].alias(field.name)
        for field in schema
        if field.name.lower() not in known
    ]
    return rows.select(*fields, *keys)


def _is_whole(line: Column) -> Column:
    """Whether a line that begins with an object ends with it."""
    # Most lines have all their closing braces at the end, as many as they have opening ones. A string with braces may be
    # miscounted, but only in such a way that no object is hidden behind another.
    inside = F.rtrim(line, F.lit("} \t\r"))
    opened = F.length(inside) - F.length(F.translate(inside, "{", ""))
    closed = F.length(line) - F.length(F.translate(line, "}", ""))
    simple = ~F.contains(inside, F.lit("}")) & (opened == closed) & F.endswith(F.rtrim(line), F.lit("}"))
    marked = F.concat(F.lit("["), line, F.lit(",1" * _MARKS + "]"))
    return simple | F.coalesce(F.json_array_length(marked) == 1 + _MARKS, F.lit(False))
