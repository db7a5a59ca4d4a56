"""Pseudonyms for users, requests and other keys in published files: page, metrics document, and manifest samples.

Every key may identify a person, except the key of the shown item.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ctr_samples.config import JobConfig, View
from ctr_samples.graph import names_in
from ctr_samples.quality.feature_facts import FeatureFacts
from ctr_samples.quality.metrics import ClickRate, Measured

ORPHAN_SAMPLE = "orphan_sample"
"""Manifest key for examples of actions without an impression."""


@dataclass(frozen=True, slots=True)
class Pseudonyms:
    """Pseudonyms computed as salted digests. Equal ids have equal pseudonyms, so a user can be traced across days.

    Unless the salt is secret, anyone with a list of all ids can compute the pseudonyms. ``features`` names the features
    that hold ids, and ``columns`` the columns of impressions.
    """

    salt: str
    features: frozenset[str] = frozenset()
    open: frozenset[str] = frozenset({"time", "article"})
    """Orphan fields that stay unchanged."""
    columns: frozenset[str] = frozenset()

    def of(self, value: object) -> str:
        """Return the pseudonym of an id of any type: ``~1f3a...``."""
        return f"~{hashlib.blake2b(str(value).encode(), key=_key(self.salt), digest_size=8).hexdigest()}"

    def applied(self, measured: Measured) -> Measured:
        """Return the measures with all user and request ids replaced."""
        users, rate = measured.users, measured.click_rate
        if users is not None:
            users = replace(users, heaviest=tuple(replace(user, user=self.of(user.user)) for user in users.heaviest))
        features = {
            name: self._feature(feature) if name in self.features else feature
            for name, feature in measured.features.items()
        }
        return replace(measured, users=users, features=features, click_rate=rate and self._rate(rate))

    def in_labels(self, labels: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        """Return the label counts with pseudonyms in the orphan samples."""
        return {
            name: {
                **counts,
                **{key: [*map(self._orphan, counts[key])] for key in (ORPHAN_SAMPLE,) if key in counts},
            }
            for name, counts in labels.items()
        }

    def ids_in(self, measured: Measured | None, labels: Mapping[str, Mapping[str, Any]]) -> set[str]:
        """Return what stands for users, requests and other keys in a document and in orphan samples, as text."""
        listing = _Listing(self.salt, self.features, self.open, self.columns)
        if measured is not None:
            listing.applied(measured)
        listing.in_labels(labels)
        return listing.seen

    def _orphan(self, orphan: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value if value is None or key in self.open else self.of(value) for key, value in orphan.items()}

    def _rate(self, rate: ClickRate) -> ClickRate:
        hidden = {
            name: tuple(one if one.value is None else replace(one, value=self.of(one.value)) for one in values)
            for name, values in rate.by_column.items()
            if name in self.columns
        }
        return replace(rate, by_column={**rate.by_column, **hidden})

    def _feature(self, feature: FeatureFacts) -> FeatureFacts:
        """Remove the figures that would reveal values."""
        splits = {}
        for split, facts in feature.splits.items():
            top = facts.top and tuple(replace(one, value=self.of(one.value)) for one in facts.top)
            splits[split] = replace(facts, min=None, max=None, mean=None, quantiles=None, cdf=None, top=top)
        return replace(feature, splits=splits)


@dataclass(frozen=True, slots=True)
class _Listing(Pseudonyms):
    """Keeps each id that it is asked for."""

    seen: set[str] = field(default_factory=set)

    def of(self, value: object) -> str:
        self.seen.add(str(value))
        return ""


def pseudonyms_of(config: JobConfig) -> Pseudonyms | None:
    """Return the pseudonyms of a configuration, or None if it requests raw ids."""
    return None if config.output.ids == "raw" else places_of_ids(config)


def places_of_ids(config: JobConfig) -> Pseudonyms:
    """Return the pseudonyms of a configuration, even if it requests raw ids."""
    shown, persons = config.impressions, _persons(config)
    return Pseudonyms(
        config.output.ids_salt or config.name,
        # Hash buckets identify nobody.
        frozenset(name for name in reading_persons(config) if not config.features[name].makes_ids),
        frozenset({"time", shown.shown_key or "article"}),
        frozenset(one for one in shown.rates_by if one in persons or shown.columns.get(one) in persons.values()),
    )


def _persons(config: JobConfig) -> dict[str, str]:
    """Return the keys of impressions that may identify a person, with their expressions."""
    shown = config.impressions
    return {name: text for name, text in shown.keys_and_request.items() if name != shown.shown_key}


def reading_persons(config: JobConfig) -> list[str]:
    """Return the features made from user or request ids, also those that map them to numbers."""
    graph, persons = config.graph, _persons(config)
    columns = [name for name, text in config.impressions.columns.items() if text in persons.values()]
    places = {"impressions": ["user", "request", *persons, *columns]}
    places |= {f"views.{name}": _personal_keys(view, persons) for name, view in config.views.items()}
    return [
        name for name in config.features if any(graph.reads_any(f"features.{name}", *one) for one in places.items())
    ]


def _personal_keys(view: View, persons: Mapping[str, str]) -> list[str]:
    """Return the view columns of which a key is made that identifies a person."""
    texts = [text for on, text in zip(view.joined_on, view.keys, strict=True) if on in persons]
    return [path[0] for text in texts for path in names_in(text) or ()]


def _key(salt: str) -> bytes:
    return hashlib.sha256(salt.encode()).digest()
