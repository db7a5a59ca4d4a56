"""Counts tokens and numbers of training days. Runs on the driver as a few Spark actions and writes nothing.

Counts only rows of the train split, on days before any day that may use the result, so it never uses evaluation data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ctr_samples.config import Feature, JobConfig, Vocabulary
from ctr_samples.errors import InputError
from ctr_samples.samples.builder import SampleBuilder
from ctr_samples.samples.features.one_feature import fitted_value
from ctr_samples.samples.features.pairs import PairValues
from ctr_samples.samples.features.row import IMPRESSION, TRAIN
from ctr_samples.samples.inputs.watched import Inputs
from ctr_samples.samples.sampling import split_column
from ctr_samples.vocabulary import FittedMoments, FittedState, FittedVocabulary, TokenCounts

ACCURACY = 10_000
"""Accuracy of quantiles: their rank is correct within 1 / ACCURACY."""

_LINE_BREAK = r"[\n-\r\x1c-\x1e\x85\u2028\u2029]"
"""Characters that common text readers treat as a line break."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Statistics of the training days: tokens of each vocabulary, moments, and quantile boundaries."""

    rows: int
    tokens: Mapping[str, TokenCounts]
    moments: Mapping[str, FittedMoments]
    boundaries: Mapping[str, tuple[float, ...]]


def only_fitted(config: JobConfig) -> JobConfig:
    """Reduce the configuration to fitted features and the views and histories they need."""
    names = [name for name, feature in config.features.items() if feature.is_fitted]
    return config.only(names).model_copy(update={"sampling": None})


def count_days(
    spark: SparkSession,
    config: JobConfig,
    days: Sequence[date],
    before: FittedState | None,
    warn: Callable[[str], None] = lambda sentence: None,
) -> Counted:
    """Count the training rows of some days. Keeps the moments and quantiles of ``before``, without refitting them.

    Calls ``warn`` once per distinct sentence about the inputs of all days.
    """
    known = {*before.moments, *before.boundaries} if before else set()
    fitted = only_fitted(config)
    inputs = [replace(Inputs.read(spark, fitted, day, watched=False), whole=config) for day in days]
    for sentence in dict.fromkeys(sentence for of_day in inputs for sentence in of_day.told()):
        warn(sentence)
    frames = [_training_rows(fitted, of_day) for of_day in inputs]
    values = {name: fitted_value(frames[0].limit(0), name, feature) for name, feature in fitted.features.items()}
    columns = [value.column.alias(name) for name, value in values.items()]
    rows = reduce(DataFrame.unionByName, [frame.select(*columns) for frame in frames]).persist()
    try:
        count = rows.count()
        if count == 0:
            raise InputError(
                f"There are no training impressions from {days[0]} to {days[-1]} to fit on; check the days and the split."
            )
        lists = {name for name, value in values.items() if value.levels}
        measured = [name for name, f in fitted.features.items() if (f.scale or f.quantiles) and name not in known]
        return Counted(
            count,
            _token_counts(rows, fitted, lists, before.vocabularies if before else {}),
            {n: _moments(rows, n, fitted.features[n], n in lists) for n in measured if fitted.features[n].scale},
            {n: _boundaries(rows, n, q, n in lists) for n in measured if (q := fitted.features[n].quantiles)},
        )
    finally:
        rows.unpersist()


def days_through(last: date, count: int) -> list[date]:
    """Return ``count`` consecutive days ending with ``last``."""
    return [last - timedelta(days=back) for back in reversed(range(count))]


def _training_rows(config: JobConfig, inputs: Inputs) -> DataFrame:
    rows = SampleBuilder(inputs).joined().where(split_column(config, inputs.span) == TRAIN)
    rows = rows.select(IMPRESSION, *config.views, *config.histories)
    return PairValues.of(config.features, rows.schema).over(rows)


def _token_counts(
    rows: DataFrame, config: JobConfig, lists: set[str], known: Mapping[str, FittedVocabulary]
) -> dict[str, TokenCounts]:
    """Return the tokens of each vocabulary with their counts, summed over all features that share the vocabulary."""
    sharing: dict[str, list[str]] = {}
    for name, feature in config.features.items():
        if feature.vocabulary is not None:
            sharing.setdefault(feature.vocabulary, []).append(name)
    token_counts = {}
    for vocabulary, names in sharing.items():
        every = F.concat(*[_items(name, name in lists) for name in names])
        counts = rows.select(F.explode(every).alias("token")).where("token is not null").groupBy("token").count()
        has = known[vocabulary].tokens if vocabulary in known else ()
        token_counts[vocabulary] = _worth_an_id(counts.persist(), config.vocabularies[vocabulary], has)
    return token_counts


def _worth_an_id(counts: DataFrame, vocabulary: Vocabulary, has: Sequence[str]) -> TokenCounts:
    """Return the tokens that already have an id, and the most frequent new tokens that occur often enough.

    A token with a line break never receives an id: the vocabulary file stores one token per line.
    """
    known = counts.sparkSession.createDataFrame(pa.table({"known": pa.array(has, pa.string())}))
    marked = counts.join(F.broadcast(known), F.col("token") == F.col("known"), "left")
    frequent = F.col("known").isNull() & (F.col("count") >= vocabulary.min_count)
    fresh = marked.where(frequent & ~F.col("token").rlike(_LINE_BREAK))
    best = fresh.orderBy(F.desc("count"), "token").limit(vocabulary.capacity)
    both = best.unionByName(marked.where(F.col("known").isNotNull())).select("token", "count").toArrow()
    (total,) = counts.agg(F.sum("count")).collect()
    tokens = list(zip(both.column("token").to_pylist(), both.column("count").to_pylist(), strict=True))
    token_counts = TokenCounts(tokens, total[0] or 0, fresh.count())
    counts.unpersist()
    return token_counts


def _items(name: str, listed: bool) -> Column:
    return F.coalesce(F.col(name), F.array().cast("array<string>")) if listed else F.array(F.col(name))


def _numbers(rows: DataFrame, name: str, listed: bool) -> DataFrame:
    """Return the columns ``place`` and ``x`` of each finite number."""
    exploded = rows.select(F.posexplode(F.col(name) if listed else F.array(F.col(name))).alias("place", "x"))
    return exploded.where(F.abs("x") < F.lit(math.inf))  # NaN is greater than all numbers


def _moments(rows: DataFrame, name: str, feature: Feature, listed: bool) -> FittedMoments:
    numbers, places = _numbers(rows, name, listed), feature.shape[0] if feature.shape else 1
    # With `pad`, longer lists are truncated. Without it, the run rejects them.
    numbers = numbers.where(F.col("place") < places) if feature.shape else numbers.withColumn("place", F.lit(0))
    of_places = numbers.groupBy("place").agg(F.count("x"), F.avg("x"), F.stddev_pop("x"), F.min("x"), F.max("x"))
    moments = of_places.orderBy("place").collect()
    if len(moments) != places:
        raise InputError(f"features.{name}: there are no numbers on these days to fit it on; check its source.")
    _, count, mean, std, low, high = zip(*moments, strict=True)
    return FittedMoments(count, mean, std, low, high)


def _boundaries(rows: DataFrame, name: str, buckets: int, listed: bool) -> tuple[float, ...]:
    ranks = [i / buckets for i in range(1, buckets)]
    (quantiles,) = _numbers(rows, name, listed).agg(F.percentile_approx("x", ranks, ACCURACY)).collect()
    distinct = sorted(set(quantiles[0] or ()))
    if not distinct:
        raise InputError(f"features.{name}: there are no numbers on these days to fit it on; check its source.")
    return tuple(distinct)
