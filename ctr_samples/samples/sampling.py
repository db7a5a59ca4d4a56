"""Assigns samples to splits and drops some of train. Both depend only on hashes, so every run gives the same result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time
from functools import reduce
from typing import Any, Self
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ctr_samples.config import JobConfig, Sampling
from ctr_samples.config.base import SAMPLE_WEIGHT
from ctr_samples.errors import InputError
from ctr_samples.samples.columnar.blocks import Counts
from ctr_samples.samples.columnar.columns import Flags, flags, place_of_texts
from ctr_samples.samples.features.complete import negatives_of_train, weights_of
from ctr_samples.samples.features.row import IMPRESSION, SPLITS, TRAIN, WEIGHT
from ctr_samples.samples.period import Span
from ctr_samples.samples.requests import BEGINNING, request_name
from ctr_samples.sparksql.columns import number_column, stable_hash

_FORMULAS = {
    "weight": "1 / rate for a negative of train, else 1",
    "probability": "p / (p + (1 - p) / rate)",
    "source": "He et al. 2014, Practical Lessons from Predicting Clicks on Ads at Facebook, section 6.3",
}
"""Corrections for sampling: train with the weights, or correct the probability, but never both."""

_OWN_ID = f"{IMPRESSION}.impression_id"

SAMPLED_OUT = "_sampled_out"
"""Column of an impression: whether it is left out if it is a negative of train or, with rules, whether it is left out."""

_WRONG = "_wrong"
"""Column of a labelled impression if there are rules: the rule that gave no share or weight, or null."""


def split_column(config: JobConfig, span: Span) -> Column:
    """Return the number of the split among :data:`SPLITS`. If the key is null, the impression id decides or, if samples
    are ordered by request, :func:`ctr_samples.samples.requests.request_name`.

    Needs the impressions of :func:`ctr_samples.samples.requests.with_beginning`.
    """
    number = {name: F.lit(place).cast("tinyint") for place, name in enumerate(SPLITS)}
    split = config.split
    if split.eval_from is not None:
        time = F.col(f"{IMPRESSION}.{'impression_time' if split.by == 'time' else BEGINNING}")
        begin = _eval_from(span, config.timezone, split.eval_from)
        return F.when(time >= F.lit(begin), number["eval"]).otherwise(number["train"])
    place = _place("split", _split_key(config))
    chosen = F.when(place < split.eval, number["eval"])
    if split.test:
        chosen = chosen.when(place < split.eval + split.test, number["test"])
    return chosen.otherwise(number["train"])


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

_CANDIDATES, _OF_WEIGHTS = "sampling candidates", "weight of "
_GREATEST = 1e30
"""Greatest weight, so that 32 bits hold it also beside a cap."""
_UNIT = 1_000_000
"""Weights are summed in millionths, so that the sum does not depend on the order."""


def sampled(config: JobConfig, span: Span, labelled: DataFrame) -> DataFrame:
    """Drop what sampling drops from all labelled impressions of a day, without counting. With rules, adds :data:`WEIGHT`."""
    if (rules := rules_of(config, span, labelled)) is not None:
        return rules.where(~F.col(SAMPLED_OUT)).drop(SAMPLED_OUT, _WRONG)
    # Other splits keep the positive rate of the logs.
    all_zero = reduce(Column.__and__, [F.col(name) == 0 for name in config.labels])
    return labelled.where(~((split_column(config, span) == TRAIN) & all_zero & is_sampled_out(config)))


def check_rules(config: JobConfig, counts: Counts) -> None:
    """Raise InputError if a rule gave no share or weight."""
    for key, expected in (("rate", "a number above 0 and up to 1"), ("weight", "a number from 0 to 1e30 of the rate")):
        if wrong := counts.sums.get(f"{_WRONG}.{key}", 0):
            raise InputError(
                f"sampling.{key}: {getattr(config.sampling, key)} is not {expected} for {wrong:,} samples of train; give each "
                "sample one, as in `coalesce(..., 1)`."
            )


@dataclass(frozen=True, slots=True)
class DropSampledOut:
    """Drops and counts negatives of train that are :data:`SAMPLED_OUT`, or with rules any such samples. Runs on executors."""

    labels: tuple[str, ...]
    by_rules: bool = False
    flags: tuple[str, ...] = ()
    """The 0/1 labels, whose weights are summed."""

    @classmethod
    def of(cls, config: JobConfig) -> Self:
        """Return the step for a configuration with sampling."""
        return cls(tuple(config.labels), bool(config.sampling and config.sampling.has_rules), _flags(config))

    def __call__(self, rows: pa.RecordBatch, counts: Counts) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a batch that stay."""
        candidates = negatives_of_train(rows, () if self.by_rules else self.labels)
        dropped = candidates & flags(rows.column(SAMPLED_OUT))
        counts.add(_CANDIDATES, candidates.sum())
        counts.add(DOWN_SAMPLED, dropped.sum())
        if self.by_rules:
            self._count(rows, candidates & ~dropped, counts)
        yield rows.filter(pa.array(~dropped))

    def _count(self, item: pa.RecordBatch, kept: Flags, counts: Counts) -> None:
        """Count the weights of samples of train, and rules without a value."""
        for rule, number in Counter(item.column(_WRONG).drop_null().to_pylist()).items():
            counts.add(f"{_WRONG}.{rule}", number)
        weights = item.column(WEIGHT).to_numpy()[kept]
        millionths = np.rint(np.float64(weights) * _UNIT)
        counts.add(_OF_WEIGHTS, int(millionths.sum()))
        for name in self.flags:
            counts.add(f"{_OF_WEIGHTS}{name}", int(millionths[item.column(name).to_numpy()[kept] == 1].sum()))


def sample_again(
    labels: tuple[str, ...], rate: float, salt: str, samples: pa.RecordBatch, counts: Counts
) -> Iterator[pa.RecordBatch]:
    """Leave out negatives of whole samples, as a run with ``negatives`` would, and weigh the others. Runs on executors."""
    parts = ["sampling", salt, samples.column("impression_id").cast(pa.string()), "\x1f"]
    places = place_of_texts([pc.binary_join_element_wise(*parts)]).view(np.uint64) >> np.uint64(11)
    marked = samples.append_column(SAMPLED_OUT, pa.array(places / 2**53 >= rate))
    for kept in DropSampledOut(labels)(marked, counts):
        yield kept.append_column(SAMPLE_WEIGHT, weights_of(kept, labels, rate))


def rules_of(config: JobConfig, span: Span, labelled: DataFrame) -> DataFrame | None:
    """Add :data:`SAMPLED_OUT` and :data:`WEIGHT` to all labelled impressions of a day. Return None without rules. A cap costs a
    shuffle by its key.

    A weight is 1 / rate x the samples of the key / those that stay x the configured weight, and 1 outside train. Lower
    rates and caps keep a subset of what higher ones keep, since a cap takes the lowest lots as shares of their rates.
    Raises InputError for expressions that are no numbers.
    """
    sampling = config.sampling
    if sampling is None or not sampling.has_rules:
        return None
    train, one = split_column(config, span) == TRAIN, F.lit(1.0)
    rate = one if sampling.rate is None else number_column(labelled, sampling.rate, "sampling.rate")
    weight = one if sampling.weight is None else number_column(labelled, sampling.weight, "sampling.weight")
    is_rate = F.coalesce((rate > 0) & (rate <= 1), F.lit(False))  # NaN is above all numbers
    is_weight = F.coalesce((weight >= 0) & (weight < rate * _GREATEST), F.lit(False))
    rate, weight = (F.when(valid, value).otherwise(1.0) for valid, value in ((is_rate, rate), (is_weight, weight)))
    lot = _lot(config, sampling)
    wrong = F.when(train, F.when(~is_rate, "rate").when(~is_weight, "weight"))
    rows = labelled.withColumns({SAMPLED_OUT: train & (lot >= rate), WEIGHT: weight / rate, _WRONG: wrong})
    if sampling.cap is not None:
        key = F.col(f"{IMPRESSION}.{sampling.cap.key}")
        # Rows without a cap are spread over many tasks.
        alone = F.when(key.isNull() | ~train | F.col(SAMPLED_OUT), F.col(_OWN_ID))
        group, capped = Window.partitionBy(F.when(alone.isNull(), key), alone), alone.isNull()
        count = F.count("*").over(group)
        rank = F.row_number().over(group.orderBy(lot / rate, _OWN_ID))
        factor = F.when(capped, count / F.least(count, F.lit(sampling.cap.samples))).otherwise(1.0)
        over = capped & (rank > sampling.cap.samples)
        rows = rows.withColumns({SAMPLED_OUT: F.col(SAMPLED_OUT) | over, WEIGHT: F.col(WEIGHT) * factor})
    return rows.withColumn(WEIGHT, F.when(train, F.col(WEIGHT)).otherwise(1.0).cast("float"))


def _flags(config: JobConfig) -> tuple[str, ...]:
    return tuple(name for name, label in config.labels.items() if label.is_flag)


def is_sampled_out(config: JobConfig) -> Column:
    """Whether an impression is left out if it is a negative of train. Not for rules."""
    if config.sampling is None or config.sampling.negatives is None:
        return F.lit(False)
    return _lot(config, config.sampling) >= config.sampling.negatives


def _lot(config: JobConfig, sampling: Sampling) -> Column:
    """Return a number in [0, 1): an impression stays if it is below the rate."""
    # The configured salt is a part, not the salt of the hash: the salt `split` would correlate the two choices.
    key = request_name(config) if sampling.by == "request" else F.col(_OWN_ID).cast("string")
    return _place("sampling", F.lit(sampling.salt), key)


def sampling_facts(config: JobConfig, counts: Counts) -> dict[str, Any]:
    """Return the manifest entry about what :class:`DropSampledOut` counted, which is empty if there is no sampling."""
    sampling = config.sampling
    if sampling is None:
        return {}
    candidates = counts.sums.get(_CANDIDATES, 0)
    kept = candidates - counts.sums.get(DOWN_SAMPLED, 0)
    if sampling.negatives is None:
        rules = sampling.model_dump(exclude={"negatives"}, exclude_none=True)
        positives = {name: _weight(counts, name) for name in _flags(config)}
        weights = {"samples": _weight(counts), "positives": positives}
        return {"rules": rules, "train": candidates, "kept": kept, "weights": weights}
    return {
        "rate": sampling.negatives,
        "salt": sampling.salt,
        "negatives": candidates,
        "kept": kept,
        "expected": round(candidates * sampling.negatives, 1),
        "formulas": _FORMULAS,
    }


def _weight(counts: Counts, label: str = "") -> float:
    """Return the sum of the weights of train, or of the positives of a label."""
    return counts.sums.get(f"{_OF_WEIGHTS}{label}", 0) / _UNIT


def _place(salt: str, *parts: Column) -> Column:
    """Return a number in [0, 1) from the first 53 bits of a hash, the precision of a double."""
    return F.shiftrightunsigned(stable_hash(salt, list(parts)), 11) / F.lit(float(2**53))


def _eval_from(span: Span, timezone: str, text: str) -> datetime:
    """Return the start of eval: a time on the day or, for the whole log, a date or time. Of an ambiguous time, the first."""
    zone = ZoneInfo(timezone)
    if span.start is None:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).astimezone(UTC)
    return datetime.combine(span.start.astimezone(zone).date(), time.fromisoformat(text), zone).astimezone(UTC)
