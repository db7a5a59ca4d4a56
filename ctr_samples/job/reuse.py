"""Decide what a run takes from the day's current generation, since it is made from the same, and what it makes.

The shards of that generation hold its features, so nothing else is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from ctr_samples import __version__
from ctr_samples.config import JobConfig
from ctr_samples.errors import DamagedFile, StorageError, UnusableFeatures
from ctr_samples.job.arrivals import Arrivals
from ctr_samples.job.gate import read_metrics
from ctr_samples.job.kinds import JoinEverything, Kind, TakeFeatures, TakeFewerSamples, TakeSamples
from ctr_samples.job.origins import Origins, changed_features, changed_values, differences, tied_in
from ctr_samples.job.planning import Prepared, labels_are_mature
from ctr_samples.quality.metrics import Metrics
from ctr_samples.shards import DayOutput, FeaturesFrom, Manifest, Storage, check_shards, latest_manifest, open_storage


def kind_of_run(prepared: Prepared, output: DayOutput, why_joined: str = "") -> Kind:
    """Return the kind of a run: what it takes from the current generation or, without one, from that of ``from_samples``.

    ``why_joined`` is a reason to make everything anew, or empty. May run a Spark job over days that were added to the sources
    since then.
    """
    storage, current, path = output.storage, output.current, ""
    if current is None and (other := prepared.inputs.config.from_samples) is not None:
        storage, path = open_storage(other), other
        current = latest_manifest(storage, output.day)
    if current is None:
        return JoinEverything()
    try:
        if why_joined:
            raise UnusableFeatures(why_joined)
        return _usable(prepared, storage, current, path)
    except UnusableFeatures as error:
        return JoinEverything(FeaturesFrom(current.generation, str(error), path=path))


def _usable(prepared: Prepared, storage: Storage, current: Manifest, path: str) -> Kind:
    """Return what a full run would make again. Raises UnusableFeatures, with the reason, if that is nothing."""
    config = prepared.inputs.config
    before = _before(prepared, current)
    now, arrivals = _now(prepared, current)
    few = _leaves_out_more(prepared, current, now, before, arrivals)
    try:
        check_shards(storage, current.shards, "so its features are gone")
    except DamagedFile as error:
        raise UnusableFeatures(str(error).rstrip(".")) from None
    changed_now, renamed = changed_features(now, before)
    names = {name: renamed.get(name, name) for name in now.features if name not in changed_now}
    same = list(now.features.items()) == list(before.features.items())
    if not names or not (same or config.output.layout == "columns"):
        raise UnusableFeatures(arrivals.reasons[0] if arrivals.reasons else "all of its features changed")
    views = frozenset(config.only(changed_now).views)
    metrics = None if few else _metrics(storage, current, names)
    taken = None if same else names
    of_labels = now.labels == before.labels and not (prepared.label_mature and _were_open(prepared, current))
    kind: type[TakeFeatures] = TakeFeatures
    if not changed_now and of_labels and few and _tells_all(config):
        kind = TakeFewerSamples
    elif not (changed_now or few or path) and of_labels and now.measures == before.measures and metrics is not None:
        # What is measured of users depends on the set, and masks that say what is final on the clock.
        masked = any("final" in label.masks for label in config.labels.values())
        kind = TakeSamples if current.label_mature or not masked else TakeFeatures
    return kind(current, storage, arrivals.clocks, taken, changed_now, views, metrics, few, path)


def _leaves_out_more(prepared: Prepared, current: Manifest, now: Origins, before: Origins, arrivals: Arrivals) -> bool:
    """Whether the run makes only some of the samples of the generation. Raises UnusableFeatures unless it makes the same ones
    or fewer.
    """
    changed = differences(now.rows, before.rows)
    of_rules = {name for name in changed if name.startswith("impressions.columns.")}
    if before.rows["sampling"] is None and {*changed} - of_rules <= {"sampling", "labels"} and "sampling" in changed:
        return True
    if not changed:
        return False
    if changed == ["labels"]:
        raise UnusableFeatures(prepared.inputs.config.joins_anew or "other labels leave out other impressions")
    others = changed_values(current, prepared.loaded.values)
    of_values = f", with the value of {' and '.join(f'${{{name}}}' for name in others)}" if others else ""
    raise UnusableFeatures(arrivals.reasons[0] if arrivals.reasons else f"{_listed(changed)} changed{of_values}")


def _tells_all(config: JobConfig) -> bool:
    """Whether the records of a generation without sampling tell which samples stay, and all that is counted of these."""
    counted = any(label.masks or label.after for label in config.labels.values())
    sampling = config.sampling
    by_id = sampling is not None and not sampling.has_rules and sampling.by == "impression"
    return by_id and not counted and not config.output.by_request


def _before(prepared: Prepared, current: Manifest) -> Origins:
    if current.forgotten:
        raise UnusableFeatures("users were forgotten in it")
    if prepared.inputs.config.output.layout == "legacy_121":
        raise UnusableFeatures(prepared.inputs.config.joins_anew or "")
    known_by = prepared.inputs.span.known_by
    if current.known_by != (known_by and known_by.astimezone(UTC).isoformat()):
        raise UnusableFeatures("it has what was known at another time")
    before = Origins.of_manifest(current, prepared.loaded.values)
    if before is None or not prepared.fingerprint:
        raise UnusableFeatures(
            "a source is a table that cannot be compared, or its configuration is one of another release or environment"
        )
    return before


def _now(prepared: Prepared, current: Manifest) -> tuple[Origins, Arrivals]:
    """Return what the run makes its samples from, given what has arrived since the generation."""
    inputs, contract = prepared.inputs, prepared.contract
    arrivals = Arrivals.since(inputs, current)
    fitted = contract.state and contract.state["fingerprint"]
    origins = Origins.of(inputs.config, arrivals.files, fitted, __version__, inputs.fingerprints, tied_in(current))
    return origins, arrivals


def _were_open(prepared: Prepared, current: Manifest) -> bool:
    """Whether label windows were open when the generation was made. Labels may also not be final because a log was cut."""
    began = datetime.fromisoformat(current.created_at) - timedelta(seconds=current.seconds)
    return not labels_are_mature(prepared.inputs, current.day, began)


def _listed(names: Sequence[str]) -> str:
    return " and ".join(f"`{name}`" for name in names)


def _metrics(storage: Storage, current: Manifest, names: Mapping[str, str]) -> Metrics | None:
    """Return the metrics of a generation with only the features that are taken, or None if they are gone."""
    try:
        metrics = read_metrics(storage, current)
    except (FileNotFoundError, StorageError, DamagedFile):
        return None
    features = {now: metrics.features[then] for now, then in names.items() if then in metrics.features}
    return replace(metrics, features=features)
