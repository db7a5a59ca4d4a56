"""Take from the day's current generation what is made from the same as now, and make only the rest.

The shards of that generation hold its features, so nothing else is kept. The shards of the run are those of a run that
makes everything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from ctr_samples import __version__
from ctr_samples.config import JobConfig
from ctr_samples.contract import ExampleContract
from ctr_samples.errors import DamagedFile, StorageError, UnusableFeatures
from ctr_samples.job.arrivals import Arrivals
from ctr_samples.job.gate import read_metrics
from ctr_samples.job.origins import Origins, changed_features, changed_values, differences, tied_in
from ctr_samples.job.planning import Prepared, labels_are_mature
from ctr_samples.quality.metrics import Metrics
from ctr_samples.samples.builder import SampleBuilder, SamplePlan
from ctr_samples.samples.earlier import EarlierFeatures
from ctr_samples.samples.features.chosen import only_features
from ctr_samples.samples.sampling import DOWN_SAMPLED
from ctr_samples.samples.watches.times import ClocksByDay, counts_of_view
from ctr_samples.shards import DayOutput, FeaturesFrom, Manifest, Storage, check_shards, latest_manifest, open_storage


@dataclass(frozen=True, slots=True)
class Earlier:
    """The current generation of a day, and what a run takes from it.

    ``names`` has the features that are taken, with the names they had then; None stands for all, in any layout.
    ``changed`` are the features that are made, with what of them changed, and ``joined`` the views that they need.
    ``whole`` says that the labels are taken, too. ``clocks`` counts the rows that have arrived for its views since then.
    """

    manifest: Manifest
    storage: Storage
    clocks: ClocksByDay
    names: Mapping[str, str] | None
    changed: Mapping[str, Sequence[str]]
    joined: frozenset[str]
    metrics: Metrics | None
    whole: bool
    few: bool = False
    """Whether the run leaves out negatives that the generation has."""
    path: str = ""
    """Directory of another sample set that has the generation, or empty."""

    @property
    def others(self) -> tuple[str, ...]:
        """The features that are made."""
        return tuple(self.changed)

    def samples(self, builder: SampleBuilder) -> SamplePlan:
        """Plan the samples with what is taken."""
        contract = ExampleContract.from_dict(dict(self.manifest.contract))
        features = EarlierFeatures(self.storage, self.manifest.shards, contract, self.names, self.few)
        return builder.build_again(features) if self.whole else builder.build_beside(features, self.others)

    @property
    def described(self) -> FeaturesFrom:
        """The entry for the manifest."""
        taken = () if self.names is None else tuple(self.names)
        features = taken if self.others else ()
        return FeaturesFrom(self.manifest.generation, features=features, labels=self.whole, path=self.path)

    def completed(self, manifest: Manifest) -> Manifest:
        """Complete the run's manifest with counts that require joins, and with line counts of unread sources."""
        before = {name: {**facts, **self._rows_of(name, facts)} for name, facts in self.manifest.views.items()}
        views = {
            name: manifest.views[name] if name in self.joined else before[name]
            for name in manifest.config.get("views") or {}
            # Of fewer samples, nobody counted what matches.
            if name in self.joined or (name in before and not self.few)
        }
        inputs = {name: {**facts, **self._lines_of(name, facts)} for name, facts in manifest.inputs.items()}
        manifest = replace(manifest, views=views, inputs=inputs)
        return self._with_counts(manifest) if self.whole else manifest

    def _with_counts(self, manifest: Manifest) -> Manifest:
        """Copy the counts of the impressions and of the actions, of which the run read none. Raises UnusableFeatures if
        samples were lost.
        """
        dropped = manifest.accounting.get(DOWN_SAMPLED, 0)
        if manifest.records + dropped != self.manifest.records:
            raise UnusableFeatures(f"{manifest.records:,} of its {self.manifest.records - dropped:,} samples were read")
        left_out = {DOWN_SAMPLED: dropped} if self.few else {}
        own = {name: {"flips": facts["flips"]} if "flips" in facts else {} for name, facts in manifest.labels.items()}
        then = {name: {k: v for k, v in facts.items() if k != "flips"} for name, facts in self.manifest.labels.items()}
        return replace(
            manifest,
            accounting={**self.manifest.accounting, "samples": manifest.records, **left_out},
            labels={name: {**then[name], **flips} for name, flips in own.items()},
            order=self.manifest.order,
            tied_repeats=self.manifest.tied_repeats,
            sampling=manifest.sampling if self.few else self.manifest.sampling,
            label_mature=self.manifest.label_mature,
        )

    def _rows_of(self, view: str, facts: Mapping[str, float]) -> dict[str, float]:
        """Count the bad rows of a view, including rows that have arrived since then."""
        return {key: facts.get(key, 0) + count for key, count in counts_of_view(self.clocks, view).items()}

    def _lines_of(self, name: str, facts: Mapping[str, Any]) -> dict[str, Any]:
        before = self.manifest.inputs.get(name, {})
        same = before.get("fingerprint") == facts["fingerprint"]
        counted = ("lines", "malformed", "repeated", "other_days", "reads_too_few", "without_rows", "gaps")
        return {key: before[key] for key in counted if same and key in before}


def earlier_of(
    prepared: Prepared, output: DayOutput, why_joined: str = ""
) -> tuple[Earlier | None, FeaturesFrom | None]:
    """Return what the run takes from the current generation or, without one, from that of ``from_samples``, and the manifest
    entry that records the decision.

    ``why_joined`` is a reason to make everything anew, or empty. Both results are None without a generation. May run a
    Spark job over days that were added to the sources since then.
    """
    storage, current, path = output.storage, output.current, ""
    if current is None and (other := prepared.inputs.config.from_samples) is not None:
        storage, path = open_storage(other), other
        current = latest_manifest(storage, output.day)
    if current is None:
        return None, None
    try:
        if why_joined:
            raise UnusableFeatures(why_joined)
        earlier = replace(_usable(prepared, storage, current), path=path)
    except UnusableFeatures as error:
        return None, FeaturesFrom(current.generation, str(error), path=path)
    if path and not earlier.few:  # what is measured of users depends on the set
        earlier = replace(earlier, whole=False)
    return earlier, earlier.described


def _usable(prepared: Prepared, storage: Storage, current: Manifest) -> Earlier:
    """Return what a full run would make again. Raises UnusableFeatures, with the reason, if that is nothing."""
    config = prepared.inputs.config
    before = _before(prepared, current)
    now, arrivals = _now(prepared, current)
    changed = differences(now.rows, before.rows)
    of_rules = {name for name in changed if name.startswith("impressions.columns.")}
    few = before.rows["sampling"] is None and {*changed} - of_rules <= {"sampling", "labels"} and "sampling" in changed
    if changed and not few:
        if changed == ["labels"]:
            raise UnusableFeatures(config.joins_anew or "other labels leave out other impressions")
        others = changed_values(current, prepared.loaded.values)
        of_values = f", with the value of {' and '.join(f'${{{name}}}' for name in others)}" if others else ""
        raise UnusableFeatures(arrivals.reasons[0] if arrivals.reasons else f"{_listed(changed)} changed{of_values}")
    try:
        check_shards(storage, current.shards, "so its features are gone")
    except DamagedFile as error:
        raise UnusableFeatures(str(error).rstrip(".")) from None
    changed_now, renamed = changed_features(now, before)
    names = {name: renamed.get(name, name) for name in now.features if name not in changed_now}
    same = list(now.features.items()) == list(before.features.items())
    if not names or not (same or config.output.layout == "columns"):
        raise UnusableFeatures(arrivals.reasons[0] if arrivals.reasons else "all of its features changed")
    joined = frozenset(only_features(config, changed_now).views)
    metrics = None if few else _metrics(storage, current, names)
    whole = (
        not changed_now
        and now.labels == before.labels
        and not (prepared.label_mature and _were_open(prepared, current))
    )
    if few:
        whole = whole and _tells_all(config)
    else:
        whole = whole and now.measures == before.measures and metrics is not None
        whole = whole and (current.label_mature or not any("final" in label.masks for label in config.labels.values()))
    return Earlier(current, storage, arrivals.clocks, None if same else names, changed_now, joined, metrics, whole, few)


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
