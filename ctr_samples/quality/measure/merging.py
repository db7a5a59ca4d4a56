"""Merge the measures of all tasks and compute the figures for reports and checks. Runs on the driver."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from typing import Any

import numpy as np

from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.quality.feature_facts import Curve, Facts, FeatureFacts, Kind, Lengths, TopValue
from ctr_samples.quality.measure.collecting import SplitMeasures, TaskMeasures, Wanted, kinds, measured
from ctr_samples.quality.measure.numbers import ColumnMeasures, Frequent, Quantiles, distinct_values
from ctr_samples.quality.measure.rows import WHOLE, ValueCounts, correlations
from ctr_samples.quality.metrics import (
    HOURS,
    Baseline,
    ClickRate,
    Clicks,
    Duplicates,
    HourCounts,
    Label,
    LabelSplit,
    Requests,
    User,
    Users,
    ValueRate,
)

SHOWN_VALUES = 50
"""Number of values of a column whose rates are told one by one."""
POINTS = 101
"""Number of points of a distribution, one per percent."""
RANKS = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)
HEAVIEST = 10
_OFTEN = 20
"""Least number of sketched samples that tell the size of a request."""


class Measures(TaskMeasures):
    """Measures of a run, from all tasks, and the figures that they give."""

    @classmethod
    def of(cls, tasks: Iterable[str]) -> Measures:
        """Merge the task results one at a time: a thousand unpacked results might not fit in memory.

        Merge order affects only the last bits of moments and sketches.
        """
        whole = cls()
        for packed in tasks:
            whole.add(packed)
        return whole

    def columns(self, contract: ExampleContract, *roles: str) -> dict[str, FeatureFacts]:
        """Return the facts of each column with a given role, by split."""
        biases = self._biases()
        return {
            spec.name: FeatureFacts(
                _kind(spec),
                spec.dtype,
                spec.shape,
                self._facts(spec),
                share=self._share(spec.name),
                biases={bias: found[spec.name] for bias, found in biases.items() if spec.name in found},
            )
            for spec in measured(contract).values()
            if spec.role in roles
        }

    def _biases(self) -> dict[str, dict[str, float]]:
        """Return the correlations of features with each bias in the largest split."""
        largest = max(self.splits.values(), key=lambda split: split.rows, default=SplitMeasures())
        return {bias: correlations(sums) for bias, sums in largest.biases.items()}

    def _share(self, name: str) -> float | None:
        return self.bytes[name] / self.bytes[WHOLE] if name in self.bytes else None

    def _facts(self, spec: FeatureSpec) -> dict[str, Facts]:
        return {
            name: facts(split.columns[spec.name], spec)
            for name, split in self.splits.items()
            if spec.name in split.columns
        }

    def labels(self, contract: ExampleContract) -> dict[str, Label]:
        """Return the count, sum and mean of each label, by split."""
        columns = self.columns(contract, "label")
        return {name: Label(column.dtype == "int64", _label_splits(column)) for name, column in columns.items()}

    def click_rate(self, label: str | None, *, hours: bool) -> ClickRate | None:
        """Count samples and positives by split and impression hour. Returns None if there is no label."""
        if label is None:
            return None
        whole = SplitMeasures()
        for split in self.splits.values():
            whole.merge(deepcopy(SplitMeasures(by_hour=split.by_hour, flags=split.flags, by=split.by)))
        return ClickRate(
            label,
            {name: Clicks(split.rows, split.positives) for name, split in self.splits.items()},
            tuple(
                HourCounts(int(whole.by_hour[0, hour]), int(whole.by_hour[1, hour]), hour=hour)
                for hour in range(HOURS if hours else 0)
            ),
            {name: _rates(counts) for name, counts in whole.by.items()},
            {name: tuple(positives.tolist()) for name, positives in whole.flags.items()} if hours else {},
        )

    def users(self) -> Users | None:
        """Return the users with the most samples among the sketched rows, or None if no users were measured."""
        looked_at = [split for split in self.splits.values() if split.users.seen]
        if not looked_at:
            return None
        total = sum(split.rows for split in looked_at)
        samples: dict[Any, float] = {}
        for split in looked_at:  # the same number of rows is sampled from each, whatever its size
            for name, often, _ in split.users.first():
                samples[name] = samples.get(name, 0.0) + split.rows * often / split.users.seen
        first = sorted(samples.items(), key=lambda entry: (-entry[1], str(entry[0])))[:HEAVIEST]
        heaviest = tuple(User(str(name), often / total, round(often)) for name, often in first)
        return Users(sum(split.users.seen for split in looked_at), heaviest) if first else None

    def requests(self, wanted: Wanted) -> Requests | None:
        """Return the figures of the requests, or None without keys of requests or without samples."""
        largest = 0
        for split in self.splits.values():  # finds a request with more than about one in two hundred samples
            for _, often, _ in split.requests.first(1):
                if often >= _OFTEN:
                    largest = max(largest, split.rows * often // split.requests.seen)
        keys, record = wanted.request_keys, wanted.contract.record
        return self.sampled_requests.result(keys, largest, record, adjacent=wanted.by_request) if keys else None

    def duplicates(self) -> Duplicates:
        """Count rows with equal keys exactly. Estimate the share of identical rows from the sketched rows."""
        shares = [(split.rows, split.alike.shares()) for split in self.splits.values()]
        rows = max(1, sum(rows for rows, _ in shares))
        identical, conflicting = (sum(rows * both[which] for rows, both in shares) / rows for which in (0, 1))
        looked_at = sum(split.alike.looked_at for split in self.splits.values())
        return Duplicates(self.same_keys, looked_at, identical, conflicting)

    def baseline(self, label: str | None) -> Baseline | None:
        """Score a constant prediction, the positive rate of the train split. Every model has to beat this baseline."""
        train = self.splits.get("train")
        if label is None or train is None or not train.rows:
            return None
        rate = train.positives / train.rows
        loss = -sum(p * float(np.log(p)) for p in (rate, 1 - rate) if p > 0)
        return Baseline(label, rate, max(rate, 1 - rate), loss)


def _label_splits(column: FeatureFacts) -> dict[str, LabelSplit]:
    whole = column.dtype == "int64"
    splits = {}
    for split, column_facts in column.splits.items():
        count = column_facts.values - column_facts.nan - column_facts.infinite
        total = (column_facts.mean or 0.0) * count
        splits[split] = LabelSplit(count, round(total) if whole else total, column_facts.mean, column_facts.std)
    return splits


def _rates(counts: ValueCounts) -> tuple[ValueRate, ...]:
    """Return the values with the most samples, and last all others together."""
    first = sorted(counts.values.items(), key=lambda entry: (-entry[1][0], entry[0] or ""))
    rest = [counts.others, *[both for _, both in first[SHOWN_VALUES:]]]
    samples, positives = (sum(both[n] for both in rest) for n in (0, 1))
    shown = [ValueRate(both[0], both[1], value) for value, both in first[:SHOWN_VALUES]]
    return (*shown, *([ValueRate(samples, positives, None, others=True)] if samples else []))


def _kind(spec: FeatureSpec) -> Kind:
    if spec.dtype == "bytes":
        return "text"
    return "number" if kinds(spec)[0] else "id"


def facts(column: ColumnMeasures, spec: FeatureSpec) -> Facts:
    """Return the facts of a column for the document."""
    moments = column.moments
    as_numbers, as_values = kinds(spec)
    sketch = column.quantiles.whole if as_numbers else None
    top = column.frequent
    return Facts(
        rows=column.rows,
        nulls=column.nulls,
        defaults=column.defaults,
        values=moments.values,
        zeros=moments.zeros,
        nan=moments.nan,
        infinite=moments.infinite,
        min=_finite(moments.min),
        max=_finite(moments.max),
        mean=_finite(moments.mean) if moments.finite else None,
        std=_finite(moments.std),
        lengths=_lengths(column),
        distinct=None if spec.dtype == "bytes" else distinct_values(column.registers),
        quantiles=sketch and {f"{rank:g}": at for rank, at in zip(RANKS, sketch.get_quantiles(RANKS), strict=True)},
        cdf=sketch and cdf(sketch),
        top=_most_frequent(top) if as_values and top.seen else None,
        looked_at=column.looked_at,
        values_looked_at=top.seen if as_values else sketch.n if sketch is not None else 0,
        auc=auc(column),
    )


def _lengths(column: ColumnMeasures) -> Lengths | None:
    if column.shortest > column.longest:
        return None
    return Lengths(int(column.shortest), int(column.longest), column.moments.values / max(1, column.rows))


def _most_frequent(top: Frequent) -> tuple[TopValue, ...]:
    return tuple(TopValue(value, often / top.seen, positive / often) for value, often, positive in top.first())


def _finite(figure: float | None) -> float | None:
    """Return a finite figure, else None: JSON has no infinity, and squares of values above 10^154 overflow."""
    return figure if figure is not None and np.isfinite(figure) else None


def cdf(sketch: Any) -> Curve:
    """Return the distinct values at each percent, with the shares of values below each and up to each."""
    at = sorted(set(sketch.get_quantiles(np.linspace(0, 1, POINTS).tolist())))
    under, below = (
        tuple(round(share, 5) for share in sketch.get_cdf(at, inclusive=up_to)[:-1]) for up_to in (False, True)
    )
    return Curve(tuple(at), under, below)


def auc(column: ColumnMeasures) -> float | None:
    """Return the AUC of the column as a score for positives: 0.5 if uninformative, 1 or 0 if it determines the label.

    Numbers are scored with the sketches of both classes, ids by the click rates of frequent values. Rare values are
    pooled, so that values seen once or twice do not inflate the AUC. All columns are also scored by the presence of a
    value. Returns the AUC furthest from 0.5.
    """
    areas = (_auc_of_numbers(column.quantiles), _auc_of_values(column.frequent), _auc_of_presence(column.filled))
    return max((area for area in areas if area is not None), key=lambda area: abs(area - 0.5), default=None)


def _auc_of_numbers(quantiles: Quantiles) -> float | None:
    sketches = quantiles.sketches
    if {"0", "1"} <= sketches.keys() and min(sketches["0"].n, sketches["1"].n) >= _ENOUGH:
        negative, positive = sketches["0"], sketches["1"]
        at = sorted({*negative.get_quantiles(_GRID), *positive.get_quantiles(_GRID)})
        of_negatives, of_positives = (np.diff([0.0, *s.get_cdf(at, inclusive=True)]) for s in (negative, positive))
        return _wins(of_positives, of_negatives)
    return None


def _wins(positives: Any, negatives: Any) -> float:
    """Count pairs in which the positive scores above the negative. Ties count half; inputs are in ascending order."""
    below = np.cumsum(negatives) - negatives
    return float(np.dot(positives, below + negatives / 2))


_GRID = np.linspace(0, 1, POINTS).tolist()
_ENOUGH = 50


def _auc_of_presence(filled: Any) -> float | None:
    negative, positive = filled.T
    if not filled.any(axis=1).all() or min(negative.sum(), positive.sum()) < _ENOUGH:
        return None
    return _wins(positive, negative) / float(positive.sum() * negative.sum())


def _auc_of_values(frequent: Frequent) -> float | None:
    kept = np.array([both for both in frequent.counts.values() if both[0] >= _ENOUGH] or [[0, 0]], float)
    rest = np.array([[frequent.seen, frequent.positives]], float) - kept.sum(axis=0)
    often, positive = np.concatenate([kept, np.maximum(rest, 0)]).T
    negative = often - positive
    if min(positive.sum(), negative.sum()) < _ENOUGH:
        return None
    order = np.argsort(positive / np.maximum(often, 1))
    return float(_wins(positive[order], negative[order]) / (positive.sum() * negative.sum()))
