"""Joins by method name, used for the views of a run and for their canaries."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from ctr_samples.samples.views.as_of.hot_keys import HotKeys
from ctr_samples.samples.views.as_of.intervals import join_by_intervals
from ctr_samples.samples.views.as_of.planning import Method
from ctr_samples.samples.views.as_of.ranked_rows import Join
from ctr_samples.samples.views.as_of.snapshots import join_snapshots
from ctr_samples.samples.views.as_of.static import join_static
from ctr_samples.samples.views.as_of.union import join_by_union


def join_by(method: Method, impressions: DataFrame, joins: Sequence[Join], hot: HotKeys | None = None) -> DataFrame:
    """Add a column per view to the impressions. Only a union joins several views and supports hot keys."""
    if method == "union":
        return join_by_union(impressions, joins, hot)
    (join,) = joins
    if method == "static":
        return join_static(impressions, join.features, join.how.name, join.how.on)
    return join_by_intervals(impressions, join) if method == "intervals" else join_snapshots(impressions, join)
