"""Checks of features against the rest of the configuration: views, columns, vocabularies, other features, layout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from ctr_samples.config.base import (
    HISTORY_COLUMNS,
    LEGACY_LABEL,
    RESERVED_FEATURES,
    VIEW_METADATA,
)
from ctr_samples.config.feature import Feature
from ctr_samples.config.job import JobConfig
from ctr_samples.config.problems import Problem, nearest
from ctr_samples.config.rules import MOST_MULTI_HOT
from ctr_samples.graph import dotted, names_in

LEGACY_SIZE = 121

_QUOTED = "; put a name with characters other than letters, digits and `_` between backticks"


def feature_problems(config: JobConfig) -> Iterator[Problem]:
    """Yield all problems of features that are detectable without reading data."""
    used = {other for view in config.views.values() for other in view.needed_views}
    for name, feature in config.features.items():
        if name in config.labels or name in RESERVED_FEATURES:
            yield Problem(("features", name), "is the name of a label or of a column that the job adds; rename it")
        yield from _sources(config, name, feature, used)
        yield from _crossed(config, name, feature)
        yield from _vocabulary(config, name, feature)
    for name in config.views:
        if name not in used:
            yield Problem(("views", name), "is used by no feature; remove it, or make a feature from it")
    for name in config.histories:
        if name not in used:
            yield Problem(("histories", name), "is used by no feature; remove it, or make a feature from it")
    yield from _fitted(config)
    yield from _layout(config)


def width(config: JobConfig, feature: Feature) -> int | None:
    """Return the number of values of a feature per sample, or None if it varies."""
    if feature.multi_hot:
        return ids_of(config, feature)
    return None if feature.ragged else prod(feature.shape)


def ids_of(config: JobConfig, feature: Feature) -> int | None:
    """Return the number of ids of a feature, including id 0. None if it has no ids or its vocabulary does not exist."""
    return feature.kind.ids(feature, config.vocabularies) or None


def _sources(config: JobConfig, name: str, feature: Feature, used: set[str]) -> Iterator[Problem]:
    structs = {one.lower(): one for one in ("impression", *config.views, *config.histories)}
    for key, text in feature.texts.items():
        place = ("features", name, *key.split("."))
        if key not in ("expr", "at") and len(dotted(text) or ()) < 2:
            yield Problem(place, f"{text!r} is not of the form `<view>.<column>` or `impression.<column>`{_QUOTED}")
            return
        paths = names_in(text)
        used.update(structs.values() if paths is None else (structs.get(path[0].lower(), "") for path in paths))
        for root, *fields in paths or ():
            unknown = _unknown_column(config, structs.get(root.lower(), root), fields[0]) if fields else ()
            yield from (Problem(place, what) for what in unknown)


def _crossed(config: JobConfig, name: str, feature: Feature) -> Iterator[Problem]:
    for other in feature.cross or ():
        crossed = config.features.get(other)
        if crossed is None or other == name:
            continue
        if crossed.cross is not None:
            what = f"{other!r} is itself a cross; name the features it is made from"
            yield Problem(("features", name, "cross"), what)
        elif crossed.is_list or crossed.multi_hot or crossed.dtype not in ("int64", "string"):
            what = f"{other!r} is not a single integer or text; bucketise numbers with `boundaries` first"
            yield Problem(("features", name, "cross"), what)


def _vocabulary(config: JobConfig, name: str, feature: Feature) -> Iterator[Problem]:
    if feature.vocabulary is None:
        return
    vocabulary = config.vocabularies.get(feature.vocabulary)
    if vocabulary is None:
        return
    if feature.multi_hot and vocabulary.buckets > MOST_MULTI_HOT:
        what = f"{feature.vocabulary!r} has {vocabulary.buckets} ids and `multi_hot` is for at most {MOST_MULTI_HOT}"
        yield Problem(("features", name, "multi_hot"), f"{what}; store the ids and let the model embed them")
    elif feature.computed == "model" and vocabulary.oov_buckets > 1:
        what = "a model cannot repeat the hash that chooses an OOV bucket; set `oov_buckets: 1`, or compute it in the sample"
        yield Problem(("features", name, "computed"), what)


def _fitted(config: JobConfig) -> Iterator[Problem]:
    needing = [name for name, feature in config.features.items() if feature.is_fitted]
    if needing and config.fitted is None:
        what = f"is missing, but the feature {needing[0]!r} needs fitted state; set `path`, where it is kept"
        yield Problem(("fitted",), what)
    if config.fitted is not None and not needing:
        yield Problem(("fitted",), "has no effect: no feature has `vocabulary`, `scale` or `quantiles`; remove it")
    used = {feature.vocabulary for feature in config.features.values()}
    for name in config.vocabularies:
        if name not in used:
            yield Problem(("vocabularies", name), "is used by no feature; remove it")


def _layout(config: JobConfig) -> Iterator[Problem]:
    layout = config.output.layout
    if layout == "columns":
        return
    if layout == "sequence":
        if not any(feature.ragged for feature in config.features.values()):
            yield Problem(
                ("output", "layout"), "`sequence` needs a feature with `ragged: true`, which becomes a FeatureList"
            )
        return
    for name, feature in config.features.items():
        if problem := _not_in_a_vector(layout, feature):
            yield Problem(("features", name), f"{problem}, so it cannot be part of the `{layout}` layout")
        if layout == "legacy_121" and name == LEGACY_LABEL:
            yield Problem(("features", name), "is what the `legacy_121` layout calls the label; rename it")
    total = sum(width(config, feature) or 0 for feature in config.features.values())
    if layout == "legacy_121" and total != LEGACY_SIZE:
        yield Problem(("output", "layout"), f"`legacy_121` needs {LEGACY_SIZE} numbers, but the features have {total}")
    flags = [label.is_flag for label in config.labels.values()]
    masks = any(label.masks for label in config.labels.values())
    if layout == "legacy_121" and (flags != [True] or masks or config.sampling is not None):
        what = "`legacy_121` records hold one label of `reduce: any`, no mask and no weight: keep one such label, no `sampling`"
        yield Problem(("output", "layout"), what)


def _not_in_a_vector(layout: str, feature: Feature) -> str | None:
    if feature.dtype not in ("int64", "float32") or feature.encoding != "list":
        return "is not a number"
    if feature.nulls == "omit":
        return "is left out of samples without a value"
    if feature.ragged and (layout != "sparse" or not feature.makes_ids):
        return "has lists of any length"
    if layout == "sparse" and feature.computed == "model":
        return "is computed in the model"
    return None


def _unknown_column(config: JobConfig, view: str, column: str) -> Iterator[str]:
    if view == "impression":
        valid = config.impressions.column_names
        if not _is_among(column, valid):
            yield f"impressions have no column {column!r}{nearest(column, valid)}"
        return
    if view in config.histories:
        valid = [*HISTORY_COLUMNS, *config.histories[view].columns]
        if not _is_among(column, valid):
            yield f"history {view!r} has no column {column!r}{nearest(column, valid)}"
        return
    if view not in config.views:
        yield f"there is no view {view!r}{nearest(view, [*config.views, *config.histories, 'impression'])}"
        return
    counted = config.views[view].counted
    if counted is not None:
        valid = [*counted.column_names, *VIEW_METADATA]
        if not _is_among(column, valid):
            yield f"view {view!r} has no column {column!r}{nearest(column, valid)}"


def _is_among(column: str, valid: Sequence[str]) -> bool:
    return column.lower() in (one.lower() for one in valid)
