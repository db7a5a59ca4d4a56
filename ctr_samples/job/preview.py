"""Show a few samples of a day as a table, without writing anything."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ctr_samples.config import LoadedConfig
from ctr_samples.config.loading import loaded_of
from ctr_samples.job.fit import state_of_run
from ctr_samples.job.planning import planning, read_inputs
from ctr_samples.job.reporting import Reporter, Silent
from ctr_samples.periods import Period, period_of
from ctr_samples.samples.builder import ORIGIN, SampleBuilder
from ctr_samples.samples.features.contracts import contract_of
from ctr_samples.samples.features.row import SPLIT
from ctr_samples.samples.requests import RequestSizes


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
        samples = builder.build_few(limit)
        sizes = builder.request_sizes() if requests else None
        contract = contract_of(config, state)
        first = ["impression_id", SPLIT, *contract.names("label", "mask")]
        others = [feature.name for feature in contract.features if feature.name not in first]
        last = [F.col(ORIGIN).alias("origin")] if origin else []
        return samples.select(*first, *others, *last).withColumnRenamed(SPLIT, "split"), sizes
