"""Take features from the day's current generation that are made from the same as now, and make only the others."""

from __future__ import annotations

from ctr_samples import __version__
from ctr_samples.errors import DamagedFile
from ctr_samples.job.maturing import EarlierRun
from ctr_samples.job.origins import Origins, config_as_written, differences
from ctr_samples.job.planning import Prepared
from ctr_samples.samples.features.chosen import only_features
from ctr_samples.shards import DayOutput, FeaturesFrom, check_shards


def kept_features(prepared: Prepared, output: DayOutput) -> tuple[EarlierRun, FeaturesFrom] | None:
    """Return the current generation with the features that a full run would make again, and the entry for the manifest.

    Returns None if there are none: without a generation, if it has other samples, or if the inputs of all features changed.
    """
    current, config = output.current, prepared.inputs.config
    if current is None or current.forgotten or config.output.layout != "columns":
        return None
    now, before = origins_of(prepared), Origins.of_manifest(current)
    known_by = prepared.inputs.span.known_by
    if now is None or before is None or current.known_by != (known_by and known_by.isoformat()):
        return None
    if differences(now.rows, before.rows):
        return None
    by_label = config.sampling is not None or config.impressions.skip_above is not None
    if by_label and current.label_mature != prepared.label_mature:
        return None
    kept = [name for name, origin in now.features.items() if before.features.get(name) == origin]
    if not kept:
        return None
    try:
        check_shards(output.storage, current.shards, "so its features are gone")
    except DamagedFile:
        return None
    others = only_features(config, [name for name in config.features if name not in kept])
    earlier = EarlierRun(current, output.storage, {}, tuple(kept), frozenset(others.views))
    return earlier, FeaturesFrom(current.generation, features=tuple(kept))


def origins_of(prepared: Prepared) -> Origins | None:
    """Return what a run makes its samples from, or None if changes of an input cannot be told."""
    inputs, contract = prepared.inputs, prepared.contract
    if not prepared.fingerprint:
        return None
    fitted = contract.state and contract.state["fingerprint"]
    files = {name: source.snapshot["fingerprint"] for name, source in inputs.sources.items()}
    return Origins.of(config_as_written(prepared.loaded.document), files, fitted, __version__)
