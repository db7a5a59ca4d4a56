"""The words behind ids on the page: tokens of vocabularies, limits of buckets, names of weekdays and months."""

from __future__ import annotations

import calendar
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from ctr_samples.config import Feature, JobConfig
from ctr_samples.feature_rules import BUCKETED, HASHED, PART_OF_A_TIME, TOKEN
from ctr_samples.quality.feature_facts import FeatureFacts, TopValue
from ctr_samples.quality.pseudonyms import reading_persons
from ctr_samples.vocabulary import FIRST_OOV, MISSING, NOTHING_FITTED, PADDING, FittedState, FittedVocabulary

Words = Callable[[int], str]
"""Maps an id to its words, or to ``""`` if the id has none."""

_PARTS: Mapping[str, Sequence[str]] = {
    "weekday": [*calendar.day_name],
    "month": ["", *calendar.month_name[1:]],
    "weekend": ("Monday to Friday", "weekend"),
}


def words_of(config: JobConfig, state: FittedState | None) -> dict[str, Words]:
    """Return the words of each feature whose ids have some. Tokens of users and requests stay unknown, unless the
    configuration requests raw ids.
    """
    persons = frozenset(reading_persons(config)) if config.output.ids == "pseudonyms" else frozenset()
    found = {
        name: _words(name, feature, state or NOTHING_FITTED)
        for name, feature in config.features.items()
        if name not in persons and feature.is_id and feature.computed == "sample"
    }
    return {name: words for name, words in found.items() if words}


def with_words(features: Mapping[str, FeatureFacts], words: Mapping[str, Words]) -> dict[str, FeatureFacts]:
    """Add to the frequent ids of each feature the words behind them."""
    return {name: _told(feature, words[name]) if name in words else feature for name, feature in features.items()}


def _told(feature: FeatureFacts, words: Words) -> FeatureFacts:
    def told(top: TopValue) -> TopValue:
        return replace(top, words=words(top.value)) if isinstance(top.value, int) else top

    splits = {
        split: replace(facts, top=facts.top and tuple(map(told, facts.top))) for split, facts in feature.splits.items()
    }
    return replace(feature, splits=splits)


def _words(name: str, feature: Feature, state: FittedState) -> Words | None:
    if feature.kind is TOKEN:
        return _token(state.vocabularies[feature.vocabulary or ""])
    if feature.kind is BUCKETED:
        return _bucket(feature.boundaries or state.boundaries[name])
    if feature.kind is PART_OF_A_TIME and (names := _PARTS.get(feature.date_part or "")):
        return _listed(names)
    if feature.kind is HASHED and feature.missing_id is not None:
        return lambda number: "missing" if number == feature.missing_id else ""
    return None


def _token(vocabulary: FittedVocabulary) -> Words:
    def words(number: int) -> str:
        if number < vocabulary.first_id:
            return {PADDING: "padding", MISSING: "missing"}.get(
                number, "not in the vocabulary" if number >= FIRST_OOV else ""
            )
        place = number - vocabulary.first_id
        return vocabulary.tokens[place] if place < len(vocabulary.tokens) else ""

    return words


def _bucket(boundaries: tuple[float, ...]) -> Words:
    """Bucket 0 holds missing values, bucket n the values from boundary n - 1 to below boundary n, counted from 1."""
    if not boundaries:
        return _listed(["missing", "any number"])
    between = (f"{low:g} to below {high:g}" for low, high in pairwise(boundaries))
    return _listed(["missing", f"below {boundaries[0]:g}", *between, f"{boundaries[-1]:g} or more"])


def _listed(names: Sequence[str]) -> Words:
    return lambda number: names[number] if 0 <= number < len(names) else ""
