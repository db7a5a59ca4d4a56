"""Finds the impressions of users in the logs, to forget samples that do not say whose they are. Needs Spark."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ctr_samples.config import LoadedConfig
from ctr_samples.errors import InputError, UsageError
from ctr_samples.job.forget import id_columns, ids_made_of
from ctr_samples.job.planning import planning
from ctr_samples.job.reporting import Reporter, Silent
from ctr_samples.periods import Period, check_period
from ctr_samples.samples.impressions import cut_impressions
from ctr_samples.samples.inputs.sources import read_source
from ctr_samples.samples.inputs.watched import exploded
from ctr_samples.samples.period import Span
from ctr_samples.shards import Manifest
from ctr_samples.sparksql.session import run_session

Ids = Mapping[str, Sequence[int]]
"""Impression ids of a day, by the value of the key."""


def check_key(loaded: LoadedConfig, key: str, manifests: Iterable[Manifest]) -> None:
    """Raise UsageError unless ``key`` tells whose an impression is, and the samples' ids are made as configured."""
    shown = loaded.config.impressions
    keys = [name for name in shown.keys_and_request if name != shown.shown_key]
    if key not in keys:
        raise UsageError(
            f"`--key` is {key!r}, but with `--config` it is a key of impressions that says whose they are: "
            f"{', '.join(keys) or 'there is none'}. Without `--config` it is a column of the samples."
        )
    for manifest in manifests:
        which = f"Generation {manifest.generation} of {manifest.run_date}"
        if manifest.name != loaded.config.name:
            raise UsageError(
                f"{which} is of {manifest.name!r}, but {loaded.path} makes {loaded.config.name!r}; give its own configuration."
            )
        if not id_columns(manifest):
            raise UsageError(f"{which} has no impression ids, as `layout: legacy_121` has none; make the day again.")
        now, then = ids_made_of(manifest, loaded), ids_made_of(manifest)
        if others := [name for name in now if now[name] != then[name]]:
            raise UsageError(
                f"{which} has other impression ids than {loaded.path} makes, whose {' and '.join(others)} differ; give the "
                "configuration that it was made with."
            )


def impressions_of(
    spark: SparkSession,
    loaded: LoadedConfig,
    days: Iterable[Period],
    key: str,
    values: Sequence[str],
    reporter: Reporter | None = None,
) -> dict[Period, Ids]:
    """Find the impressions whose ``key`` is one of ``values``, by day, including those that are no samples.

    Runs a Spark job for each day, which reads only the log of impressions. Raises InputError if a day's log is gone.
    """
    config, reporter = loaded.config, reporter or Silent()
    shown = config.impressions
    source = config.sources[shown.source]
    found: dict[Period, Ids] = {}
    with planning(spark, loaded):
        session = run_session(spark, config.timezone)
        sought = F.broadcast(session.createDataFrame([(value,) for value in values], "_value string"))
        for day in days:
            reporter.stage(f"finding impressions of {day}")
            check_period(day, config.grain, config.timezone)
            span = Span.of(day, config.timezone)
            try:
                log = read_source(session, shown.source, source, day).frame
            except InputError as error:
                raise InputError(f"The users' impressions of {day} cannot be found. {error}") from None
            lines = exploded(log, source.explode, f"sources.{shown.source}.explode") if source.explode else log
            impressions = cut_impressions(lines, shown, span).where(
                F.col("impression_time").isNotNull() & span.contains(F.col("impression_time"))
            )
            theirs = impressions.join(sought, F.col(key).cast("string") == F.col("_value"), "inner")
            rows = theirs.select("_value", "impression_id").distinct().toArrow().to_pylist()
            ids: dict[str, list[int]] = defaultdict(list)
            for row in rows:
                ids[row["_value"]].append(row["impression_id"])
            found[day] = ids
    return found
