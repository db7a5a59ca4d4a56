"""Join keys of views: a single impression key, a composite of several keys, or a column of another view."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame

from ctr_samples.config import JobConfig, View
from ctr_samples.sparksql.columns import key_column


def level_of(config: JobConfig, name: str) -> int:
    """Return the length of the chain of views to join before this view."""
    return max((1 + level_of(config, other) for other in config.views[name].looked_up_in), default=0)


def key_columns(source: DataFrame, view: View, where: str) -> list[Column]:
    """Return the keys of a source row, in the same order as the matching impression keys."""
    named = [f"{where}.key"] * len(view.key) + [f"{where}.article_key"]
    return [key_column(source, text, name) for text, name in zip(view.keys, named, strict=False)]
