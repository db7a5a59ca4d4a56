"""Rows of lists: each element of a list becomes a row of its own."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType

from ctr_samples.errors import InputError
from ctr_samples.sparksql.columns import quoted
from ctr_samples.sparksql.expressions import typed_expression


def exploded(frame: DataFrame, lists: Mapping[str, str], where: str) -> DataFrame:
    """The rows of a source, one for each element of a list, with two more columns: ``<name>`` and ``<name>_position``.

    ``lists`` maps the one name to the expression of its list. A row without a list stays, with a null element, so that it is
    counted; an empty list has no rows. Lazy. InputError for what is no list, or a name that the source has.
    """
    ((name, text),) = lists.items()
    position = f"{name}_position"
    there = {column.lower() for column in frame.columns}
    for made in (name, position):
        if made.lower() in there:
            raise InputError(f"{where}: the source has a column {made!r} already; choose another name.")
    column, kind = typed_expression(frame, text, f"{where}.{name}")
    if not isinstance(kind, ArrayType):
        raise InputError(
            f"{where}.{name}: {text} is {kind.simpleString()}, expected a list: an array, or text that is split into one, "
            f"such as split({text}, ' ')."
        )
    elements = F.coalesce(column, F.array(F.lit(None).cast(kind.elementType)))
    own = [F.col(quoted(c)) for c in frame.columns]
    return frame.select(*own, F.posexplode(elements).alias(position, name))
