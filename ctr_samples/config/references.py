"""Cross-reference checks of the configuration, such as unknown names and missing keys."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ctr_samples.addresses import CREDENTIALS_ELSEWHERE, holds_credentials, overlap
from ctr_samples.config.base import HISTORY_COLUMNS, OWN_COLUMNS, RESERVED_FEATURES, VIEW_METADATA, mask_of
from ctr_samples.config.counting import Aggregates, DailyCounts, Rate
from ctr_samples.config.feature_checks import feature_problems
from ctr_samples.config.grain import grain_problems
from ctr_samples.config.history import History
from ctr_samples.config.impressions import Impressions
from ctr_samples.config.job import JobConfig
from ctr_samples.config.label import ActionLabel, Label, actions_among
from ctr_samples.config.masking import HIDDEN_PARAMETER
from ctr_samples.config.order import order_problems
from ctr_samples.config.problems import Problem, nearest
from ctr_samples.config.source import FileSource
from ctr_samples.config.view import CountingView, DailyCountView, View, WindowView


def action_keys(label: ActionLabel, shown: Impressions) -> dict[str, str]:
    """Return the keys that an action shares with impressions, with their expressions. The request comes last.

    A label inherits keys from ``impressions`` if both come from the same log.
    """
    there = shown.keys_and_request
    given = {"user": label.user, "article": label.article, "request": label.request, **label.keys}
    own = {name: text for name, text in given.items() if text is not None}
    inherited_keys = there if label.source == shown.source else {}
    return {name: text for name in there if (text := own.get(name) or inherited_keys.get(name)) is not None}


def match_of(label: ActionLabel, shown: Impressions) -> tuple[tuple[str, ...], ...]:
    """Return the sets of keys that match an action to its impression, in the order they are tried. May be empty."""
    if label.match is not None:
        return label.match
    keys, item = action_keys(label, shown), shown.shown_key
    if item is not None and item not in keys:
        return ()
    others = [name for name in keys if name not in (item, "request")]
    tried = [["request"]] if "request" in keys else []
    tried += [["user"] if "user" in others else others] if others else []
    return tuple((*names, *([item] if item is not None else [])) for names in tried)


def measured_key(config: JobConfig) -> str | None:
    """Return the impression key whose shares `heavy_user` checks, or None if impressions lack it."""
    key = config.quality.heavy_user.key
    return key if key in config.impressions.entities else None


def check_references(config: JobConfig) -> list[Problem]:
    """Return all problems that are detectable without reading data."""
    # Report only the wrong source name, since it would cause errors in labels and views too.
    return list(_sources(config)) or [
        *_credentials(config),
        *_overlaps(config),
        *grain_problems(config),
        *_impressions(config),
        *_sampling(config),
        *_labels(config),
        *_served(config),
        *_keys_of_quality(config),
        *_views(config),
        *_chains(config),
        *_histories(config),
        *feature_problems(config),
        *_exempted(config),
        *_case(config),
    ]


def _sources(config: JobConfig) -> Iterator[Problem]:
    named = [("impressions", config.impressions.source)]
    named += [(f"labels.{name}", label.source) for name, label in actions_among(config.labels).items()]
    named += [(f"views.{name}", view.source) for name, view in config.views.items()]
    named += [(f"histories.{name}", history.source) for name, history in config.histories.items()]
    for place, wanted in named:
        if wanted not in config.sources:
            what = f"there is no source {wanted!r}{nearest(wanted, config.sources)}"
            yield Problem((*place.split("."), "source"), what)
    for name, source in config.sources.items():
        if (source.days_before or source.days_after) and not source.is_dated:
            key = "days_before" if source.days_before else "days_after"
            what = "has no effect, since the source has neither `{date}` in its path nor a `date_column`; remove it"
            yield Problem(("sources", name, key), what)
        if name not in {used for _, used in named}:
            yield Problem(("sources", name), "is never used; remove it, or use it in a view or label")
        needing = [place for place, used in named if used == name and place.startswith(("impressions", "labels."))]
        if source.may_be_absent and needing:
            what = f"is only for sources of views and histories: without rows `{needing[0]}` would be wrong; remove it"
            yield Problem(("sources", name, "optional"), what)


def check_secrets(document: Mapping[str, Any]) -> list[Problem]:
    """Find passwords written in the file, which would go into every manifest. ``document`` has ``${NAME}`` unfilled."""
    problems = []
    for name, source in (document.get("sources") or {}).items():
        password, url = str(source.get("password") or "${}"), str(source.get("url") or "")
        if not re.fullmatch(r"\$\{\w*\}", password) or _SECRET_IN_URL.search(url):
            problems.append(
                Problem(("sources", name, "url" if _SECRET_IN_URL.search(url) else "password"), _WRITTEN_OPENLY)
            )
    salt = (document.get("output") or {}).get("ids_salt")
    if salt is not None and "${" not in str(salt):
        problems.append(Problem(("output", "ids_salt"), _WRITTEN_OPENLY))
    return problems


_WRITTEN_OPENLY = (
    "holds a secret, which would be written into every manifest; put it into the environment and write `${NAME}`"
)
_SECRET_IN_URL = re.compile(
    rf"(?i)(?:^|[?&;,]){HIDDEN_PARAMETER}=(?!\$\{{)|//[^/@:]*:(?!\$\{{)[^@]*@|:thin:[^/@]*/(?!\$\{{)[^@]*@"
)


def _credentials(config: JobConfig) -> Iterator[Problem]:
    """Reject credentials in file URLs, which would appear in listings, plans and messages. Use the environment."""
    places: list[tuple[tuple[str, ...], str | None]] = [(("output", "path"), config.output.path)]
    places += [(("sources", name, "path"), path) for name, path in _paths(config)]
    places.append((("fitted", "path"), config.fitted.path if config.fitted else None))
    places.append((("partials", "path"), config.partials.path if config.partials else None))
    places.append((("from_samples",), config.from_samples))
    for where, address in places:
        if address and holds_credentials(address):
            yield Problem(where, CREDENTIALS_ELSEWHERE)


def _overlaps(config: JobConfig) -> Iterator[Problem]:
    """Reject outputs that overlap with inputs, since the next run would read them."""
    written = [("output", config.output.path)]
    written += [("fitted", config.fitted.path)] if config.fitted else []
    written += [("partials", config.partials.path)] if config.partials else []
    for section, place in written:
        for name, path in _paths(config):
            if how := overlap(path, place):
                what = f"found {place!r}, which {how} `sources.{name}.path: {path}`; choose another directory"
                yield Problem((section, "path"), what)


def _paths(config: JobConfig) -> list[tuple[str, str]]:
    """Return the names and paths of the file sources."""
    return [(name, source.path) for name, source in config.sources.items() if isinstance(source, FileSource)]


def _impressions(config: JobConfig) -> Iterator[Problem]:
    shown = config.impressions
    for name in shown.keys:
        if name in (*OWN_COLUMNS, "impression", "time"):
            hint = "give it as `impressions.request`" if name == "request" else "rename the key"
            yield Problem(("impressions", "keys", name), f"{name!r} is a name that every impression has; {hint}")
    for name in shown.columns:
        if name in (*OWN_COLUMNS, *shown.entities):
            yield Problem(("impressions", "columns", name), f"{name!r} is a name that every impression has; rename it")
    yield from order_problems(config)
    valid = [name for name in shown.column_names if name not in ("impression_id", "impression_time")]
    for name in shown.rates_by:
        if name not in valid:
            yield Problem(("impressions", "rates_by"), f"impressions have no column {name!r}{nearest(name, valid)}")
    skip = config.impressions.skip_above
    if skip is not None and skip not in config.labels:
        what = f"there is no label {skip!r}{nearest(skip, config.labels)}"
        yield Problem(("impressions", "skip_above"), what)
    elif skip is not None and not config.labels[skip].is_flag:
        yield Problem(("impressions", "skip_above"), f"label {skip!r} has a value; expected a label with `reduce: any`")


def _sampling(config: JobConfig) -> Iterator[Problem]:
    sampling, keys = config.sampling, config.impressions.entities
    if sampling is None:
        return
    if sampling.cap is not None and sampling.cap.key not in keys:
        key = sampling.cap.key
        yield Problem(("sampling", "cap", "key"), f"impressions have no key {key!r}{nearest(key, keys)}")
    if sampling.by == "request" and not config.request_identity:
        yield Problem(
            ("sampling", "by"), "no key tells which impressions form a request; set `impressions.request` or a user"
        )


def _served(config: JobConfig) -> Iterator[Problem]:
    keys = config.impressions.keys_and_request
    for name in config.served.keys:
        if name not in keys:
            yield Problem(("served", "keys", name), f"impressions have no key {name!r}{nearest(name, keys)}")
    for key in ("columns", "tolerance"):
        for name in getattr(config.served, key):
            if name not in config.features:
                yield Problem(("served", key, name), f"there is no feature {name!r}{nearest(name, config.features)}")


def _labels(config: JobConfig) -> Iterator[Problem]:
    shown = config.impressions
    taken = {"impression", *shown.column_names, *config.views, *config.histories}
    others = {*taken, *config.labels, *config.features}
    for name, label in config.labels.items():
        where = ("labels", name)
        if name in taken:
            yield Problem(where, f"{name!r} is also a view or a column of impressions; rename one")
        yield from (
            Problem(
                where, f"its mask {mask!r} is also a feature, a label, a view or a column of impressions; rename one"
            )
            for mask in _masks(name, label)
            if mask in others
        )
        if isinstance(label, ActionLabel):
            yield from _matching(where, label, shown)
        if label.after is not None:
            yield from _funnel((*where, "after"), name, config.labels)


def _matching(where: tuple[str, ...], label: ActionLabel, shown: Impressions) -> Iterator[Problem]:
    """Check that an action has a time, an item, and a key to match its impression."""
    elsewhere, item = label.source != shown.source, shown.shown_key
    if elsewhere and label.time is None:
        yield Problem(where, "needs `time`, since its source is not that of `impressions`")
    keys = action_keys(label, shown)
    for name in label.keys:
        if name not in shown.entities:
            yield Problem((*where, "keys", name), f"impressions have no key {name!r}{nearest(name, shown.entities)}")
    if label.match is None:
        if item is not None and item not in keys:
            key = item if item == "article" else f"keys.{item}"
            yield Problem(where, f"needs `{key}`, since its source is not that of `impressions`")
        elif not match_of(label, shown):
            yield Problem(
                where,
                "needs `request`, `user` or another key, set here and under `impressions`, to find its impression",
            )
        return
    there = shown.keys_and_request
    for name in dict.fromkeys(name for names in label.match for name in names):
        if name not in there:
            yield Problem((*where, "match"), f"impressions have no key {name!r}{nearest(name, there)}")
        elif name not in keys:
            key = name if name in ("user", "article", "request") else f"keys.{name}"
            yield Problem(where, f"needs `{key}`, which `match` names, since its source is not that of `impressions`")


def _exempted(config: JobConfig) -> Iterator[Problem]:
    """Check that ``without`` names existing features, views or labels."""
    judged = [*config.features, *config.views, *config.labels]
    for check in type(config.quality).model_fields:
        for name in getattr(config.quality, check).without:
            if name not in judged:
                what = f"there is no feature, view or label {name!r}{nearest(name, judged)}"
                yield Problem(("quality", check, "without"), what)


def _masks(name: str, label: Label) -> list[str]:
    """Return the mask columns of a label. A reduced label has one that says whether it has a value."""
    return [*([] if label.is_flag else [mask_of(name)]), *label.masks_of(name)]


def _funnel(where: tuple[str, ...], name: str, labels: Mapping[str, Label]) -> Iterator[Problem]:
    """Check that a label comes after another 0/1 label, and not after itself by way of others."""
    seen, first = [name], labels[name].after
    while first is not None and first not in seen:
        if first not in labels:
            yield Problem(where, f"there is no label {first!r}{nearest(first, labels)}")
            return
        if not labels[first].is_flag:
            yield Problem(where, f"{first!r} is a number, expected a label that is 0 or 1")
            return
        seen.append(first)
        first = labels[first].after
    if first == name:
        yield Problem(where, f"comes after itself: {' after '.join([*seen, name])}; remove one `after`")


def _views(config: JobConfig) -> Iterator[Problem]:
    for name, view in config.views.items():
        if name == "impression":
            yield Problem(("views", name), "'impression' names the impression itself; rename the view")
        yield from _joined_on(name, view, config)
        if isinstance(view, CountingView):
            yield from _looked_up(name, view, config)
        if isinstance(view, DailyCountView):
            yield from _counted(("views", name, "daily_counts"), view.daily_counts.counts, view.daily_counts.rates)
        if isinstance(view, WindowView):
            yield from _aggregates(("views", name, "aggregates"), view.aggregates)


def _joined_on(name: str, view: View, config: JobConfig) -> Iterator[Problem]:
    """Check that join keys are impression keys or columns of other views."""
    there = config.impressions.keys_and_request
    for part in view.joined_on:
        other, dot, column = part.partition(".")
        if view.entity is not None and part not in there:
            yield Problem(("views", name, "entity"), f"found {view.entity}, but `impressions.{part}` is not set")
        elif not dot and part not in there:
            valid = [*there, *[f"{v}.<column>" for v in config.views if v != name]]
            yield Problem(("views", name, "on"), f"impressions have no key {part!r}{nearest(part, valid)}")
        elif dot and other not in config.views:
            yield Problem(("views", name, "on"), f"there is no view {other!r}{nearest(other, config.views)}")
        elif dot and column.partition(".")[0].lower() in VIEW_METADATA:
            yield Problem(("views", name, "on"), f"{part!r} is no key; expected a column of the source of {other!r}")
        elif dot and config.views[other].counted is not None:
            what = f"{other!r} has counts and no keys; expected a view whose rows are those of its source"
            yield Problem(("views", name, "on"), what)


def _looked_up(name: str, view: CountingView, config: JobConfig) -> Iterator[Problem]:
    """Check that views under ``look_up`` have rows of their own, and as many keys as are given."""
    where = ("views", name, "look_up")
    for other, keys in view.look_up.items():
        found = config.views.get(other)
        if found is None:
            yield Problem(where, f"there is no view {other!r}{nearest(other, config.views)}")
        elif found.counted is not None:
            what = f"{other!r} has counts; expected a view whose rows are those of its source"
            yield Problem(where, what)
        elif len(found.keys) != len(keys):
            what = f"found {len(keys)} key(s) for {other!r}; expected one expression for each of its {len(found.keys)} `key`"
            yield Problem(where, what)


def _chains(config: JobConfig) -> Iterator[Problem]:
    """Reject cyclic dependencies between views."""
    for circle in _circles(config.views):
        path = " -> ".join((*circle, circle[0]))
        yield Problem(
            ("views", circle[0], "on"), f"the views wait for each other's keys ({path}); remove one of these `on`"
        )


def _circles(views: Mapping[str, View]) -> Iterator[tuple[str, ...]]:
    done: set[str] = set()

    def follow(name: str, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        if name in path:
            yield path[path.index(name) :]
        elif name in views and name not in done:
            for other in views[name].looked_up_in:
                yield from follow(other, (*path, name))
            done.add(name)

    for name in views:
        yield from follow(name, ())


def _keys_of_quality(config: JobConfig) -> Iterator[Problem]:
    heavy, keys = config.quality.heavy_user, config.impressions.entities
    if "key" in heavy.model_fields_set and heavy.key not in keys:
        what = f"impressions have no key {heavy.key!r}{nearest(heavy.key, keys)}"
        yield Problem(("quality", "heavy_user", "key"), what)


def _aggregates(where: tuple[str, ...], aggregates: Aggregates) -> Iterator[Problem]:
    yield from _counted(where, aggregates.counts, aggregates.rates)
    first: dict[str, str] = {}
    for kind in ("counts", "sums", "distinct"):
        for name in getattr(aggregates, kind):
            if name in first:
                yield Problem((*where, kind, name), f"{name!r} is also one of `{first[name]}`; rename one")
            first.setdefault(name, kind)
    for name in aggregates.rates:
        if first.get(name, "counts") != "counts":
            yield Problem((*where, "rates", name), f"{name!r} is also one of `{first[name]}`; rename one")


def _counted(where: tuple[str, ...], counts: Mapping[str, str], rates: Mapping[str, Rate]) -> Iterator[Problem]:
    for name, rate in rates.items():
        for key, used in (("count", rate.count), ("of", rate.of)):
            if used not in counts:
                yield Problem((*where, "rates", name, key), f"there is no count {used!r}{nearest(used, counts)}")
        if name in counts:
            yield Problem((*where, "rates", name), f"{name!r} is a count too; rename one")


def inherited(history: History, shown: Impressions) -> History:
    """Return a history with the values inherited from ``impressions``, if both come from the same log."""
    own = {name: getattr(history, name) for name in ("time", "key", "item", "request")}
    own["key"] = history.key or history.user
    if history.source == shown.source:
        item = shown.entities.get(shown.shown_key or "")
        there = {"time": shown.time, "key": shown.entities.get(history.on), "item": item, "request": shown.request}
        own = {name: text or there[name] for name, text in own.items()}
    return history.model_copy(update=own)


def _histories(config: JobConfig) -> Iterator[Problem]:
    for name, history in config.histories.items():
        where = ("histories", name)
        if name == "impression" or name in config.views:
            yield Problem(where, f"{name!r} names the impression or a view; rename the history")
        if history.on not in config.impressions.entities:
            if history.on == "user":
                yield Problem(where, "needs `impressions.user`, which is not set")
            else:
                near = nearest(history.on, config.impressions.entities)
                yield Problem((*where, "on"), f"impressions have no key {history.on!r}{near}")
            continue
        for key in ("time", "key", "item"):
            if getattr(inherited(history, config.impressions), key) is None:
                said = "user" if key == "key" and history.on == "user" else key
                yield Problem(where, f"needs `{said}`, since its source is not that of `impressions`")
        if history.request is not None and config.impressions.request is None:
            yield Problem((*where, "request"), "has no effect, since `impressions.request` is not set; remove it")
        for column in history.columns:
            if column in HISTORY_COLUMNS:
                yield Problem((*where, "columns", column), f"{column!r} is a name that every history has; rename it")


def _case(config: JobConfig) -> Iterator[Problem]:
    """Reject names that differ only in case, since column names in Spark are case-insensitive."""
    labels = [
        (column, ("labels", name)) for name, label in config.labels.items() for column in (name, *_masks(name, label))
    ]
    samples = [(name, ()) for name in RESERVED_FEATURES]
    yield from _meeting([*samples, *labels, *[(name, ("features", name)) for name in config.features]])
    built_in: list[tuple[str, tuple[str, ...]]] = [(name, ()) for name in ("impression", *OWN_COLUMNS)]
    built_in += [(name, ("impressions", "keys", name)) for name in config.impressions.entities]
    columns = [(name, ("impressions", "columns", name)) for name in config.impressions.columns]
    views = [(name, ("views", name)) for name in config.views]
    histories = [(name, ("histories", name)) for name in config.histories]
    yield from _meeting([*built_in, *columns, *labels, *views, *histories])
    for name, view in config.views.items():
        if view.counted is not None:
            key = "daily_counts" if isinstance(view.counted, DailyCounts) else "aggregates"
            yield from _meeting([(column, ("views", name, key)) for column in view.counted.column_names])
    for name, history in config.histories.items():
        own = [(column, ("histories", name, "columns", column)) for column in history.columns]
        yield from _meeting([*[(column, ()) for column in HISTORY_COLUMNS], *own])


def _meeting(names: Iterable[tuple[str, tuple[str, ...]]]) -> Iterator[Problem]:
    first: dict[str, str] = {}
    for name, where in names:
        other = first.setdefault(name.casefold(), name)
        if name != other:
            yield Problem(where, f"{name!r} and {other!r} differ only in case, which Spark ignores; rename one")
