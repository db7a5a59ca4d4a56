"""Cross-reference checks of the configuration, such as unknown names and missing keys."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

from ctr_samples.addresses import CREDENTIALS_ELSEWHERE, holds_credentials, overlap
from ctr_samples.config.base import HISTORY_COLUMNS, OWN_COLUMNS, RESERVED_FEATURES, VIEW_METADATA, mask_of
from ctr_samples.config.counting import Aggregates, DailyCounts
from ctr_samples.config.feature_checks import feature_problems
from ctr_samples.config.grain import grain_problems
from ctr_samples.config.impressions import Impressions
from ctr_samples.config.job import JobConfig
from ctr_samples.config.label import ActionLabel, Label, actions_among
from ctr_samples.config.masking import HIDDEN_PARAMETER
from ctr_samples.config.order import order_problems
from ctr_samples.config.problems import Problem, nearest
from ctr_samples.config.source import FileSource
from ctr_samples.config.view import CountingView, DailyCountView, View, WindowView


def check_references(config: JobConfig) -> list[Problem]:
    """Return all problems that are detectable without reading data."""
    # Report only the wrong source name, since it would cause errors in labels and views too.
    return list(_sources(config)) or [
        *_credentials(config),
        *_overlaps(config),
        *grain_problems(config),
        *_impressions(config),
        *_labels(config),
        *_names(config),
        *_views(config),
        *_chains(config),
        *_histories(config),
        *feature_problems(config),
        *_case(config),
    ]


_Named = tuple[tuple[str, ...], str, str, Collection[str]]
"""Where a name stands, what is said if there is no such one, the name, and the valid ones."""
_NO_KEY = "impressions have no key"


def _names(config: JobConfig) -> Iterator[Problem]:
    """Look up each name that stands for something in another section."""
    for where, what, name, valid in (*_of_samples(config), *_of_views(config), *_of_features(config), *_judged(config)):
        if name not in valid:
            yield Problem(where, f"{what} {name!r}{nearest(name, valid)}")


def _of_samples(config: JobConfig) -> Iterator[_Named]:
    shown = config.impressions
    columns = [name for name in shown.column_names if name not in ("impression_id", "impression_time")]
    for name in shown.rates_by:
        yield ("impressions", "rates_by"), "impressions have no column", name, columns
    if shown.skip_above is not None:
        yield ("impressions", "skip_above"), "there is no label", shown.skip_above, config.labels
    for name, label in actions_among(config.labels).items():
        for key in label.keys:
            yield ("labels", name, "keys", key), _NO_KEY, key, shown.entities
        for key in dict.fromkeys(key for keys in label.match or () for key in keys):
            yield ("labels", name, "match"), _NO_KEY, key, shown.keys_and_request
    if config.sampling is not None and config.sampling.cap is not None:
        yield ("sampling", "cap", "key"), _NO_KEY, config.sampling.cap.key, shown.entities


def _of_views(config: JobConfig) -> Iterator[_Named]:
    for name, view in config.views.items():
        for other in view.look_up if isinstance(view, CountingView) else ():
            yield ("views", name, "look_up"), "there is no view", other, config.views
        if isinstance(view, DailyCountView | WindowView):
            kind = "daily_counts" if isinstance(view, DailyCountView) else "aggregates"
            for of, rate in view.counted.rates.items():
                for key, used in (("count", rate.count), ("of", rate.of)):
                    yield ("views", name, kind, "rates", of, key), "there is no count", used, view.counted.counts


def _of_features(config: JobConfig) -> Iterator[_Named]:
    for name, feature in config.features.items():
        if feature.vocabulary is not None:
            yield ("features", name, "vocabulary"), "there is no vocabulary", feature.vocabulary, config.vocabularies
        for other in feature.cross or ():
            others = [one for one in config.features if one != name]
            yield ("features", name, "cross"), "there is no other feature", other, others


def _judged(config: JobConfig) -> Iterator[_Named]:
    """Yield the names in the sections that compare samples with others: ``served`` and ``quality``."""
    served, quality, keys = config.served, config.quality, config.impressions.keys_and_request
    yield from ((("served", "keys", key), _NO_KEY, key, keys) for key in served.keys)
    for key, features in (("columns", served.columns), ("tolerance", served.tolerance)):
        yield from ((("served", key, name), "there is no feature", name, config.features) for name in features)
    if "key" in quality.heavy_user.model_fields_set:
        yield ("quality", "heavy_user", "key"), _NO_KEY, quality.heavy_user.key, config.impressions.entities
    judged = [*config.features, *config.views, *config.labels]
    for check in type(quality).model_fields:
        for name in getattr(quality, check).without:
            yield ("quality", check, "without"), "there is no feature, view or label", name, judged


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
    skip = shown.skip_above
    if skip in config.labels and not config.labels[skip].is_flag:
        yield Problem(("impressions", "skip_above"), f"label {skip!r} has a value; expected a label with `reduce: any`")
    if config.sampling is not None and config.sampling.by == "request" and not config.request_identity:
        what = "no key tells which impressions form a request; set `impressions.request` or a user"
        yield Problem(("sampling", "by"), what)


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
    keys = label.keys_with(shown)
    if label.match is None:
        if item is not None and item not in keys:
            key = item if item == "article" else f"keys.{item}"
            yield Problem(where, f"needs `{key}`, since its source is not that of `impressions`")
        elif not label.matches(shown):
            yield Problem(
                where,
                "needs `request`, `user` or another key, set here and under `impressions`, to find its impression",
            )
    for name in dict.fromkeys(name for names in label.match or () for name in names):
        if name in shown.keys_and_request and name not in keys:
            key = name if name in ("user", "article", "request") else f"keys.{name}"
            yield Problem(where, f"needs `{key}`, which `match` names, since its source is not that of `impressions`")


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
            yield from _rates(("views", name, "daily_counts"), view.daily_counts)
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
            continue
        if found.counted is not None:
            what = f"{other!r} has counts; expected a view whose rows are those of its source"
            yield Problem(where, what)
        elif len(found.keys) != len(keys):
            what = f"found {len(keys)} key(s) for {other!r}; expected one expression for each of its {len(found.keys)} `key`"
            yield Problem(where, what)


def _chains(config: JobConfig) -> Iterator[Problem]:
    """Reject cyclic dependencies between views."""
    try:
        TopologicalSorter({name: view.looked_up_in for name, view in config.views.items()}).prepare()
    except CycleError as error:
        circle = error.args[1][::-1]
        what = f"the views wait for each other's keys ({' -> '.join(circle)}); remove one of these `on`"
        yield Problem(("views", circle[0], "on"), what)


def _aggregates(where: tuple[str, ...], aggregates: Aggregates) -> Iterator[Problem]:
    yield from _rates(where, aggregates)
    first: dict[str, str] = {}
    for kind in ("counts", "sums", "distinct"):
        for name in getattr(aggregates, kind):
            if name in first:
                yield Problem((*where, kind, name), f"{name!r} is also one of `{first[name]}`; rename one")
            first.setdefault(name, kind)
    for name in aggregates.rates:
        if first.get(name, "counts") != "counts":
            yield Problem((*where, "rates", name), f"{name!r} is also one of `{first[name]}`; rename one")


def _rates(where: tuple[str, ...], counted: Aggregates | DailyCounts) -> Iterator[Problem]:
    for name in counted.rates:
        if name in counted.counts:
            yield Problem((*where, "rates", name), f"{name!r} is a count too; rename one")


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
            if getattr(config.history(name), key) is None:
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
