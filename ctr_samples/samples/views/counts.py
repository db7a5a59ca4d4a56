"""Counts matching samples of each view, the ages of the matched rows, and irregular rows of some views."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ctr_samples.config import EventView, JobConfig, StaticView, View
from ctr_samples.samples.columnar.stages import TaskCounts
from ctr_samples.samples.views.as_of.matching import OVERLAPS, SEVERAL_ROWS
from ctr_samples.samples.views.keys import lacks_key
from ctr_samples.samples.views.rows import has_one_row, is_empty
from ctr_samples.sparksql.observations import Observations, tally

_SAMPLES, _MATCHED, _WITHOUT_KEY, _EMPTY, _AGES = "samples", "matched", "without_key", "empty", "ages"
_PERCENTILES = {"age_s_p10": 0.1, "age_s_median": 0.5, "age_s_p90": 0.9}
_STEPS_OF_AGES = 50
"""Ages are counted in steps of 2 %, so percentiles are correct within 1 % for any distribution."""
_MOST_STEPS = 2048
"""Maximum number of steps, far more than the age of the universe needs."""


@dataclass(frozen=True, slots=True)
class ViewCounts:
    """Number of samples that matched a row of a view. ``ages`` are the quantiles of the row age.

    Ages are in whole seconds, by name. ``without_key`` is the number of samples that lack a key of the view, and so
    cannot match.
    """

    matched: int = 0
    without_key: int = 0
    ages: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JoinCounts:
    """Number of samples after the joins, and counts of each view."""

    samples: int
    views: Mapping[str, ViewCounts]


class JoinsWatch:
    """Counts the samples after the joins. Lives on the driver."""

    def __init__(self, config: JobConfig, *, active: bool = True) -> None:
        self._views = config.views
        self._observations = Observations(active=active)

    def on(self, joined: DataFrame, views: Iterable[str]) -> DataFrame:
        """Count impressions with a struct for each of these views, or samples without views."""
        counts = {_SAMPLES: F.count(F.lit(1))}
        for name in views:
            counts |= {f"{name}.{key}": count for key, count in _counts_of(name, self._views[name]).items()}
        return self._observations.on(joined, counts)

    def result(self) -> JoinCounts:
        """Return the counts. Call it after the action."""
        counts, steps = self._observations.counts(), self._observations.tallies()
        views = {name: _read_back(name, view, counts, steps) for name, view in self._views.items()}
        return JoinCounts(counts.get(_SAMPLES, 0), views)


def _counts_of(name: str, view: View) -> dict[str, Column]:
    return {
        _MATCHED: F.count_if(F.col(f"{name}.matched")),
        _WITHOUT_KEY: F.count_if(lacks_key(view)),
        **_ages(F.col(f"{name}.age_s"), view),
    }


def _ages(age: Column, view: View) -> dict[str, Column]:
    if isinstance(view, StaticView):
        return {}
    step = F.when(age.isNotNull(), F.round(F.log1p(F.greatest(age, F.lit(0))) * _STEPS_OF_AGES))
    return {"age_s_min": F.min(age), _AGES: tally(step, _MOST_STEPS), "age_s_max": F.max(age)}


def _read_back(name: str, view: View, counts: Mapping[str, int], steps: Mapping[str, Mapping[int, int]]) -> ViewCounts:
    matched, without_key = (counts.get(f"{name}.{key}", 0) for key in (_MATCHED, _WITHOUT_KEY))
    if not matched or isinstance(view, StaticView):
        return ViewCounts(matched, without_key)
    low, high = (counts[f"{name}.{key}"] for key in ("age_s_min", "age_s_max"))
    between = {key: min(max(low, age), high) for key, age in _percentiles(steps[f"{name}.{_AGES}"])}
    if view.max_age is None:
        del between["age_s_p10"]  # without a ttl, a row from yesterday is no warning sign
    return ViewCounts(matched, without_key, {"age_s_min": low, **between, "age_s_max": high})


def _percentiles(steps: Mapping[int, int]) -> Iterator[tuple[str, int]]:
    """Percentiles of the age in seconds, each as the middle of its step."""
    in_order = sorted(steps)
    ranks = np.cumsum([steps[step] for step in in_order])
    for name, share in _PERCENTILES.items():
        step = in_order[int(np.searchsorted(ranks, share * ranks[-1]))]
        yield name, round(math.expm1(step / _STEPS_OF_AGES))


class RowsWatch:
    """Counts irregular rows of views. Lives on the driver.

    These are rows whose validity is empty or overlaps an earlier row, and keys with several rows in no defined order.
    """

    def __init__(self, config: JobConfig, tasks: TaskCounts, *, active: bool = True) -> None:
        ends = [n for n, v in config.views.items() if isinstance(v, EventView) and v.valid_to is not None]
        one_row = [n for n, v in config.views.items() if has_one_row(v)]
        self._counted = {**dict.fromkeys(ends, (_EMPTY, OVERLAPS)), **dict.fromkeys(one_row, (SEVERAL_ROWS,))}
        self._tasks, self._observations = tasks, Observations(active=active)

    def on_rows(self, name: str, rows: DataFrame) -> DataFrame:
        """Count the rows of a view that begin before the end of the day."""
        return self._observations.on(rows, {f"{name}.{_EMPTY}": F.count_if(is_empty())})

    def result(self) -> dict[str, dict[str, int]]:
        """Return the counts by view. Call it after the action.

        Views with ends have ``empty`` and ``overlaps``; views that satisfy :func:`has_one_row` have
        ``keys_with_several_rows``.
        """
        counts = self._observations.counts() | self._tasks.result().sums
        return {name: {key: counts.get(f"{name}.{key}", 0) for key in keys} for name, keys in self._counted.items()}
