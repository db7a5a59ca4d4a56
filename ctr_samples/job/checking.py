"""Find all problems of a configuration and its inputs in one pass, based on the schemas alone.

Planning a run stops at the first error. So this module replaces the faulty part with a valid part and repeats planning
until it succeeds. It needs no second set of rules for validity.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql import SparkSession

from ctr_samples.config import CatalogSource, DatabaseSource, JobConfig, LoadedConfig, Source
from ctr_samples.config.document import filled
from ctr_samples.day_paths import DayPath
from ctr_samples.errors import CtrSamplesError
from ctr_samples.graph import Graph
from ctr_samples.job.planning import planning
from ctr_samples.periods import WHOLE, Period, calendar_day
from ctr_samples.samples.builder import SampleBuilder
from ctr_samples.samples.inputs.listing import SourceFrame, days_there
from ctr_samples.samples.inputs.log_days import rows_of_days
from ctr_samples.samples.inputs.sources import read_source
from ctr_samples.samples.inputs.watched import Inputs
from ctr_samples.samples.period import Span
from ctr_samples.samples.watches.all import Watches
from ctr_samples.sparksql.session import run_session

_MOST = 100
_NOTHING = {"expr": "0", "dtype": "int64"}
_TIME, _KEY, _CONDITION, _NUMBER = "timestamp'2020-01-01 00:00:00'", "'x'", "true", "0"
_STAND_INS = {
    **dict.fromkeys(("time", "event_time", "available_time", "valid_to", "closed_available"), _TIME),
    **dict.fromkeys(("key", "article_key", "keys", "user", "article", "request", "item"), _KEY),
    **dict.fromkeys(("where", "counts", "tombstone"), _CONDITION),
    **dict.fromkeys(("value", "sums", "distinct", "sequence", "position", "expr"), _NUMBER),
    "snapshot": "date'2020-01-01'",
    "columns": "cast(null as string)",
    "explode": "array('')",
}
"""Valid replacement for each key, or for the names below it."""


def problems(spark: SparkSession, loaded: LoadedConfig, period: Period | None = None) -> list[str]:
    """Return all problems, each with its file and line, in file order.

    Runs on the driver. Lists files and reads first lines and footers but no rows. Without a date, uses the last
    existing day of each source.
    """
    with planning(spark, loaded):
        session = run_session(spark, loaded.config.timezone)
        sources: dict[str, SourceFrame] = {}
        found = []
        for name, source in loaded.config.sources.items():
            try:
                sources[name] = _empty(session, name, source, period)
            except CtrSamplesError as error:
                found.append(_placed(loaded, str(error)))
        if len(sources) < len(loaded.config.sources):
            return found
        span = Span.of(period or WHOLE, loaded.config.timezone)
        return sorted((_placed(loaded, error) for error in _errors(loaded, span, sources)), key=_line)


def _line(problem: str) -> int:
    match = re.search(r":(\d+): ", problem)
    return int(match[1]) if match else 0


def _placed(loaded: LoadedConfig, error: str) -> str:
    where, _, what = error.partition(": ")
    path = tuple(where.split(" ")[0].split("."))
    return loaded.masked(loaded.place_of(path) + (what if what and " " not in where else error))


def _empty(spark: SparkSession, name: str, source: Source, period: Period | None) -> SourceFrame:
    """Return a source with its columns but no rows."""
    period = period or WHOLE
    if isinstance(source, CatalogSource | DatabaseSource):
        read = read_source(spark, name, source.model_copy(update={"date_column": None}), period)
        if source.date_column:
            rows_of_days(f"sources.{name}.date_column", source.place, read.frame, source.date_column)
    else:
        path = source.days.glob("hour")
        if source.is_dated and calendar_day(period) is None:
            days = days_there(spark, f"sources.{name}", DayPath(path))
            period = days[-1] if days else period
        alone = {"days_before": 0, "days_after": 0, "path": path}
        read = read_source(spark, name, source.model_copy(update=alone), period)
    return SourceFrame(name, spark.createDataFrame([], read.frame.schema), (), ())


def _errors(loaded: LoadedConfig, span: Span, sources: Mapping[str, SourceFrame]) -> Iterator[str]:
    """Yield the errors of the plan one by one, removing each error before searching for the next."""
    document = _without_fitted(filled(loaded.document, lambda name, _: loaded.values[name]))
    seen: set[str] = set()
    for _ in range(_MOST):
        config = JobConfig.model_validate(document)
        inputs = Inputs(config, span, sources, Watches.of(config, span, active=False))
        try:
            SampleBuilder(inputs).check()
            return
        except CtrSamplesError as error:
            text = _of_feature(str(error), document)
        if text in seen:
            return
        seen.add(text)
        yield text
        if not _stand_in(document, text.partition(": ")[0].split(" ")[0].split(".")):
            return


def _without_fitted(document: dict[str, Any]) -> dict[str, Any]:
    """Remove fitted parts. They do not affect types, and need not exist yet."""
    for feature in document["features"].values():
        feature.pop("scale", None)
        if feature.get("computed") == "model":
            continue
        if feature.pop("vocabulary", None):
            feature["hash_buckets"] = 2
        if feature.pop("quantiles", None):
            feature["boundaries"] = [0]
    document.pop("vocabularies", None)
    document.pop("fitted", None)
    return document


def _of_feature(error: str, document: Mapping[str, Any]) -> str:
    """Turn a view's missing-column error into an error about the first feature that uses the column."""
    match = re.match(r"views\.(\w+): .*?'(\w+)'", error)
    if match is None:
        return error
    reading = Graph.of(document).features(f"views.{match[1]}", match[2])
    if not reading:
        return error
    feature = document["features"][reading[0]]
    key = next(key for key in ("from", "expr", "at") if feature.get(key))
    return f"features.{reading[0]}.{key}: {error.partition(': ')[2]}"


def _stand_in(document: dict[str, Any], where: list[str]) -> bool:
    """Replace the faulty part with a valid part. Returns False if no replacement is known."""
    if where[0] == "features" and len(where) > 1:
        _drop_features(document, {where[1]})
        return True
    keys = [key for key in where[1 if where[0] == "impressions" else 2 :] if key in _STAND_INS]
    node: Any = document
    for part in where[:-1]:
        node = node.get(part) if isinstance(node, dict) else None
    if not keys or not isinstance(node, dict) or where[-1] not in node:
        return False
    value = _STAND_INS[keys[-1]]
    node[where[-1]] = [value] * len(node[where[-1]]) if isinstance(node[where[-1]], list) else value
    graph = Graph.of(document)
    if where[0] == "histories":
        _drop_features(document, set(graph.features(f"histories.{where[1]}")))
    elif where[0] == "impressions":
        _drop_features(document, set(graph.features("impressions", where[-1])))
    return True


def _drop_features(document: dict[str, Any], names: set[str]) -> None:
    """Replace faulty features, and crosses of them, with a valid feature."""
    for name, feature in document["features"].items():
        if name in names or names & set(feature.get("cross", ())):
            document["features"][name] = dict(_NOTHING)
