"""What views are joined on: keys of the impressions, several of them together, or columns of other views."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ctr_samples.config import JobConfig, View
from ctr_samples.samples.features import IMPRESSION
from ctr_samples.sparksql.columns import joint_key, key_column, quoted

_ON = "_on of "
"""Begins the column with a key that is no column of the impressions, while views are joined on it."""


def level_of(config: JobConfig, name: str) -> int:
    """How many views are joined before this one, one after the other."""
    return max((1 + level_of(config, other) for other in config.views[name].looked_up_in), default=0)


def made_column(joined_on: Sequence[str]) -> str | None:
    """The column that is made for a join; None where views are joined on a key that impressions have."""
    is_own = len(joined_on) == 1 and "." not in joined_on[0]
    return None if is_own else f"{_ON}{' and '.join(joined_on)}"


def on_column(joined_on: Sequence[str]) -> str:
    """The path of the column of the impressions that views are joined on."""
    made = made_column(joined_on)
    return f"{IMPRESSION}.{joined_on[0]}" if made is None else quoted(made)


def lacks_key(view: View) -> Column:
    """Whether an impression with its views has not all that a view is joined on."""
    return reduce(Column.__or__, [F.col(_path(part)).isNull() for part in view.joined_on])


def made_key(rows: DataFrame, joined_on: Sequence[str], where: str) -> Column:
    """The key of a join as a column of the rows: of several keys together, or of a column that another view gave."""
    return joint_key([key_column(rows, _path(part), where) for part in joined_on])


def _path(part: str) -> str:
    """The column of an impression with its views that a part of a key is."""
    names = part.split(".") if "." in part else (IMPRESSION, part)
    return ".".join(quoted(name) for name in names)


def key_columns(source: DataFrame, view: View, where: str) -> list[Column]:
    """The keys of a row of the source, in the order of what they are compared with."""
    named = [f"{where}.key"] * len(view.key) + [f"{where}.article_key"]
    return [key_column(source, text, name) for text, name in zip(view.keys, named, strict=False)]
