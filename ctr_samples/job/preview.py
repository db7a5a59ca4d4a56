"""Show a few samples of a day as a table, without writing anything."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ctr_samples.config import JobConfig, LoadedConfig
from ctr_samples.config.loading import loaded_of
from ctr_samples.errors import InputError
from ctr_samples.job.fit import state_of_run
from ctr_samples.job.planning import planning, read_inputs
from ctr_samples.periods import Period, period_of
from ctr_samples.samples.builder import SampleBuilder
from ctr_samples.samples.features.complete import beside
from ctr_samples.samples.features.contracts import contract_of
from ctr_samples.samples.features.row import IMPRESSION, SPLIT, split_name
from ctr_samples.samples.impressions import time_not_read
from ctr_samples.samples.labels.plans import plan_labels
from ctr_samples.samples.requests import RequestSizes
from ctr_samples.samples.sampling import sampled
from ctr_samples.sparksql.columns import quoted, stable_hash
from ctr_samples.sparksql.observations import Reporter, Silent

ORIGIN = "_origin"
"""Column of :func:`few_samples` that holds the origin of the values."""
_SPARE = 20
"""Oversampling factor for the chosen impressions, used if later steps may drop some of them."""


def preview(
    spark: SparkSession,
    loaded: LoadedConfig | str | Path,
    run_date: Period | str,
    limit: int = 10,
    *,
    origin: bool = False,
    reporter: Reporter | None = None,
) -> DataFrame:
    """Return at most ``limit`` samples of a day, chosen by hash, equal to those of a run.

    The columns are the id, ``split``, labels and features. With ``origin``, the last column is a struct ``origin``. Its
    field ``impression`` has the time and the keys of the impression. Its field ``views``, if any, has for each view
    ``matched`` (whether a row matched) and ``age_s`` (age of the row at the impression in seconds, null without an
    event time).

    Runs on the driver, with a few small Spark jobs that read the logs, and writes nothing. The result is lazy.
    ``loaded`` is the path of a configuration, or the result of :func:`ctr_samples.config.load_config`; ``run_date`` is
    a ``datetime.date``, or text as for ``--date``. Raises the errors of :mod:`ctr_samples.errors`, like a run.
    """
    return previewed(spark, loaded, run_date, limit, origin=origin, reporter=reporter)[0]


def previewed(
    spark: SparkSession,
    loaded: LoadedConfig | str | Path,
    run_date: Period | str,
    limit: int,
    *,
    origin: bool = False,
    requests: bool = False,
    reporter: Reporter | None = None,
) -> tuple[DataFrame, RequestSizes | None]:
    """Return the result of :func:`preview` and, with ``requests``, the sizes of the requests of the day."""
    loaded, run_date = loaded_of(loaded), period_of(run_date)
    config, reporter = loaded.config, reporter or Silent()
    with planning(spark, loaded):
        loaded.refuse_secrets()
        reporter.stage("checking the inputs")
        inputs = read_inputs(spark, config, run_date, reporter, watched=False)
        state = state_of_run(config, run_date)
        reporter.stage("choosing impressions")
        builder = SampleBuilder(inputs, state)
        samples = few_samples(builder, limit)
        sizes = builder.request_sizes() if requests else None
        contract = contract_of(config, state)
        split = split_name(F.col(SPLIT)).alias("split")
        first = ["impression_id", *contract.names("label", "mask")]
        others = [feature.name for feature in contract.features if feature.name not in first]
        last = [F.col(ORIGIN).alias("origin")] if origin else []
        return samples.select(first[0], split, *first[1:], *others, *last), sizes


def few_samples(builder: SampleBuilder, limit: int) -> DataFrame:
    """Return at most ``limit`` samples, chosen by hash, with the columns and values of :meth:`SampleBuilder.build`.

    The last column, :data:`ORIGIN`, holds the time and keys of the impression and, for each view, whether a row matched and
    its age in seconds. Runs a few small jobs that read the logs. Raises InputError if the day has no readable impression.
    """
    config = builder.inputs.config
    samples = builder.build_of(_few_labelled(builder, limit).localCheckpoint())
    others = {beside(name) for name in (IMPRESSION, *config.views)}
    record = [name for name in samples.columns if name not in others]
    return samples.select(*map(quoted, record), _origin(config).alias(ORIGIN))


def _origin(config: JobConfig) -> Column:
    impression = F.col(quoted(beside(IMPRESSION)))
    own = [impression[name].alias(name) for name in ("impression_time", *config.impressions.entities)]
    views = [
        F.struct(*[F.col(quoted(beside(name)))[key].alias(key) for key in ("matched", "age_s")]).alias(name)
        for name in config.views
    ]
    joined = [F.struct(*views).alias("views")] if views else []
    return F.struct(F.struct(*own).alias(IMPRESSION), *joined)


def _few_labelled(builder: SampleBuilder, limit: int) -> DataFrame:
    """Return a few of the day's labelled impressions that sampling keeps.

    The attribution of an action may depend on every impression with the same key. So this labels all impressions that share
    a matching key with the chosen impressions. It labels the whole day if no key is common to all matches, if
    ``skip_above`` is set, or if the beginnings of requests decide the split.
    """
    inputs, config, span = builder.inputs, builder.inputs.config, builder.inputs.span
    # Sampling or `skip_above` may drop some of the chosen impressions once their labels are known.
    spare = 1 if config.impressions.skip_above is None and config.sampling is None else _SPARE
    by_chance = stable_hash("preview", [F.col("impression_id")])
    kept = builder.impressions().where(span.contains(F.col("impression_time")))
    caps = config.sampling is not None and config.sampling.cap is not None
    whole = config.impressions.skip_above is not None or config.split.needs_beginnings or caps
    key = None if whole else _key_of_all(config)
    value = F.lit(None) if key is None else F.col(key)
    chosen = kept.select("impression_id", value.cast("string")).orderBy(by_chance).limit(limit * spare).collect()
    if not chosen:
        shown = config.impressions
        why = time_not_read(inputs.uncounted(shown.source), "impressions", shown.where, "time", shown.time)
        raise InputError(
            f"sources.{shown.source} has no impression on the day that can be read; check the date, the time zone "
            f"({config.timezone}) and `impressions`.{why}"
        )
    ids, values = ([row[column] for row in chosen] for column in (0, 1))
    labelled = builder.labelled_impressions(None if key is None else (key, set(values)))
    kept = sampled(config, span, labelled)
    return kept.where(F.col(f"{IMPRESSION}.impression_id").isin(ids)).limit(limit)


def _key_of_all(config: JobConfig) -> str | None:
    """Return a key that every key set of the labels contains, or None if no key is common to all."""
    sets = [set(names) for plan in plan_labels(config) for names in plan.tried]
    return min(set.intersection(*sets), default=None) if sets else None
