"""Describe the plan, printed before a run starts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from ctr_samples.config.counting import DailyCounts
from ctr_samples.config.feature import Feature
from ctr_samples.config.impressions import Sampling
from ctr_samples.config.job import JobConfig
from ctr_samples.config.label import ActionLabel, Label, RowLabel
from ctr_samples.config.source import FileSource
from ctr_samples.config.units import format_duration, format_size
from ctr_samples.config.view import AgingView, CountingView, EventView, SnapshotView, StaticView, View, WindowView
from ctr_samples.periods import Period, calendar_day


def explain(config: JobConfig, period: Period | None = None) -> str:
    """Describe what a run would do, line by line. With a date, also name the days that the run would read."""
    return "\n".join([*_sources(config, period), *_samples(config), *_views(config), *_features(config)])


_PERIODS = {"day": "days", "hour": "hours", "all": "the whole log, days"}


def _sources(config: JobConfig, period: Period | None) -> Iterator[str]:
    yield f"Sample set {config.name}, {_PERIODS[config.grain]} in {config.timezone}"
    yield ""
    yield "It reads"
    for name, source in config.sources.items():
        without = "; empty if it is not there" if source.may_be_absent else ""
        yield f"  {name}: {source.format} at {source.place}{_days(config, name, period)}{without}"
        for element, items in source.explode.items():
            yield f"    each element of {items} becomes a row, as {element}"
        yield from _kept(config, name)


def _kept(config: JobConfig, name: str) -> Iterator[str]:
    """Describe which parts of a source are read once and kept as partial results."""
    if config.partials is None or not (isinstance(config.sources[name], FileSource) and config.reads_days(name)):
        return
    views = [view for view in config.views if config.views[view].source == name]
    kept = [view for view in views if config.views[view].keeps_days]
    rest = [view for view in views if view not in kept]
    kept += [history for history in config.histories if config.histories[history].source == name]
    if not kept:
        return
    yield f"    {', '.join(kept)}: finished days are read once, and what is needed of them is kept in {config.partials.path}"
    if rest:
        yield f"    {', '.join(rest)}: all of these days, each time"
    else:
        yield "    so of the days before, a run reads only those whose impressions and actions are near its own"


def _days(config: JobConfig, name: str, period: Period | None) -> str:
    source, day = config.sources[name], calendar_day(period) if period is not None else None
    if not config.reads_days(name):
        return ", all of it"
    if day is None or config.grain == "hour":
        return f", {source.days_before} day(s) before to {source.days_after} day(s) after the run date"
    first = day - timedelta(days=source.days_before)
    last = day + timedelta(days=source.days_after)
    return f", {first}" if first == last else f", {first} to {last}"


def _samples(config: JobConfig) -> Iterator[str]:
    shown = config.impressions
    yield ""
    yield f"An impression is a row of {shown.source}" + (f" where {shown.where}" if shown.where else "")
    if shown.explode:
        yield f"  the list in {shown.article} becomes one impression for each article, with its position"
    if shown.dedup:
        same = " and ".join(shown.keys_and_request)
        yield f"  one that follows another of the same {same} within {format_duration(shown.dedup)} is a repeat"
    elif shown.repeats_by_day:
        yield f"  one that follows another of the same {' and '.join(shown.keys_and_request)} on the same day is a repeat"
    if shown.skip_above:
        yield f"  of a list with {shown.skip_above}, those below its last position are dropped"
    for name, label in config.labels.items():
        yield f"  label {name}: {_label(label, config)}"
        if label.after is not None:
            yield f"    comes after {label.after}; positives without it are counted"
        if label.masks:
            yield f"    with the masks {' and '.join(label.masks_of(name))}"
    if config.grain != "all":
        how = "takes the features of the first, if what they come from is the same"
        how = how if config.joins_anew is None else f"joins all anew: {config.joins_anew}"
        yield f"  a later run that makes labels final {how}"


def _label(label: Label, config: JobConfig) -> str:
    if isinstance(label, RowLabel):
        what = "1 if" if label.is_flag else "the number"
        known = f", known {format_duration(label.known_after)} after the impression" if label.known_after else ""
        return f"{what} {label.expr}, in the impression's own row{known}"
    return _of_actions(label, config)


def _of_actions(label: ActionLabel, config: JobConfig) -> str:
    first, *others = [" and ".join(names) for names in label.matches(config.impressions)]
    key = first + "".join(f", {_else(label, first)} of the same {other}" for other in others)
    what = "1 if there is" if label.reduce == "any" else f"{label.reduce} of {label.value} over"
    early = f" (up to {format_duration(label.skew)} before it, if none was shown before)" if label.skew else ""
    where = f" where {label.where}" if label.where else ""
    return (
        f"{what} a row of {label.source}{where}, within {format_duration(label.window)} "
        f"after the last impression of the same {key}{early}"
    )


def _else(label: ActionLabel, first: str) -> str:
    return "or, if it has no request id," if label.match is None and first.startswith("request") else "else"


def _views(config: JobConfig) -> Iterator[str]:
    if config.views or config.histories:
        yield ""
        yield "To each impression it joins"
    for name, view in config.views.items():
        yield f"  {name}: {_view(view)}"
    yield from _histories(config)


def _view(view: View) -> str:
    same = f"the same {' and '.join(view.joined_on)}"
    match view:
        case StaticView():
            return f"the one row of {view.source} with {same} (a table without times)"
        case SnapshotView():
            delay = f", once {format_duration(view.delay)} have passed since its day ended" if view.delay else ""
            what = f"the row of {same} in the latest snapshot of {view.source} that was there{delay}"
            return f"{what}, {_age(view)}"
        case WindowView():
            return _windows(view, same)
    if isinstance(view.counted, DailyCounts):
        looked_up = _as_of_actions(view) if isinstance(view, CountingView) else ""
        what = f"counts of {view.source} over the last {view.counted.days} full day(s) for {same}{looked_up}"
    else:
        what = f"the last row of {view.source} for {same}"
    before = "not after" if view.inclusive else "before"
    return f"{what} that became true {before} the impression{_known(view)}{_unless_ended(view)}, {_age(view)}"


def _windows(view: WindowView, same: str) -> str:
    lengths = ", ".join(format_duration(window) for window in view.aggregates.windows)
    delay = f" and {format_duration(view.delay)} more" if view.delay else ""
    step = format_duration(view.aggregates.step)
    over = f"once its step{delay} is over"
    if view.available_time is not None:
        over = f"once a step is over by whose end it was known ({view.available_time})"
    return (
        f"counts of {view.source} for {same} over the {lengths} before the impression, in steps of {step}: an action counts "
        f"{over}{_as_of_actions(view)}"
    )


def _as_of_actions(view: CountingView) -> str:
    return f", with the row of {' and '.join(view.look_up)} that it could see" if view.look_up else ""


def _known(view: AgingView) -> str:
    if isinstance(view, EventView) and view.available_time is not None:
        return f", once known ({view.available_time})"
    return f", once {format_duration(view.delay)} have passed" if view.delay else ""


def _unless_ended(view: AgingView) -> str:
    if not isinstance(view, EventView) or view.valid_to is None:
        return ""
    known = f", as far as was known by then ({view.closed_available})" if view.closed_available else ""
    return f", and that had not ended ({view.valid_to}){known}"


def _histories(config: JobConfig) -> Iterator[str]:
    for name, history in config.histories.items():
        resolved = config.history(name)
        where = f" where {history.where}" if history.where else ""
        age = f" of at most {format_duration(history.within)}" if history.within is not None else ""
        delay = f", once {format_duration(history.available_after)} have passed" if history.available_after else ""
        delay = f", once known ({history.available_time})" if history.available_time else delay
        by_request = resolved.request is not None and config.impressions.request is not None
        other = ", without those of its own request" if by_request else ""
        what = f"the last {history.last} different {resolved.item} that the {history.on} had in {history.source}{where}"
        yield f"  {name}: {what} before the impression{age and f', with an age{age}'}{delay}{other}; newest first"


def _age(view: AgingView) -> str:
    return "of any age" if view.ttl is None else f"at most {format_duration(view.ttl)} old"


def _features(config: JobConfig) -> Iterator[str]:
    output, split = config.output, config.split
    yield ""
    yield f"A sample has {len(config.features)} features"
    for name, feature in config.features.items():
        yield f"  {name}: {_feature(feature)}"
    yield ""
    yield f"It writes records of the layout {output.layout} to {output.path}"
    size = format_size(output.shard_size)
    yield f"  in {output.partitions} task(s), shards of about {size}, compression {output.compression}"
    yield f"  in the order by {_order(config)}"
    if split.eval_from is not None:
        what = "requests that begin" if split.by == "request" else "impressions"
        yield f"  {what} from {split.eval_from} on go to eval, those before to train"
    else:
        third = f", {split.test:.0%} to test" if split.test else ""
        yield f"  {split.eval:.0%} of the hash range of each {split.by} goes to eval{third}, the rest to train"
    sampling = config.sampling
    if sampling is not None and sampling.negatives is not None:
        rate = sampling.negatives
        yield f"  of train's negatives a share of {rate:.3g} stays, each with a weight of {1 / rate:.3g}"
    elif sampling is not None:
        yield from (f"  {line}" for line in _sampled(sampling))


def _sampled(sampling: Sampling) -> Iterator[str]:
    if sampling.rate is not None:
        yield f"of train a share of {sampling.rate} stays, each with a weight of 1 / share"
    if sampling.cap is not None:
        yield f"of train at most {sampling.cap.samples} samples of one {sampling.cap.key} stay, and stand for all of them"
    if sampling.weight is not None:
        yield f"weights in train are multiplied by {sampling.weight}"


def _order(config: JobConfig) -> str:
    keys = " and ".join(config.request_keys)
    if config.output.by_request:
        return f"request: samples with equal {keys} are adjacent"
    if not keys:
        return "impression; no key tells which impressions form a request"
    return f"impression; `order: request` would put samples with equal {keys} next to each other"


def _feature(feature: Feature) -> str:
    """Describe a feature: type, shape, source, transformations, where it is computed, and the value if missing."""
    shape = f"{list(feature.shape)}" if feature.shape else " list of any length" if feature.ragged else ""
    source = f"the cross of {' and '.join(feature.cross)}" if feature.cross else source_of(feature)
    parts = [f"{feature.dtype}{shape} from {source}", *_changes(feature)]
    if feature.computed == "model":
        parts.append("all of which the model does")
    return ", ".join([*parts, f"missing: {_missing(feature)}"])


def source_of(feature: Feature) -> str:
    """Return what a feature is made from: as written, or what it makes of two sources in words."""
    if feature.pair is None:
        return feature.from_ or feature.expr or ""
    kind, entry = feature.pair
    if kind == "lookup":
        which = "all entries" if entry["keys"] is None else f"the values at {entry['keys']}"
        under = "" if entry["under"] is None else f" under {entry['under']}"
        reduced = "" if entry["reduce"] is None else f"the {entry['reduce']} of "
        return f"{reduced}{which}{under} in {entry['map']}"
    of, others = entry["of"], entry["with"]
    return {
        "count": f"the number of values of {of} that are in {others}",
        "any": f"whether a value of {of} is in {others}",
        "share_of": f"the share of values of {of} that are in {others}",
        "share_with": f"the share of values of {others} that are in {of}",
        "dot": f"the dot product of {of} and {others}",
        "cosine": f"the cosine of {of} and {others}",
    }[entry["as"]]


def _changes(feature: Feature) -> Iterator[str]:
    if feature.at:
        yield f"at {feature.at}"
    if feature.date_part:
        yield f"its {feature.date_part.replace('_', ' ')}"
    if feature.top_k:
        yield f"{'the keys of ' if feature.part == 'keys' else ''}the {feature.top_k} {feature.order}"
    if feature.clip:
        yield f"clipped to {feature.clip[0]:g} and {feature.clip[1]:g}"
    if feature.log1p:
        yield "log1p"
    if feature.scale:
        yield {"standardise": "standardised", "min_max": "scaled to 0 and 1"}[feature.scale] + " by fitted moments"
    if words := feature.kind.words(feature):
        yield words
    if feature.multi_hot:
        yield "a vector with 1 at each id"
    if feature.encoding != "list":
        yield {"tensor": "as a serialized tensor", "raw": "as raw bytes"}[feature.encoding]


def _missing(feature: Feature) -> str:
    if feature.nulls != "default":
        return {"omit": "left out", "fail": "ends the run"}[feature.nulls]
    if feature.ragged:
        return "empty"
    if feature.multi_hot:
        return "all 0 if it is a list, else an id of its own"
    if feature.makes_ids and feature.shape:
        return "all 0"
    if feature.cross:
        return "hashed as the features that it crosses have it"
    if feature.missing_id is not None:
        return f"the id {feature.missing_id}, which no value has"
    return repr(feature.default_value)
