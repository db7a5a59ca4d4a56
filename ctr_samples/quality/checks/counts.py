"""What the counts in a manifest say: warnings, independent of configured limits, and features whose windows are filling up.

Pure. The gate reports the warnings as findings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ctr_samples.config.units import format_duration, parse_duration
from ctr_samples.periods import in_ranges, zone_of
from ctr_samples.quality.metrics import Finding, Measured

if TYPE_CHECKING:
    from ctr_samples.shards import Manifest

MOST_SKIPPED = 0.01
"""Share of malformed lines of a source above which a warning is raised even if the configuration tolerates it."""
MOST_UNMATCHED = 0.5
FEWEST_ACTIONS = 20
"""Minimum number of actions for a meaningful share."""
LEAST_SOON, SOON = 0.02, timedelta(hours=1)
"""Minimum share of matched actions in the first hour. Most users act soon or never, so a lower share means wrong
times.
"""
HUGE_REQUEST, MOST_OF_A_REQUEST = 10_000, 0.05
"""Samples, and share of all samples, above which a request is suspicious in the order by request."""
FEWEST_EARLY, MOST_EARLY, MOST_OF_ORPHANS = 5, 0.005, 0.1
"""Number of actions just before an impression, and shares of all actions and of orphans, above which clocks are suspected."""
FEWEST_MATCHED = 50
"""Minimum number of matched actions for meaningful delays."""


def alarms(manifest: Manifest, before: Measured | None) -> Iterator[Finding]:
    """Yield a warning for each problem found in the counts.

    Problems are final labels that changed, skipped lines, days that are not read, days without data between others,
    actions without a time, rows of a view that contradict each other, and a request that is too large for one task. On a
    first day they also include actions that match nothing or are all late.
    """
    for name, label in manifest.labels.items():
        yield from _changed_final_labels(name, label)
        yield from _actions_without_time(name, label)
        yield from _early_orphans(name, label)
        if before is None or name not in before.actions:
            yield from _unmatched(name, label)
            yield from _all_late(name, label)
    yield from _made_from_biases(manifest)
    yield from _sees_own_actions(manifest)
    yield from _skipped_lines(manifest)
    yield from _days_not_read(manifest)
    yield from _gaps(manifest)
    yield from _several_rows(manifest)
    yield from _huge_request(manifest)


def _made_from_biases(manifest: Manifest) -> Iterator[Finding]:
    """Warn of a feature that reads a column of impressions of which another feature is a bias."""
    graph, features = manifest.graph, manifest.config.get("features") or {}
    biases = {
        name: graph.columns(f"features.{name}", "impressions") or ()
        for name, feature in features.items()
        if feature.get("bias") is not None
    }
    for name in sorted(features.keys() - biases):
        shared = (bias for bias, own in biases.items() if graph.reads_any(f"features.{name}", "impressions", own))
        if (bias := next(shared, None)) is not None:
            sentence = (
                f"The feature {name} is made from the same column as {bias}, which is a bias: in serving it would need what "
                "is not known there. Give it a `bias` too, or leave it out."
            )
            yield _warning("bias", name, 1, 0, sentence)


def _warning(check: str, subject: str, value: float, most: float, sentence: str) -> Finding:
    return Finding(check, subject, "warns", float(value), f"at most {most:g} (warn)", sentence)


def _changed_final_labels(name: str, label: Mapping[str, Any]) -> Iterator[Finding]:
    flips = label.get("flips")
    changed = sum(flips.get(key, 0) for key in ("flipped_to_1", "flipped_to_0", "changed")) if flips else 0
    if flips and flips.get("final") and changed:
        sentence = (
            f"{changed:,} value(s) of {name} differ from those of generation {flips['against']}, whose labels were final: "
            "the logs changed after all windows had closed. Models that were trained on it saw other labels."
        )
        yield _warning("final_labels", name, changed, 0, sentence)


def _actions_without_time(name: str, label: Mapping[str, Any]) -> Iterator[Finding]:
    without = label.get("without_time", 0)
    if without:
        sentence = (
            f"{without:,} action(s) of {name} have no readable time and match no impression; see `labels.{name}.time`. "
            f"{label.get('time_not_read', '')}"
        ).rstrip()
        yield _warning("action_times", name, without, 0, sentence)


def _early_orphans(name: str, label: Mapping[str, Any]) -> Iterator[Finding]:
    """Warn if clocks disagree, or one of them is cut to whole seconds, so that actions come before their impressions."""
    early, orphans = label.get("early_orphans", {}).get("count", 0), label.get("orphans", 0)
    if early < FEWEST_EARLY or early <= min(MOST_EARLY * label["actions"], MOST_OF_ORPHANS * orphans):
        return
    within = label["early_orphans"]["within"]
    sentence = (
        f"{early:,} of the {orphans:,} actions of {name} that match no impression lie less than {within} before one with their "
        f"keys: their times are cut, or clocks disagree. Set `labels.{name}.skew: {within}`, and on views and histories of the "
        f"same log `available_after: {_longer(parse_duration(within))}`, so that no impression sees its own action."
    )
    yield _warning("early_orphans", name, early / label["actions"], MOST_EARLY, sentence)


def _sees_own_actions(manifest: Manifest) -> Iterator[Finding]:
    """Warn of views and histories of a log whose actions may come before their impression."""
    skews: dict[str, tuple[timedelta, str]] = {}
    for name, label in (manifest.config.get("labels") or {}).items():
        if skew := _duration(label.get("skew")):
            source = label.get("source") or ""
            skews[source] = max(skews.get(source, (timedelta(), "")), (skew, name))
    for kind in ("views", "histories"):
        for name, one in (manifest.config.get(kind) or {}).items():
            skew, label = skews.get(one.get("source"), (timedelta(), ""))
            known = one.get("event_time") if kind == "views" else True
            delay = _duration(one.get("available_after"))
            if skew and known and not one.get("available_time") and delay is not None and delay <= skew:
                early = format_duration(skew)
                sentence = (
                    f"{kind}.{name} reads the log of the label {label}, whose actions may be logged {early} before their "
                    f"impression, which then sees its own action: set `{kind}.{name}.available_after: {_longer(skew)}`, "
                    "unless no such action is among its rows."
                )
                yield _warning("own_actions", name, 1, 0, sentence)


def _duration(text: Any) -> timedelta | None:
    """Return a duration of a configuration, zero if it is not there, or None if the environment has it."""
    if text is None:
        return timedelta()
    with suppress(ValueError):
        return parse_duration(str(text))
    return None


def _longer(span: timedelta) -> str:
    """Return a duration that is hardly longer, in few digits."""
    more = timedelta(milliseconds=1) if span < timedelta(minutes=15) else timedelta(seconds=1)
    return format_duration(span + more)


def _all_late(name: str, label: Mapping[str, Any]) -> Iterator[Finding]:
    """Warn if nearly all actions are late. The manifest counts actions by delay range. The last range ends with the
    window.
    """
    delays: Mapping[str, int] = label.get("delays", {})
    ends = {end: timedelta() if end == "before" else parse_duration(end) for end in delays}
    matched, soon = sum(delays.values()), sum(n for end, n in delays.items() if ends[end] <= SOON)
    if matched < FEWEST_MATCHED or max(ends.values()) <= SOON or soon >= LEAST_SOON * matched:
        return
    sentence = (
        f"{soon:,} of the {matched:,} actions of {name} that match an impression came within {format_duration(SOON)} of it. "
        "If most should, their times and those of the impressions are in different zones: write the zone of local times into "
        f"`labels.{name}.time` or `impressions.time`, as in to_timestamp(concat(t, ' Asia/Shanghai'))."
    )
    yield Finding("delays", name, "warns", soon / matched, f"at least {LEAST_SOON:g} (warn)", sentence)


def _unmatched(name: str, label: Mapping[str, Any]) -> Iterator[Finding]:
    """Warn about orphans on a first day. With an earlier day, the check `orphans` detects a rise."""
    actions, orphans = label.get("actions", 0), label.get("orphans", 0)
    if actions < FEWEST_ACTIONS or orphans <= MOST_UNMATCHED * actions:
        return
    shift, why = label.get("shift"), "; look at its times and keys"
    if shift is not None:
        span = format_duration(timedelta(seconds=abs(shift["seconds"])))
        how = "added to" if shift["seconds"] > 0 else "taken from"
        why = f"; with {span} {how} their times {shift['share']:.0%} would match: is a zone wrong?"
    sentence = (
        f"{orphans / actions:.1%} of the {actions:,} actions of {name} match no impression, and there is no earlier day to "
        f"compare with{why}"
    )
    yield _warning("orphans", name, orphans / actions, MOST_UNMATCHED, sentence if shift else f"{sentence}.")


def _skipped_lines(manifest: Manifest) -> Iterator[Finding]:
    for name, source in manifest.inputs.items():
        lines, malformed = source.get("lines", 0), source.get("malformed", 0)
        if malformed > MOST_SKIPPED * lines:
            sentence = (
                f"{malformed / lines:.1%} of the {lines:,} lines of sources.{name} are malformed and were skipped."
            )
            yield _warning("skipped_lines", name, malformed / lines, MOST_SKIPPED, sentence)


def _days_not_read(manifest: Manifest) -> Iterator[Finding]:
    """Warn if rows of the day also lie in directories that the run does not read."""
    for name, source in manifest.inputs.items():
        if needed := source.get("reads_too_few"):
            keys = " and ".join(f"`sources.{name}.{key}: {days}`" for key, days in needed.items())
            rows, elsewhere = _of_other_days(source)
            share, zone, day = elsewhere / max(rows, 1), zone_of(manifest.config), manifest.run_date[:10]
            sentence = (
                f"{share:.1%} of the {rows:,} rows that sources.{name} has for {day} in its path are of other "
                f"days in {zone}: is `timezone` right? If it is, set {keys}; rows of the day, or of its windows, lie in "
                "directories that are not read, so each day lacks them."
            )
            yield _warning("days_not_read", name, share, 0, sentence)


def _gaps(manifest: Manifest) -> Iterator[Finding]:
    """Warn of days without data between days with data. What lies before the first day has not begun."""
    for name, source in manifest.inputs.items():
        if days := source.get("gaps"):
            sentence = (
                f"sources.{name} has no data for {in_ranges(days)}, but for days before and after: what windows, histories and "
                "labels count of this time is missing. Was it delivered?"
            )
            yield _warning("gaps", name, len(days), 0, sentence)


def _of_other_days(source: Mapping[str, Any]) -> tuple[int, int]:
    """Return the rows of the day's directory, and those of them that are of other days, by the clock with most of these."""
    clocks = [(of["rows"], of["of_other_days"]) for of in source["other_days"].values()]
    return max(clocks, key=lambda counts: counts[1] / max(counts[0], 1))


def _several_rows(manifest: Manifest) -> Iterator[Finding]:
    for name, view in manifest.views.items():
        keys = int(view.get("keys_with_several_rows", 0))
        if keys:
            sentence = (
                f"{keys:,} key(s) of the view {name} have several rows that differ, of which one is taken; keep one row for "
                "each key, in snapshots for each key and day, or say which row is the last: for a static view with an "
                "`event_time` in place of `static`, for snapshots with a `sequence`."
            )
            yield _warning("several_rows", name, keys, 0, sentence)
        rows = int(view.get("contradictions", 0))
        if rows:
            sentence = (
                f"{rows:,} row(s) of the view {name} are true at the same time as another row of their key that has other "
                "values, of which one is taken; let `valid_to` be when the next row of the key begins, or, for rows that begin "
                "at one time, say with a `sequence` which is the last."
            )
            yield _warning("several_rows", name, rows, 0, sentence)


def _huge_request(manifest: Manifest) -> Iterator[Finding]:
    """Warn of a request that one task has to write although it has a large share of the samples."""
    order = manifest.order
    if order is None or order.largest < HUGE_REQUEST:
        return
    if (share := order.largest / manifest.records) > MOST_OF_A_REQUEST:
        sentence = (
            f"A request has {order.largest:,} samples, {share:.0%} of all, and one task writes them. If its id or user is a "
            "placeholder such as '' or '-', make it null, as in nullif(request, '-'); or set `output.order: impression`."
        )
        yield _warning("huge_request", " and ".join(order.by), share, MOST_OF_A_REQUEST, sentence)


def filling_features(manifests: Iterable[Manifest]) -> set[str]:
    """Return the features of windows and histories that reach back beyond the start of the log on any of these days."""
    filling: set[str] = set()
    for manifest in manifests:
        config = manifest.config
        short = {
            name
            for name, source in manifest.inputs.items()
            if any(day < manifest.run_date for day in source.get("missing_days", ()))
        }
        views, histories = config.get("views") or {}, config.get("histories") or {}
        counted = {f"views.{n}": of for n, of in views.items() if of.get("aggregates") or of.get("daily_counts")}
        counted |= {f"histories.{n}": of for n, of in histories.items()}
        graph = manifest.graph
        filling |= {name for part, of in counted.items() if of.get("source") in short for name in graph.features(part)}
    return filling
