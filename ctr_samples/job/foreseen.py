"""What runs of a changed configuration would read back, make and leave out, before they run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from pyspark.sql import SparkSession

from ctr_samples.config import LoadedConfig
from ctr_samples.config.label import actions_among
from ctr_samples.job.origins import Origins, changed_features, differences
from ctr_samples.job.planning import Prepared, open_output, planning
from ctr_samples.job.reuse import kind_of_run
from ctr_samples.periods import Period
from ctr_samples.shards import FeaturesFrom, Storage, latest_manifest, published_days
from ctr_samples.shards.manifest import RELEASE
from ctr_samples.sparksql.observations import Reporter

_DAYS = 30
"""Newest published days whose runs tell how long such a run takes."""


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What a run of a day would do. ``why`` says why nothing is read back, and ``made`` why each feature is made: it is new,
    or what of it changed. ``reads`` is the size in bytes of what is read, as far as it is known.
    """

    day: Period
    what: str
    why: str
    taken: Sequence[str]
    made: Mapping[str, Sequence[str]]
    joined: Sequence[str]
    dropped: Sequence[str]
    reads: int
    seconds: float | None
    """How long runs of this kind took, or None if there was none."""


def foreseen(spark: SparkSession, loaded: LoadedConfig, day: Period, reporter: Reporter) -> Foreseen:
    """Say what a run of a day would do. Lists the inputs; may run a Spark job over days that came since then. Writes
    nothing. Raises the errors of the inputs.
    """
    config = loaded.config
    with planning(spark, loaded):
        prepared = Prepared.of(spark, loaded, day, reporter)
        output = open_output(config, day, reporter)
        manifest = output.published(prepared.fingerprint)
        if manifest is not None:
            return Foreseen(day, "is published as it is", "", (), {}, (), (), 0, 0.0)
        kind = kind_of_run(prepared, output)
    made, joined, then = kind.made(config), kind.joined(config), kind.manifest
    size = sum(shard.bytes for shard in then.shards) if then else 0
    if kind.reads_logs:
        read = {config.impressions.source, *(label.source for label in actions_among(config.labels).values())}
        read |= {one.source for one in (*joined.views.values(), *joined.histories.values())}
        size += sum(prepared.inputs.sources[name].bytes or 0 for name in read)
    taken = [name for name in config.features if name not in made]
    dropped = [name for name in (then.config.get("features") or {} if then else ()) if name not in config.features]
    why = kind.features_from.why if kind.features_from else ""
    took = typical_seconds(output.storage, kind.features_from)
    return Foreseen(day, kind.what, why, taken, made, tuple(joined.views), dropped, size, took)


def typical_seconds(storage: Storage, entry: FeaturesFrom | None) -> float | None:
    """Return the median of how long the newest runs took that read back as much."""
    manifests = (latest_manifest(storage, day) for day in published_days(storage)[-_DAYS:])
    took = [one.seconds for one in manifests if one is not None and _kind(one.features_from) == _kind(entry)]
    return median(took) if took else None


def _kind(entry: FeaturesFrom | None) -> str:
    if entry is None or entry.why:
        return "everything"
    return "nothing" if entry.labels else "features" if entry.features else "labels"


def changes(old: LoadedConfig, new: LoadedConfig) -> Iterator[str]:
    """Yield sentences about the parts of samples that differ between two configurations of one release and equal inputs."""
    before, now = (Origins.of(one.config, {}, None, RELEASE) for one in (old, new))
    if rows := differences(now.rows, before.rows):
        yield f"Other samples, or another order: {_listed(rows)}. Each day is made anew."
    for name in dict.fromkeys([*now.labels, *before.labels]):
        if name not in before.labels or name not in now.labels:
            yield f"labels.{name} is {'new' if name in now.labels else 'left out'}."
        elif parts := differences(now.labels[name], before.labels[name]):
            yield f"labels.{name} is made from other values: {_listed(parts)}."
    changed, renamed = changed_features(now, before)
    for name, parts in changed.items():
        yield f"features.{name} is {'new' if parts == ['new'] else f'made from other values: {_listed(parts)}'}."
    for name, then in renamed.items():
        yield f"features.{name} is features.{then} under another name."
    for name in before.features:
        if name not in now.features and name not in renamed.values():
            yield f"features.{name} is left out."


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
