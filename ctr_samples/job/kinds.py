"""The kinds of runs: join everything, take features from a generation, take its samples, or take fewer of them.

Each plans its samples, accounts for them, and completes its metrics and its manifest. Which one a run is, reuse.py decides.
The shards of each are those of a run that joins everything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ctr_samples.config import JobConfig
from ctr_samples.contract import ExampleContract
from ctr_samples.errors import UnusableFeatures
from ctr_samples.job.accounting import Accounting, account, balanced
from ctr_samples.periods import Period
from ctr_samples.quality.measure.collecting import Wanted
from ctr_samples.quality.metrics import Measured, Metrics
from ctr_samples.samples.builder import SampleBuilder, SamplePlan
from ctr_samples.samples.earlier import EarlierFeatures
from ctr_samples.samples.inputs.watched import Inputs
from ctr_samples.samples.sampling import DOWN_SAMPLED
from ctr_samples.samples.watches.times import ClocksByDay, counts_of_view
from ctr_samples.shards import FeaturesFrom, Manifest, Receipt, Storage


class _ReadsLogs:
    """What all kinds share that read logs."""

    __slots__ = ()
    reads_logs: ClassVar[bool] = True

    def wanted(self, wanted: Wanted) -> Wanted:
        """Return the measures to collect."""
        return wanted

    def accounting(self, inputs: Inputs, receipts: Sequence[Receipt], period: Period) -> Accounting:
        """Return the counts of the run. Raises the errors of inputs, and AccountingError for counts that do not balance."""
        return balanced(inputs, receipts, period)


@dataclass(frozen=True, slots=True)
class JoinEverything(_ReadsLogs):
    """Make all samples from the logs. ``features_from`` says why nothing is taken from a generation, if there is one."""

    features_from: FeaturesFrom | None = None

    what: ClassVar[str] = "makes everything"
    """What the run does, in words."""
    joins: ClassVar[bool] = True
    """Whether views or histories are joined."""
    manifest: ClassVar[Manifest | None] = None
    """The generation from which something is taken."""

    def plan(self, builder: SampleBuilder) -> SamplePlan:
        """Plan the samples."""
        return builder.build()

    def measured(self, measured: Measured) -> Measured:
        """Complete what was measured of the samples."""
        return measured

    def completed(self, manifest: Manifest) -> Manifest:
        """Complete the manifest of the run."""
        return manifest

    def made(self, config: JobConfig) -> Mapping[str, Sequence[str]]:
        """Return the features that are made, and why."""
        is_first = self.features_from is None or self.features_from.path
        return {name: ["new" if is_first else "with the rest"] for name in config.features}

    def joined(self, config: JobConfig) -> JobConfig:
        """Return the part of a configuration whose views and histories are joined."""
        return config


@dataclass(frozen=True, slots=True)
class TakeFeatures(_ReadsLogs):
    """Make the labels and the ``changed`` features, and take the others from a generation.

    ``names`` has the features that are taken, with the names they had then; None stands for all, in any layout.
    ``changed`` has the features that are made, with what of them changed. ``clocks`` counts the rows that have arrived for
    views since then. ``metrics`` are those of the generation, or None if they are gone or of more samples.
    """

    manifest: Manifest
    storage: Storage
    clocks: ClocksByDay
    names: Mapping[str, str] | None
    changed: Mapping[str, Sequence[str]]
    views: frozenset[str]
    """The views that are joined."""
    metrics: Metrics | None
    few: bool = False
    """Whether the run leaves out negatives that the generation has."""
    path: str = ""
    """Directory of another sample set that has the generation, or empty."""

    @property
    def what(self) -> str:
        """What the run does, in words."""
        return "makes features and labels" if self.changed else "makes labels"

    @property
    def joins(self) -> bool:
        """Whether views or histories are joined."""
        return bool(self.changed)

    @property
    def features_from(self) -> FeaturesFrom:
        """The entry for the manifest."""
        features = tuple(self.names) if self.changed and self.names is not None else ()
        return FeaturesFrom(self.manifest.generation, features=features, labels=not self.reads_logs, path=self.path)

    def plan(self, builder: SampleBuilder) -> SamplePlan:
        """Plan the samples."""
        return builder.build_beside(self._shards(), tuple(self.changed))

    def _shards(self) -> EarlierFeatures:
        contract = ExampleContract.from_dict(dict(self.manifest.contract))
        return EarlierFeatures(self.storage, self.manifest.shards, contract, self.names, self.few)

    def measured(self, measured: Measured) -> Measured:
        """Take facts about features from the metrics of the generation, measured before they became records, except those that
        depend on labels.
        """
        before = {} if self.metrics is None else self.metrics.features
        features = {
            name: feature
            if name not in before
            else replace(
                feature,
                splits={
                    split: replace(before[name].splits[split], top=facts.top, auc=facts.auc)
                    for split, facts in feature.splits.items()
                },
            )
            for name, feature in measured.features.items()
        }
        return replace(measured, features=features)

    def completed(self, manifest: Manifest) -> Manifest:
        """Complete the manifest with counts that require joins, and with line counts of sources that were not read."""
        before = {name: {**facts, **self._rows_of(name, facts)} for name, facts in self.manifest.views.items()}
        views = {
            name: manifest.views[name] if name in self.views else before[name]
            for name in manifest.config.get("views") or {}
            # Of fewer samples, nobody counted what matches.
            if name in self.views or (name in before and not self.few)
        }
        inputs = {name: {**facts, **self._lines_of(name, facts)} for name, facts in manifest.inputs.items()}
        return replace(manifest, views=views, inputs=inputs)

    def _rows_of(self, view: str, facts: Mapping[str, float]) -> dict[str, float]:
        """Count the bad rows of a view, including rows that have arrived since then."""
        return {key: facts.get(key, 0) + count for key, count in counts_of_view(self.clocks, view).items()}

    def _lines_of(self, name: str, facts: Mapping[str, Any]) -> dict[str, Any]:
        before = self.manifest.inputs.get(name, {})
        same = before.get("fingerprint") == facts["fingerprint"]
        counted = ("lines", "malformed", "repeated", "other_days", "reads_too_few", "without_rows", "gaps")
        return {key: before[key] for key in counted if same and key in before}

    def made(self, config: JobConfig) -> Mapping[str, Sequence[str]]:
        """Return the features that are made, and why."""
        return self.changed

    def joined(self, config: JobConfig) -> JobConfig:
        """Return the part of a configuration whose views and histories are joined."""
        return config.only(self.changed)


@dataclass(frozen=True, slots=True)
class TakeSamples(TakeFeatures):
    """Take all samples from a generation, with their labels. Reads no logs."""

    reads_logs: ClassVar[bool] = False

    @property
    def what(self) -> str:
        """What the run does, in words."""
        return "joins nothing"

    def plan(self, builder: SampleBuilder) -> SamplePlan:
        """Plan the samples."""
        return builder.build_again(self._shards())

    def wanted(self, wanted: Wanted) -> Wanted:
        """Leave out what is measured of columns of impressions that records lack."""
        return replace(wanted, hour=None, user=None, request=None, by={})

    def accounting(self, inputs: Inputs, receipts: Sequence[Receipt], period: Period) -> Accounting:
        """Return the counts of the run, which has no impressions."""
        return account(inputs, receipts)

    def measured(self, measured: Measured) -> Measured:
        """Take what records do not tell from the metrics of the generation."""
        measured = TakeFeatures.measured(self, measured)
        if self.metrics is None:
            return measured
        of_impressions = ("click_rate", "users", "requests")
        return replace(measured, **{name: getattr(self.metrics, name) for name in of_impressions})

    def completed(self, manifest: Manifest) -> Manifest:
        """Complete the manifest with the counts of the impressions and of the actions, too. Raises UnusableFeatures if samples
        were lost.
        """
        manifest = TakeFeatures.completed(self, manifest)
        left_out = self._left_out(manifest)
        if manifest.records + sum(left_out.values()) != self.manifest.records:
            wanted = self.manifest.records - sum(left_out.values())
            raise UnusableFeatures(f"{manifest.records:,} of its {wanted:,} samples were read")
        own = {name: {"flips": facts["flips"]} if "flips" in facts else {} for name, facts in manifest.labels.items()}
        then = {name: {k: v for k, v in facts.items() if k != "flips"} for name, facts in self.manifest.labels.items()}
        return replace(
            manifest,
            accounting={**self.manifest.accounting, "samples": manifest.records, **left_out},
            labels={name: {**then[name], **flips} for name, flips in own.items()},
            order=self.manifest.order,
            tied_repeats=self.manifest.tied_repeats,
            sampling=self.manifest.sampling,
            label_mature=self.manifest.label_mature,
        )

    def _left_out(self, manifest: Manifest) -> dict[str, int]:
        """Return how many samples of the generation were left out by intent."""
        return {}


@dataclass(frozen=True, slots=True)
class TakeFewerSamples(TakeSamples):
    """Take the samples that stay from a generation that has more."""

    def completed(self, manifest: Manifest) -> Manifest:
        """Complete the manifest, which says what was sampled now."""
        return replace(TakeSamples.completed(self, manifest), sampling=manifest.sampling)

    def _left_out(self, manifest: Manifest) -> dict[str, int]:
        return {DOWN_SAMPLED: manifest.accounting.get(DOWN_SAMPLED, 0)}


Kind = JoinEverything | TakeFeatures | TakeSamples | TakeFewerSamples
