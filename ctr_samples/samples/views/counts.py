"""Counts matching samples of each view, the ages of the matched rows, and irregular rows of some views."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ctr_samples.config import EventView, JobConfig, StaticView, View
from ctr_samples.samples.columnar.blocks import Counts
from ctr_samples.samples.columnar.stages import TaskCounts
from ctr_samples.samples.features.complete import JOINED
from ctr_samples.samples.views.as_of.matching import (
    AGES,
    CONTRADICTIONS,
    MATCHED,
    OVERLAPS,
    SEVERAL_ROWS,
    STEPS_OF_AGES,
    TIES,
    WITHOUT_KEY,
)
from ctr_samples.samples.views.rows import has_one_row, is_empty
from ctr_samples.sparksql.observations import Observations

_EMPTY = "empty"
_PERCENTILES = {"age_s_p10": 0.1, "age_s_median": 0.5, "age_s_p90": 0.9}


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


def join_counts(views: Mapping[str, View], counts: Counts) -> JoinCounts:
    """Return what :meth:`ViewRows.count` counted, and the number of samples."""
    of_views = {name: _read_back(name, view, counts) for name, view in views.items()}
    return JoinCounts(counts.sums.get(JOINED, 0), of_views)


def _read_back(name: str, view: View, counts: Counts) -> ViewCounts:
    matched, without_key = (counts.sums.get(f"{name}.{key}", 0) for key in (MATCHED, WITHOUT_KEY))
    if not matched or isinstance(view, StaticView):
        return ViewCounts(matched, without_key)
    low, high = map(int, counts.extremes[f"{name}.{AGES}"])
    prefix = f"{name}.{AGES}."
    steps = {int(key.removeprefix(prefix)): of for key, of in counts.sums.items() if key.startswith(prefix)}
    between = {key: min(max(low, age), high) for key, age in _percentiles(steps)}
    if view.max_age is None:
        del between["age_s_p10"]  # without a ttl, a row from yesterday is no warning sign
    return ViewCounts(matched, without_key, {"age_s_min": low, **between, "age_s_max": high})


def _percentiles(steps: Mapping[int, int]) -> Iterator[tuple[str, int]]:
    """Percentiles of the age in seconds, each as the middle of its step."""
    in_order = sorted(steps)
    ranks = np.cumsum([steps[step] for step in in_order])
    for name, share in _PERCENTILES.items():
        step = in_order[int(np.searchsorted(ranks, share * ranks[-1]))]
        yield name, round(math.expm1(step / STEPS_OF_AGES))


class RowsWatch:
    """Counts irregular rows of views. Lives on the driver.

    These are rows whose validity is empty, overlaps an earlier row or contradicts one, and keys with several rows in no
    defined order.
    """

    def __init__(self, config: JobConfig, tasks: TaskCounts, *, active: bool = True) -> None:
        ends = [n for n, v in config.views.items() if isinstance(v, EventView) and v.valid_to is not None]
        one_row = [n for n, v in config.views.items() if has_one_row(v)]
        self._counted: dict[str, tuple[str, ...]] = {n: (TIES,) for n, v in config.views.items() if v.counted is None}
        for names, keys in ((ends, (_EMPTY, OVERLAPS, CONTRADICTIONS)), (one_row, (SEVERAL_ROWS,))):
            self._counted |= {name: (*keys, *self._counted[name]) for name in names}
        self._tasks, self._observations = tasks, Observations(active=active)

    def on_rows(self, name: str, rows: DataFrame) -> DataFrame:
        """Count the rows of a view that begin before the end of the day."""
        return self._observations.on(rows, {f"{name}.{_EMPTY}": F.count_if(is_empty())})

    def result(self) -> dict[str, dict[str, int]]:
        """Return the counts by view. Call it after the action.

        Views with ends have ``empty``, ``overlaps`` and ``contradictions``; views that satisfy :func:`has_one_row` have
        ``keys_with_several_rows``; all but counted views have ``ties``.
        """
        counts = self._observations.counts() | self._tasks.result().sums
        return {name: {key: counts.get(f"{name}.{key}", 0) for key in keys} for name, keys in self._counted.items()}
