"""Decide what a run takes from the day's current generation, since it is made from the same, and what it makes.

The shards of that generation hold its features, so nothing else is kept.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Self

from pyspark.sql import Column
from pyspark.sql import functions as F

from ctr_samples.config import JobConfig
from ctr_samples.errors import DamagedFile, InputError, StorageError, UnusableFeatures
from ctr_samples.job.gate import read_metrics
from ctr_samples.job.kinds import JoinEverything, Kind, TakeFeatures, TakeFewerSamples, TakeSamples
from ctr_samples.job.origins import Origins, changed_features, changed_values, differences, tied_in
from ctr_samples.job.planning import Prepared, labels_are_mature
from ctr_samples.quality.metrics import Metrics
from ctr_samples.samples.inputs.clocks import Clock, Use, clocks_of, texts_of_times
from ctr_samples.samples.inputs.listing import SourceFrame, fingerprint_of
from ctr_samples.samples.inputs.watched import Inputs
from ctr_samples.samples.period import Span
from ctr_samples.samples.watches.times import ClocksByDay, by_clock, check_clocks, clock_counts
from ctr_samples.shards import DayOutput, FeaturesFrom, Manifest, Storage, check_shards, latest_manifest, open_storage
from ctr_samples.shards.manifest import RELEASE
from ctr_samples.sparksql.columns import with_parsed_times
from ctr_samples.sparksql.observations import Aggregates, aggregated, counted

_USES: tuple[Use, ...] = ("impressions", "views", "histories")


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Days that were added to sources since a generation.

    ``files`` has the fingerprints of the sources; of a source whose new rows no impression of the day could see, that of
    the generation. ``clocks`` counts the new rows, and ``reasons`` says why other sources count as changed.
    """

    files: Mapping[str, Any]
    clocks: ClocksByDay = field(default_factory=dict)
    reasons: Sequence[str] = ()

    @classmethod
    def since(cls, inputs: Inputs, generation: Manifest) -> Self:
        """Compare the sources with those of a generation. Runs a Spark job over the days that were added to a source."""
        config, reasons = inputs.config, []
        clocks: dict[str, Any] = {}
        files = inputs.fingerprints
        joined = [*config.views.values(), *config.histories.values()]
        for name in dict.fromkeys([config.impressions.source, *[one.source for one in joined]]):
            recorded = generation.inputs.get(name)
            if recorded is None or files[name] == recorded.get("fingerprint"):
                continue
            why, found = _unseen(inputs, name, recorded)
            if why:
                reasons.append(why)
            else:
                files[name] = recorded["fingerprint"]
                clocks |= found
        return cls(files, clocks, reasons)


def _unseen(inputs: Inputs, name: str, recorded: Mapping[str, Any]) -> tuple[str, ClocksByDay]:
    """Return why the new rows of a source matter, or an empty text and their counts by clock."""
    days = _days_added(inputs.sources[name], recorded)
    if days is None:
        return f"the source {name} has changed by more than new days", {}
    if inputs.config.looking_up:
        return f"the source {name} has new days, and a view with `look_up` may see rows that no impression sees", {}
    try:
        why, clocks = _looked_at(inputs, name, days)
        check_clocks(inputs.config, clocks)
    except InputError as error:
        return str(error).rstrip("."), {}
    return why, clocks


def _days_added(source: SourceFrame, recorded: Mapping[str, Any]) -> Collection[date] | None:
    """Return the days of a source that had no files then. Return None if anything else changed or if changes cannot be
    detected.
    """
    if source.by_day is None:
        return None
    missing, files, lead = set(recorded["missing_days"]), source.by_day.files, source.by_day.lead
    then = [file for day, of_day in {**files, **(lead or {})}.items() if str(day) not in missing for file in of_day]
    added = [day for day in files if str(day) in missing] if fingerprint_of(then) == recorded["fingerprint"] else None
    if added and lead is not None and {day + timedelta(days=1) for day in added} & {*files} - {*added}:
        return None  # rows of a day that was there may repeat rows of a day before it that came since
    return added


def _looked_at(inputs: Inputs, name: str, days: Collection[date]) -> tuple[str, ClocksByDay]:
    """Count the timestamps of each clock on some days of a source. Returns a text if an impression of the run could see a
    counted row.
    """
    config, span = inputs.config, inputs.span
    rows = with_parsed_times(inputs.uncounted(name, days), texts_of_times(config, name))
    clocks = [clock for use in _USES for clock in clocks_of(config, span, name, use, rows)]
    seen = {key: F.count_if(those) for key, those in seen_on(span, config, clocks).items()}
    counts: Aggregates = {**seen, **clock_counts(clocks)}
    found = rows.agg(*[aggregated(column).alias(key) for key, column in counts.items()]).collect()[0].asDict()
    for key in seen:
        if found[key]:
            return f"{found[key]:,} row(s) that came to the source {name} since then matter to `{key}`", {}
    tallies = {key: counted(bytes(value)) for key, value in found.items() if isinstance(value, bytes | bytearray)}
    return "", by_clock({key: value or 0 for key, value in found.items() if key not in tallies}, tallies)


def seen_on(span: Span, config: JobConfig, clocks: Sequence[Clock]) -> dict[str, Column]:
    """Return conditions for rows that an impression of the day may see or repeat, for impressions, views and histories."""
    by_name = {clock.name: clock for clock in clocks}
    delays = {"impressions.time": timedelta()}
    delays |= {f"views.{name}.event_time": view.delay for name, view in config.views.items()}
    delays |= {f"histories.{name}.time": history.delay for name, history in config.histories.items()}
    seen = {}
    for key, delay in delays.items():
        if (clock := by_name.get(key)) is not None:
            name = key.rpartition(".")[0]
            rows = clock.applies & clock.looked_at & ~clock.is_missing & span.is_before_end(clock.time, -delay)
            known = by_name.get(f"{name}.available_time")
            seen[name] = rows if known is None else rows & span.is_before_end(known.time)
    return seen


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
    inputs, arrivals = prepared.inputs, Arrivals.since(prepared.inputs, current)
    of_now = arrivals.files, prepared.fitted, RELEASE, inputs.fingerprints
    return Origins.of(inputs.config, *of_now, tied_in(current)), arrivals


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
