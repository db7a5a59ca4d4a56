"""Counts matching samples of each view, the ages of the matched rows, and irregular rows of some views."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from ctr_samples.config import EventView, StaticView, View
from ctr_samples.samples.columnar.blocks import Counts
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
from ctr_samples.samples.views.rows import has_one_row

EMPTY = "empty"
"""Count of rows with ends that are never true, of those that begin before the end of the day."""
_PERCENTILES = {"age_s_p10": 0.1, "age_s_median": 0.5, "age_s_p90": 0.9}


def match_facts(views: Mapping[str, View], counts: Counts) -> dict[str, dict[str, float]]:
    """Return, for each view, how many samples ``matched`` a row and how many lack a key, and so cannot match, and the
    quantiles of the ages of matched rows in whole seconds, from what :meth:`ViewRows.count` counted.
    """
    return {name: _facts(name, view, counts) for name, view in views.items()}


def _facts(name: str, view: View, counts: Counts) -> dict[str, float]:
    matched, without_key = (counts.sums.get(f"{name}.{key}", 0) for key in (MATCHED, WITHOUT_KEY))
    samples = counts.sums.get(JOINED, 0)
    rate = round(matched / samples, 6) if samples else 0.0
    facts: dict[str, float] = {"matched": matched, "match_rate": rate, "without_key": without_key}
    if not matched or isinstance(view, StaticView):
        return facts
    low, high = map(int, counts.extremes[f"{name}.{AGES}"])
    prefix = f"{name}.{AGES}."
    steps = {int(key.removeprefix(prefix)): of for key, of in counts.sums.items() if key.startswith(prefix)}
    between = {key: min(max(low, age), high) for key, age in _percentiles(steps)}
    if view.max_age is None:
        del between["age_s_p10"]  # without a ttl, a row from yesterday is no warning sign
    return {**facts, "age_s_min": low, **between, "age_s_max": high}


def _percentiles(steps: Mapping[int, int]) -> Iterator[tuple[str, int]]:
    """Percentiles of the age in seconds, each as the middle of its step."""
    in_order = sorted(steps)
    ranks = np.cumsum([steps[step] for step in in_order])
    for name, share in _PERCENTILES.items():
        step = in_order[int(np.searchsorted(ranks, share * ranks[-1]))]
        yield name, round(math.expm1(step / STEPS_OF_AGES))


def irregular_rows(views: Mapping[str, View], counts: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """Return the number of irregular rows of each view that is not counted from a log: ``ties``, which only their content
    tells apart; with ends also ``empty``, ``overlaps`` and ``contradictions``, whose validity is empty, overlaps that of an
    earlier row or contradicts it; and ``keys_with_several_rows`` if the view satisfies :func:`has_one_row`.
    """
    found: dict[str, dict[str, int]] = {}
    for name, view in views.items():
        if view.counted is None:
            ends = (
                (EMPTY, OVERLAPS, CONTRADICTIONS) if isinstance(view, EventView) and view.valid_to is not None else ()
            )
            keys = (*ends, *([SEVERAL_ROWS] if has_one_row(view) else []), TIES)
            found[name] = {key: counts.get(f"{name}.{key}", 0) for key in keys}
    return found
