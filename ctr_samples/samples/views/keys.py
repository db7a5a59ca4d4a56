"""Join keys of views: a single impression key, a composite of several keys, or a column of another view."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ctr_samples.config import JobConfig, View
from ctr_samples.samples.features import IMPRESSION
from ctr_samples.sparksql.columns import key_column, quoted


def level_of(config: JobConfig, name: str) -> int:
    """Return the length of the chain of views to join before this view."""
    return max((1 + level_of(config, other) for other in config.views[name].looked_up_in), default=0)


def lacks_key(view: View) -> Column:
    """Whether any part of a view's key is null in an impression and its joined views."""
    return reduce(Column.__or__, [F.col(_path(part)).isNull() for part in view.joined_on])


def _path(part: str) -> str:
    """Column for a part of a key, in an impression or one of its joined views."""
    names = part.split(".") if "." in part else (IMPRESSION, part)
    return ".".join(quoted(name) for name in names)


def key_columns(source: DataFrame, view: View, where: str) -> list[Column]:
    """Return the keys of a source row, in the same order as the matching impression keys."""
    named = [f"{where}.key"] * len(view.key) + [f"{where}.article_key"]
    return [key_column(source, text, name) for text, name in zip(view.keys, named, strict=False)]
