"""The plan in words, printed before anything runs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta

from ctr_samples.config.models import Feature, JobConfig, Label, Source, View
from ctr_samples.config.units import format_duration, format_size


def explain(config: JobConfig, run_date: date | None = None) -> str:
    """What a run would do, line by line. With a date, the days that are read are named."""
    return "\n".join([*_sources(config, run_date), *_samples(config), *_views(config), *_features(config)])


def _sources(config: JobConfig, run_date: date | None) -> Iterator[str]:
    yield f"Sample set {config.name}, days in {config.timezone}"
    yield ""
    yield "It reads"
    for name, source in config.sources.items():
        place = source.path or source.table
        yield f"  {name}: {source.format} at {place}{_days(source, run_date)}"


def _days(source: Source, run_date: date | None) -> str:
    if not source.is_dated:
        return ", all of it"
    if run_date is None:
        return f", {source.days_before} day(s) before to {source.days_after} day(s) after the run date"
    first = run_date - timedelta(days=source.days_before)
    last = run_date + timedelta(days=source.days_after)
    return f", {first}" if first == last else f", {first} to {last}"


def _samples(config: JobConfig) -> Iterator[str]:
    shown = config.impressions
    yield ""
    yield f"An impression is a row of {shown.source}" + (f" where {shown.where}" if shown.where else "")
    if shown.explode:
        yield f"  the list in {shown.article} becomes one impression for each article, with its position"
    if shown.dedup:
        yield f"  one that follows another of the same user and article within {format_duration(shown.dedup)} is a repeat"
    for name, label in config.labels.items():
        yield f"  label {name}: {_label(label, config)}"


def _label(label: Label, config: JobConfig) -> str:
    shown = config.impressions
    by_request = shown.request is not None and (label.request is not None or label.source == shown.source)
    key = "request and article" if by_request else "user and article"
    what = "1 if there is" if label.reduce == "any" else f"{label.reduce} of {label.value} over"
    where = f" where {label.where}" if label.where else ""
    return (
        f"{what} a row of {label.source}{where}, within {format_duration(label.window)} "
        f"after the last impression of the same {key}"
    )


def _views(config: JobConfig) -> Iterator[str]:
    if config.views:
        yield ""
        yield "To each impression it joins"
    for name, view in config.views.items():
        yield f"  {name}: {_view(view)}"


def _view(view: View) -> str:
    if view.static:
        return f"the one row of {view.source} with the same {view.entity} (a table without times)"
    if view.snapshot is not None:
        delay = (
            f", once {format_duration(view.publish_delay)} have passed since its day ended"
            if view.publish_delay
            else ""
        )
        what = f"the row of the same {view.entity} in the latest snapshot of {view.source} that was there{delay}"
        return f"{what}, {_age(view)}"
    if view.daily_counts is not None:
        what = f"counts of {view.source} over the last {view.daily_counts.days} full day(s) for the same {view.entity}"
    else:
        what = f"the last row of {view.source} for the same {view.entity}"
    before = "not after" if view.inclusive else "before"
    known = ""
    if view.available_after is not None:
        known = f", once {format_duration(view.available_after)} have passed"
    elif view.available_time is not None:
        known = f", once known ({view.available_time})"
    return f"{what} that became true {before} the impression{known}, {_age(view)}"


def _age(view: View) -> str:
    return "of any age" if view.ttl == "unbounded" or view.ttl is None else f"at most {format_duration(view.ttl)} old"


def _features(config: JobConfig) -> Iterator[str]:
    output, split = config.output, config.split
    yield ""
    yield f"A sample has {len(config.features)} features"
    for name, feature in config.features.items():
        yield f"  {name}: {_feature(feature)}"
    yield ""
    yield f"It writes {output.record} records to {output.path}"
    size = format_size(output.shard_size)
    yield f"  in {output.partitions} task(s), shards of about {size}, compression {output.compression}"
    yield f"  {split.eval:.0%} of the hash range of each {split.by} goes to eval, the rest to train"


def _feature(feature: Feature) -> str:
    shape = f"[{feature.shape[0]}]" if feature.shape else ""
    parts = [f"{feature.dtype}{shape} from {feature.from_ or feature.expr}"]
    if feature.top_k:
        parts.append(f"the {feature.top_k} greatest")
    if feature.hash_buckets:
        parts.append(f"hashed to {feature.hash_buckets} ids")
    parts.append("missing: an id of its own" if feature.hash_buckets else f"missing: {feature.default_value!r}")
    return ", ".join(parts)
