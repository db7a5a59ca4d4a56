"""JSON lines as rows. Spark's own reader parses the first object of a line and ignores the rest."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ctr_samples.config import JsonSource
from ctr_samples.samples.inputs.encodings import is_undecoded
from ctr_samples.sparksql.moments import TIME_FORMAT

_MARKS = 3
"""Number of elements appended to a line's object. A larger number makes it less likely that a damaged line contains
them.
"""

_NESTED = r"^[ \t\r]*+" + r"\{[^{}]*+(?:" * 15 + r"\{[^{}]*+\}" + r")?\}" * 15 + r"\z"
"""An object with at most fifteen others in one another, which ends with all its closing braces, as most lines do. Braces in a
string may be miscounted, but cannot hide a second object.
"""


def objects_of(lines: DataFrame, source: JsonSource, schema: StructType, malformed: str) -> DataFrame:
    """Parse the objects in ``value``, one per line. Other columns of ``lines`` override fields of the same name.

    ``schema`` has the text column ``malformed``. It holds the line unless the line is exactly one object whose fields
    have the schema's types, in the encoding of the source. Blank lines give no rows.
    """
    options = {
        "columnNameOfCorruptRecord": malformed,
        "maxStringLen": str(2**31 - 1),
        "timestampFormat": TIME_FORMAT,
    }
    line = F.col("value")
    keys = [name for name in lines.columns if name != "value"]
    known = {key.lower() for key in keys}
    rows = lines.where(F.startswith(line, F.lit("{")) | line.rlike(r"[^ \t\r]")).select(
        F.from_json(line, schema, options).alias("_object"),
        F.when(~_is_whole(line) | is_undecoded(line, source), line).alias("_glued"),
        *keys,
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
    """Whether a line that begins with an object also ends with it."""
    marked = F.concat(F.lit("["), line, F.lit(",1" * _MARKS + "]"))
    return line.rlike(_NESTED) | F.coalesce(F.json_array_length(marked) == 1 + _MARKS, F.lit(False))
