"""The fitted state of a sample set: ids of tokens, moments and quantiles. Values and pure functions; nothing reads or writes.

::

    to fit          to make the next version from training days: the command `ctr-samples fit`
    fitted state    everything that a sample set has fitted, kept below `fitted.path`
    version         one published fitted state, by number
    lineage         a series of versions in which nothing that was fitted ever changes
    vocabulary      the part of a fitted state that gives tokens their ids

Within a lineage a token keeps its id and a feature its moments, and new tokens take the next free ids. So samples of different
nights of one lineage can be mixed, and a model that was trained on one version reads records of a later one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from typing import Any

PADDING, MISSING, FIRST_OOV = 0, 1, 2
"""Ids that are no token's: padding of a list, a missing value, and the first of the OOV buckets."""

STATE_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Tokens in the order of their ids, of which the first is ``2 + oov_buckets``."""

    tokens: tuple[str, ...]
    oov_buckets: int
    capacity: int

    @property
    def first_id(self) -> int:
        """The id of the first token."""
        return FIRST_OOV + self.oov_buckets

    @property
    def buckets(self) -> int:
        """Number of ids, free ones included: rows of an embedding table."""
        return self.first_id + self.capacity

    def grown(self, counted: Iterable[tuple[str, int]]) -> Vocabulary:
        """With the tokens of ``counted`` that it does not have, the most frequent first, as long as there is room."""
        known = set(self.tokens)
        fresh = sorted((-count, token) for token, count in counted if token not in known)
        room = self.capacity - len(self.tokens)
        return Vocabulary((*self.tokens, *(token for _, token in fresh[:room])), self.oov_buckets, self.capacity)

    @property
    def fingerprint(self) -> str:
        """Sixteen hex digits of the tokens, their order and the ids before them."""
        digest = hashlib.sha256(f"{self.oov_buckets} {self.capacity}\n".encode())
        for token in self.tokens:
            encoded = token.encode()
            digest.update(len(encoded).to_bytes(8, "little") + encoded)
        return digest.hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Moments:
    """Of the finite values of a feature after `clip` and `log1p`; one number for each place of a vector."""

    count: tuple[int, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    """Of the population."""
    min: tuple[float, ...]
    max: tuple[float, ...]

    def shift_and_scale(self, how: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """``(x - shift) / scale`` is what ``standardise`` or ``min_max`` makes; a constant place has the scale 1."""
        if how == "standardise":
            return self.mean, tuple(s or 1.0 for s in self.std)
        return self.min, tuple((high - low) or 1.0 for low, high in zip(self.min, self.max, strict=True))


@dataclass(frozen=True, slots=True)
class Growth:
    """What a version added to a vocabulary, and how well it covers the days that it was fitted on."""

    before: int
    added: int
    capacity: int
    occurrences: int
    covered: int
    left_out: int
    """Tokens that are frequent enough, but for which there was no room."""

    @property
    def coverage(self) -> float:
        """Share of occurrences whose token has an id of its own."""
        return self.covered / self.occurrences if self.occurrences else 1.0


@dataclass(frozen=True, slots=True)
class FittedState:
    """One version of all that a sample set has fitted. ``declared`` is what the configuration said of each part then."""

    name: str
    lineage: str
    version: int
    run_id: str
    created_at: str
    days: tuple[str, ...]
    declared: Mapping[str, Any]
    vocabularies: Mapping[str, Vocabulary]
    moments: Mapping[str, Moments] = field(default_factory=dict)
    boundaries: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    growth: Mapping[str, Growth] = field(default_factory=dict)

    @property
    def through(self) -> date:
        """The last day that was looked at: only later days may use this version."""
        return max(date.fromisoformat(day) for day in self.days)

    @property
    def fingerprint(self) -> str:
        """Sixteen hex digits that change whenever an id, a moment or a boundary does, or one is added."""
        parts = {
            "vocabularies": {name: v.fingerprint for name, v in self.vocabularies.items()},
            "moments": {name: asdict(m) for name, m in self.moments.items()},
            "boundaries": self.boundaries,
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]

    def to_contract(self) -> dict[str, Any]:
        """What a contract says of the state that its ids come from."""
        return {
            "lineage": self.lineage,
            "version": self.version,
            "fingerprint": self.fingerprint,
            "days": list(self.days),
        }


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """What was counted for a vocabulary: the tokens that have an id or are worth one, ``occurrences`` of all tokens, and how
    many are ``frequent`` enough for an id that they do not have."""

    tokens: Sequence[tuple[str, int]]
    occurrences: int
    frequent: int


def grown_by(before: Vocabulary | None, empty: Vocabulary, counted: TokenCounts) -> tuple[Vocabulary, Growth]:
    """The next version of a vocabulary, and what became of it."""
    known = before or empty
    now = known.grown(counted.tokens)
    has = set(now.tokens)
    added = len(now.tokens) - len(known.tokens)
    covered = sum(count for token, count in counted.tokens if token in has)
    growth = Growth(len(known.tokens), added, now.capacity, counted.occurrences, covered, counted.frequent - added)
    return now, growth
