"""Assigns samples to splits and drops negatives. Both depend only on hashes, so every run gives the same result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time
from functools import reduce
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ctr_samples.config import JobConfig
from ctr_samples.samples.columnar.blocks import Item
from ctr_samples.samples.columnar.columns import flags
from ctr_samples.samples.columnar.counts import Counts
from ctr_samples.samples.columnar.stages import TaskCounts
from ctr_samples.samples.features import IMPRESSION
from ctr_samples.samples.features.complete import negatives_of_train
from ctr_samples.samples.period import Span
from ctr_samples.samples.requests import BEGINNING, request_name
from ctr_samples.sparksql.columns import stable_hash

FORMULAS = {
    "weight": "1 / rate for a negative of train, else 1",
    "probability": "p / (p + (1 - p) / rate)",
    "source": "He et al. 2014, Practical Lessons from Predicting Clicks on Ads at Facebook, section 6.3",
}
"""Corrections for sampling: train with the weights, or correct the probability, but never both."""

_OWN_ID = f"{IMPRESSION}.impression_id"

UNLUCKY = "_unlucky"
"""Column of an impression: whether it is left out if it is a negative of train."""


def split_column(config: JobConfig, span: Span) -> Column:
    """Return the split: ``train``, ``eval`` or ``test``. If the key is null, the impression id decides or, if samples
    are ordered by request, :func:`ctr_samples.samples.requests.request_name`.

    Needs the impressions of :func:`ctr_samples.samples.requests.with_beginning`.
    """
    split = config.split
    if split.eval_from is not None:
        time = F.col(f"{IMPRESSION}.{'impression_time' if split.by == 'time' else BEGINNING}")
        return F.when(time >= F.lit(_eval_from(span, config.timezone, split.eval_from)), "eval").otherwise("train")
    place = _place("split", _split_key(config))
    chosen = F.when(place < split.eval, "eval")
    if split.test:
        chosen = chosen.when(place < split.eval + split.test, "test")
    return chosen.otherwise("train")


def _split_key(config: JobConfig) -> Column:
    """Text whose hash decides the split."""
    by, own = config.split.by, F.col(_OWN_ID).cast("string")
    if by == "impression":
        return own
    if by == "request":
        return request_name(config)
    # An order by request keeps its impressions together, also those of an unknown user.
    without = request_name(config) if config.output.by_request else own
    return F.coalesce(F.col(f"{IMPRESSION}.{by}").cast("string"), without)


DOWN_SAMPLED = "down_sampled"
"""Drop reason of a negative in train."""

_NEGATIVES = "negatives"


@dataclass(frozen=True, slots=True)
class SamplingCounts:
    """Number of negatives in train, and number of dropped negatives."""

    negatives: int = 0
    dropped: int = 0


class SamplingWatch:
    """Drops negatives, and has the counts of a run. Lives on the driver."""

    def __init__(self, config: JobConfig, span: Span, tasks: TaskCounts) -> None:
        self._config, self._span, self._tasks = config, span, tasks

    def kept(self, labelled: DataFrame) -> DataFrame:
        """Drop negatives from the labelled impressions, without counting. Without sampling, keeps all rows."""
        return labelled.where(~(_may_be_dropped(self._config, self._span) & is_unlucky(self._config)))

    def result(self) -> SamplingCounts | None:
        """Return the counts, or None if there is no sampling. Call it after the action."""
        if self._config.sampling is None:
            return None
        counts = self._tasks.result().sums
        return SamplingCounts(counts.get(_NEGATIVES, 0), counts.get(DOWN_SAMPLED, 0))


@dataclass(frozen=True, slots=True)
class DropNegatives:
    """Drops the negatives of train that :func:`is_unlucky` marks, and counts them. Runs on executors."""

    labels: tuple[str, ...]

    def __call__(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield the rows that stay, and the counts."""
        counts = Counts()
        for item in items:
            if isinstance(item, Counts):
                yield item
                continue
            negative = negatives_of_train(item, self.labels)
            dropped = negative & flags(item.column(UNLUCKY))
            counts.add(_NEGATIVES, negative.sum())
            counts.add(DOWN_SAMPLED, dropped.sum())
            yield item.filter(pa.array(~dropped))
        yield counts


def is_unlucky(config: JobConfig) -> Column:
    """Whether an impression is left out if it is a negative of train."""
    if config.sampling is None:
        return F.lit(False)
    # The configured salt is a part, not the salt of the hash: the salt `split` would correlate the two choices.
    place = _place("sampling", F.lit(config.sampling.salt), F.col(_OWN_ID).cast("string"))
    return place >= config.sampling.negatives


def sampling_facts(config: JobConfig, counts: SamplingCounts | None) -> dict[str, Any]:
    """Return the manifest entry about sampling, which is empty if there is no sampling."""
    if config.sampling is None or counts is None:
        return {}
    return {
        "rate": config.sampling.negatives,
        "salt": config.sampling.salt,
        "negatives": counts.negatives,
        "kept": counts.negatives - counts.dropped,
        "expected": round(counts.negatives * config.sampling.negatives, 1),
        "formulas": FORMULAS,
    }


def _may_be_dropped(config: JobConfig, span: Span) -> Column:
    """Whether a sample is a negative in train. Other splits keep the positive rate of the logs."""
    all_zero = reduce(Column.__and__, [F.col(name) == 0 for name in config.labels])
    return (split_column(config, span) == "train") & all_zero


def _place(salt: str, *parts: Column) -> Column:
    """Return a number in [0, 1) from the first 53 bits of a hash, the precision of a double."""
    return F.shiftrightunsigned(stable_hash(salt, list(parts)), 11) / F.lit(float(2**53))


def _eval_from(span: Span, timezone: str, text: str) -> datetime:
    """Return the start of eval: a time on the day or, for the whole log, a date or time. An ambiguous time means its
    first occurrence.
    """
    zone = ZoneInfo(timezone)
    if span.start is None:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).astimezone(UTC)
    return datetime.combine(span.start.astimezone(zone).date(), time.fromisoformat(text), zone).astimezone(UTC)
