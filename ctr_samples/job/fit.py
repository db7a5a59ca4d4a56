"""Fits the next version of a sample set's fitted state on its training days."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

from pyspark.sql import SparkSession

from ctr_samples.config import JobConfig, LoadedConfig
from ctr_samples.errors import ConfigError, UsageError
from ctr_samples.periods import Period, calendar_day
from ctr_samples.samples.inputs.databases import errors_of_sources
from ctr_samples.samples.training_rows import Counted, count_days, days_through
from ctr_samples.shards import open_storage
from ctr_samples.shards.generations import following
from ctr_samples.shards.naming import run_id
from ctr_samples.shards.states import VERSIONS, latest_state, publish_state, require_state
from ctr_samples.sparksql.observations import Reporter, Silent
from ctr_samples.sparksql.session import make_active, run_session
from ctr_samples.vocabulary import FittedState, FittedVocabulary, Growth, grown_by

_AFTER_FITTING = ("default", "nulls", "computed", "dtype", "fill", "pad")
"""Feature keys that do not affect the fitted values."""


def fit(
    spark: SparkSession,
    loaded: LoadedConfig,
    through: date,
    *,
    days: int | None = None,
    afresh: bool = False,
    reporter: Reporter | None = None,
) -> FittedState:
    """Fit the state of the configured features on the training rows of some days, and publish the next version.

    Runs on the driver. Existing fitted values do not change: vocabularies grow, moments and quantiles stay. ``afresh``
    starts a new lineage instead, whose samples cannot be mixed with older samples. Raises the errors of
    :mod:`ctr_samples.errors`; then nothing was published (but see PublishUnknown).
    """
    config = loaded.config
    if config.fitted is None:
        raise UsageError(f"{loaded.path} has no section `fitted`, so there is nothing to fit.")
    storage = open_storage(config.fitted.path)
    before = latest_state(storage)
    version = following(before.version, storage.locate(VERSIONS)) if before else 1
    if before is not None and not afresh:
        check_state(config, before, may_lack=True)
        if through <= before.through:
            raise UsageError(
                f"{storage.url} already has version {before.version}, fitted through {before.through}, so the next one must "
                f"end later than {through}. Give a later `--through`, or begin a new lineage with `--afresh`."
            )
    grows = before if not afresh else None
    chosen = days_through(through, days or config.fitted.days)
    try:
        with loaded.masked_errors(), errors_of_sources(config.sources):
            counted = count_days(
                run_session(spark, config.timezone), config, chosen, grows, (reporter or Silent()).warn
            )
    finally:
        make_active(spark)
    vocabularies, growth = _grown(config, grows, counted)
    state = FittedState(
        name=config.name,
        lineage=grows.lineage if grows else secrets.token_hex(8),
        version=version,
        run_id=run_id(datetime.now(UTC), secrets.token_hex(4)),
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        days=tuple(day.isoformat() for day in chosen),
        declared=_merged(grows.declared if grows else {}, declared(config)),
        vocabularies=vocabularies,
        moments={**(grows.moments if grows else {}), **counted.moments},
        boundaries={**(grows.boundaries if grows else {}), **counted.boundaries},
        growth=growth,
    )
    publish_state(storage, state)
    return state


def state_of_run(config: JobConfig, period: Period) -> FittedState | None:
    """Return the fitted state for a day's samples, or None if nothing is fitted.

    Raises InputError if no state predates the day, and ConfigError if it does not fit the configuration.
    """
    day = calendar_day(period)
    if config.fitted is None or day is None:
        return None
    state = require_state(open_storage(config.fitted.path), day)
    check_state(config, state)
    return state


def check_state(config: JobConfig, state: FittedState, *, may_lack: bool = False) -> None:
    """Reject a state that was fitted for a different configuration, because its ids would have different meanings.

    With ``may_lack``, accepts a state that lacks a new feature; the next version then adds it.
    """
    if state.name != config.name:
        raise UsageError(
            f"`fitted.path` holds the fitted state of {state.name!r}, but this configuration is {config.name!r}; give each "
            "sample set its own path."
        )
    wanted = declared(config)
    for kind, parts in wanted.items():
        for name, keys in parts.items():
            fitted = state.declared.get(kind, {}).get(name)
            if fitted != keys and not (fitted is None and may_lack):
                difference = "does not have it" if fitted is None else f"was fitted with {_in_words(fitted)}"
                raise ConfigError(
                    f"{kind}.{name}: the configuration says {_in_words(keys)}, but version {state.version} of the fitted "
                    f"state {difference}. {'Run `ctr-samples fit`' if fitted is None else 'Restore the configuration'}, or "
                    "begin a new lineage with `ctr-samples fit --afresh`."
                )


def declared(config: JobConfig) -> dict[str, Any]:
    """Return the settings that must not change within a lineage: inputs of each id and moment, and the ids before the
    tokens.
    """
    vocabularies = {
        name: {"oov_buckets": v.oov_buckets, "capacity": v.capacity} for name, v in config.vocabularies.items()
    }
    features = {}
    for name, feature in config.features.items():
        if feature.scale or feature.quantiles:
            keys = feature.model_dump(mode="json", by_alias=True, exclude_defaults=True)
            features[name] = {key: value for key, value in keys.items() if key not in _AFTER_FITTING}
    return {"vocabularies": vocabularies, "features": features}


def _grown(
    config: JobConfig, before: FittedState | None, counted: Counted
) -> tuple[dict[str, FittedVocabulary], dict[str, Growth]]:
    # A vocabulary that is no longer configured keeps its ids, in case it is configured again.
    vocabularies = dict(before.vocabularies) if before else {}
    growth = {}
    for name, vocabulary in config.vocabularies.items():
        known = before.vocabularies.get(name) if before else None
        empty = FittedVocabulary((), vocabulary.oov_buckets, vocabulary.capacity)
        vocabularies[name], growth[name] = grown_by(known, empty, counted.tokens[name])
    return vocabularies, growth


def _merged(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    return {kind: {**before.get(kind, {}), **parts} for kind, parts in now.items()}


def _in_words(keys: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}: {value}" for key, value in keys.items())
