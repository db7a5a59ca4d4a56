"""What has changed since a day was published, so that a run would publish another generation of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from pyspark.sql import SparkSession

from ctr_samples import __version__
from ctr_samples.config import LoadedConfig
from ctr_samples.config.document import of_the_bytes
from ctr_samples.errors import InputError
from ctr_samples.job.looking_back import LookBack
from ctr_samples.job.planning import Prepared, planning
from ctr_samples.job.reporting import Silent
from ctr_samples.shards import Manifest


def why_stale(spark: SparkSession, loaded: LoadedConfig, manifest: Manifest) -> tuple[str, ...]:
    """What changed since a day was published, in words; nothing if a run would find it unchanged.

    Runs on the driver: lists the inputs of the day and compares names, sizes and times. Raises the errors of the configuration.
    """
    with planning(spark, loaded):
        try:
            known_by = None if manifest.known_by is None else datetime.fromisoformat(manifest.known_by)
            now = Prepared.of(spark, loaded, manifest.day, Silent(), LookBack(known_by))
        except InputError as error:
            return (f"a run would be refused: {error}",)
    if not now.fingerprint:
        return ("it reads tables, whose changes cannot be told",)
    if now.fingerprint == manifest.fingerprint:
        return ()
    return tuple(_changes(now, manifest)) or ("the configuration changed",)


def _changes(now: Prepared, manifest: Manifest) -> Iterator[str]:
    """What can be told apart; a value that came from the environment is in no manifest."""
    for name, source in now.inputs.sources.items():
        if source.snapshot["fingerprint"] != manifest.inputs.get(name, {}).get("fingerprint"):
            yield f"the input {name} changed"
    if of_the_bytes(now.loaded.document) != of_the_bytes(manifest.config):
        yield "the configuration changed"
    if _fitted(now.contract.to_dict()) != _fitted(manifest.contract):
        yield "the fitted state changed"
    if manifest.versions.get("ctr_samples") != __version__:
        yield "the release changed"
    if now.label_mature and not manifest.label_mature:
        yield "the labels are final now"


def _fitted(contract: Mapping[str, Any]) -> object:
    return (contract.get("state") or {}).get("fingerprint")
