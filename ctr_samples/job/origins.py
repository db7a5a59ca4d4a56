"""What each part of a sample is made from, as values that can be compared: the rows, each label, each feature.

A value has the configuration of the part and of all that it uses, the fingerprints of their files, the fitted state and the
release. Parts with equal values have equal bytes. What a part uses is what the graph says that it reads, which may be too
much, so that more is compared than is needed, but never too little.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from ctr_samples.config import ActionLabel, JobConfig, LoadedConfig, RowLabel
from ctr_samples.config.document import deciding_names, filled, names
from ctr_samples.config.masking import changed
from ctr_samples.graph import Graph
from ctr_samples.shards import Manifest

Origin = Mapping[str, Any]
"""What a part is made from, as plain values by name."""

_OF_NO_ROW = ("columns", "rates_by")
"""Keys of impressions that decide neither which samples there are nor their order."""


@dataclass(frozen=True, slots=True)
class Origins:
    """What a generation is made from. ``rows`` decides which samples there are, and their order, splits and partitions."""

    rows: Origin
    labels: Mapping[str, Origin]
    features: Mapping[str, Origin]
    measures: Origin
    """What is measured of impressions, besides labels and features."""

    @classmethod
    def of(
        cls,
        config: JobConfig,
        files: Mapping[str, Any],
        fitted: Any,
        release: str,
        label_files: Mapping[str, Any] | None = None,
        tied: Collection[str] = (),
    ) -> Origins:
        """Return the origins of a run. ``files`` are the fingerprints of the sources, ``label_files`` those that labels
        are made from if these differ, and ``fitted`` that of the state. ``tied`` has what :func:`tied_in` finds in the
        generation with which they are compared.
        """
        plain = config.model_dump(mode="json", by_alias=True)
        return _Finder(config, Graph.of(plain), plain, files, label_files or files, fitted, release, tied).origins()

    @classmethod
    def of_manifest(cls, manifest: Manifest, values: Mapping[str, str]) -> Origins | None:
        """Return the origins of a published generation, or None if its configuration is not that of this release, or if
        changes of an input cannot be told. ``values`` has today's value of each ``${NAME}``; a part in which one has
        another value than then is equal to no part of today.
        """
        files = _files_of(manifest)
        if not manifest.fingerprint or None in files.values():
            return None
        try:
            # A value of then is not known. That of today has the right type, and what uses it is marked.
            document = filled(dict(manifest.config), lambda name, _: values.get(name, f"${{{name}}}"))
            config = JobConfig.model_validate(document)
        except ValidationError:
            return None
        plain = config.model_dump(mode="json", by_alias=True)
        marked = _marked(plain, manifest.config, changed_values(manifest, values))
        of_then = fitted_in(manifest), manifest.release
        is_old = manifest.tied_repeats is None
        return _Finder(config, Graph.of(plain), marked, files, files, *of_then, tied_in(manifest), is_old).origins()


def tied_in(manifest: Manifest) -> set[str]:
    """Return ``impressions`` and ``views.NAME`` if only their content told some of their rows apart, or may have. Such a row
    is chosen by the columns that its configuration needs, so that other columns may choose another one.
    """
    counts = {f"views.{name}": manifest.views.get(name, {}).get("ties") for name in manifest.config.get("views") or {}}
    return {name for name, count in {"impressions": manifest.tied_repeats, **counts}.items() if count != 0}


def changed_values(manifest: Manifest, values: Mapping[str, str]) -> list[str]:
    """Return each ``${NAME}`` on which the samples of a generation depend and whose value is not surely that of then."""
    return sorted(changed(deciding_names(manifest.config), values, manifest.environment))


def _files_of(manifest: Manifest) -> dict[str, Any]:
    return {name: facts.get("fingerprint") for name, facts in manifest.inputs.items()}


def fitted_in(manifest: Manifest) -> Any:
    """Return the fingerprint of the fitted state of a generation, or None if nothing was fitted."""
    return (manifest.contract.get("state") or {}).get("fingerprint")


def _marked(plain: Mapping[str, Any], document: Mapping[str, Any], others: Collection[str]) -> dict[str, Any]:
    """Return the entries of a configuration such that those written with one of the ``others`` differ from all without."""
    marked = dict(plain)
    for key, written in document.items():
        if isinstance(written, Mapping) and isinstance(marked.get(key), Mapping):
            marked[key] = _marked(marked[key], written, others)
        elif used := {*names(written)} & {*others}:
            marked[key] = {"as it is": marked.get(key), "with other values of": sorted(used)}
    return marked


@dataclass(frozen=True, slots=True)
class _Finder:
    """Finds what the parts of one configuration use. ``plain`` is the configuration with all defaults, as plain values."""

    config: JobConfig
    graph: Graph
    plain: Mapping[str, Any]
    files: Mapping[str, Any]
    label_files: Mapping[str, Any]
    fitted: Any
    release: str
    tied: Collection[str]
    is_old: bool = False
    """Whether the samples are from before some rules were mended, under the same number of the release."""

    def origins(self) -> Origins:
        config = self.config
        rows = self._rows()
        labels = {name: self._label(name) for name in config.labels}
        if config.sampling is not None or config.impressions.skip_above is not None:
            rows["labels"] = labels
        features = {name: dict(self._feature(name)) for name in config.features}
        measures = {"rates_by": config.impressions.rates_by, "heavy_user": config.measured_key}
        return Origins(rows, labels, features, measures)

    def _rows(self) -> dict[str, Any]:
        shown = {key: value for key, value in self.plain["impressions"].items() if key not in _OF_NO_ROW}
        output = {key: self.plain["output"][key] for key in ("partitions", "order", "layout")}
        whole = {key: self.plain[key] for key in ("grain", "timezone", "split", "sampling")}
        rows = {name: label for name, label in self.config.labels.items() if isinstance(label, RowLabel)}
        content = [
            *self.plain["impressions"]["columns"].items(),
            *[(name, self.plain["labels"][name]) for name in rows],
        ]
        return {
            **whole,
            **({"columns that tell repeats apart": content} if "impressions" in self.tied else {}),
            **({"what repeats an impression of a request": "as far as was read"} if self._repeats_otherwise() else {}),
            **dict(self._columns("sampling")),
            "impressions": shown,
            "output": output,
            "release": self.release,
            **dict(self._source(self.config.impressions.source)),
        }

    def _repeats_otherwise(self) -> bool:
        shown = self.config.impressions
        reads_more = self.config.grain != "day" or self.config.sources[shown.source].days_before > 0
        return self.is_old and shown.repeats_by_day and reads_more

    def _label(self, name: str) -> dict[str, Any]:
        label, shown = self.config.labels[name], self.config.impressions.source
        of_actions = {} if not isinstance(label, ActionLabel) else dict(self._source(label.source, self.label_files))
        # A later impression can take an action.
        return {
            "label": self.plain["labels"][name],
            "release": self.release,
            **of_actions,
            **dict(self._source(shown, self.label_files)),
        }

    def _feature(self, name: str) -> Iterator[tuple[str, Any]]:
        """Yield what a feature is made from, each with its name."""
        yield "release", self.release
        yield "timezone", self.config.timezone
        for part in self.graph.needed(f"features.{name}", without=("impressions",)):
            kind, _, own = part.partition(".")
            if kind == "features":
                yield from self._of_feature(part, own, "definition" if own == name else part)
            elif kind == "sources":
                yield from self._source(own)
            elif kind in ("views", "histories", "vocabularies"):
                yield part, self.plain[kind][own]
            if part in self.tied and kind == "views":
                yield f"columns that tell rows of {part} apart", self._columns_of(own)

    def _of_feature(self, part: str, name: str, said: str) -> Iterator[tuple[str, Any]]:
        """Yield what belongs to a feature, or to one that it crosses, alone."""
        feature = self.config.features[name]
        yield said, self.plain["features"][name]
        if feature.hash_buckets and not feature.salt:
            yield f"salt of {said}", name
        if feature.is_fitted:
            yield "fitted state", self.fitted
        if feature.scale or feature.quantiles:
            yield f"fitted for {said}", name  # moments and quantiles belong to a name, ids to a vocabulary
        yield from self._columns(part)
        reads_views = any(one.startswith("views.") for one in self.graph.reads[part])
        if self.is_old and (feature.top_k is not None or (feature.vocabulary is not None and reads_views)):
            yield "ids of rows that are absent, and the order of large numbers", "as before"

    def _columns_of(self, view: str) -> list[str]:
        """Return the expressions that may read a column of a view, in the order in which they are read."""
        reading = [self.config.features[name] for name in self.graph.features(f"views.{view}")]
        texts = [text for one in reading for text in one.texts.values()]
        keys = [part for one in self.config.views.values() for part in one.joined_on if part.startswith(f"{view}.")]
        return list(dict.fromkeys([*texts, *keys]))

    def _columns(self, part: str) -> Iterator[tuple[str, Any]]:
        for name, text in self.plain["impressions"]["columns"].items():
            if self.graph.reads_any(part, "impressions", (name,)):
                yield f"impressions.columns.{name}", text

    def _source(self, name: str, files: Mapping[str, Any] | None = None) -> Iterator[tuple[str, Any]]:
        yield f"sources.{name}", self.plain["sources"][name]
        yield f"files of {name}", (files or self.files).get(name)


def differences(now: Origin, before: Origin) -> list[str]:
    """Return the names of what differs between two origins of a part."""
    return [name for name in dict.fromkeys([*now, *before]) if now.get(name) != before.get(name)]


def changed_parts(loaded: LoadedConfig, manifest: Manifest) -> list[str]:
    """Return the parts of a generation that a configuration makes otherwise from the same inputs. Empty if none is known."""
    before = Origins.of_manifest(manifest, loaded.values)
    if before is None:
        return []
    of_then = _files_of(manifest), fitted_in(manifest), manifest.release
    now = Origins.of(loaded.config, *of_then, tied=tied_in(manifest))
    of_rows = [name for name in differences(now.rows, before.rows) if name != "labels"]
    labels = [f"labels.{name}" for name in differences(now.labels, before.labels)]
    return [*of_rows, *labels, *[f"features.{name}" for name in differences(now.features, before.features)]]


def changed_features(now: Origins, before: Origins) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Return the features that are made from other values, with the names of what differs (``new`` for a new feature), and
    those that only have another name, with the one they had.
    """
    then = {_key(origin): name for name, origin in before.features.items()}
    changed, renamed = {}, {}
    for name, origin in now.features.items():
        earlier = before.features.get(name)
        if earlier == origin:
            continue
        if (key := _key(origin)) in then:
            renamed[name] = then[key]
        else:
            changed[name] = ["new"] if earlier is None else differences(origin, earlier)
    return changed, renamed


def _key(origin: Origin) -> str:
    return json.dumps(origin, sort_keys=True, default=str)
