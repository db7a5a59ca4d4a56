"""The fitted state of a sample set: ids of tokens, moments and quantiles. Data classes and pure functions; no I/O.

::

    to fit          to build the next version from training days: the command `ctr-samples fit`
    fitted state    everything fitted for a sample set, kept below `fitted.path`
    version         one published fitted state, by number
    lineage         a series of versions in which fitted values never change
    vocabulary      the part of a fitted state that maps tokens to ids

Within a lineage, tokens keep their ids and features their moments; new tokens get the next free ids. So samples from
different nights of a lineage can be mixed, and a model trained on one version can read records of a later version.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from typing import Any

PADDING, MISSING, FIRST_OOV = 0, 1, 2
"""Reserved ids: list padding, missing value, and the first OOV bucket."""

STATE_FORMAT = 1


@dataclass(frozen=True, slots=True)
class FittedVocabulary:
    """Tokens in order of their ids, which start at ``2 + oov_buckets``."""

    tokens: tuple[str, ...]
    oov_buckets: int
    capacity: int

    @property
    def first_id(self) -> int:
        """Id of the first token."""
        return FIRST_OOV + self.oov_buckets

    @property
    def buckets(self) -> int:
        """Number of ids, including free ids: the number of rows in an embedding table."""
        return self.first_id + self.capacity

    def id_of(self, token: str | None) -> int | None:
        """Return the id of a token, or None if it has none of its own. Reads the tokens up to it."""
        return None if token is None or token not in self.tokens else self.first_id + self.tokens.index(token)

    def grown(self, counted: Iterable[tuple[str, int]]) -> FittedVocabulary:
        """Add the unknown tokens of ``counted``, most frequent first, up to the capacity."""
        known = set(self.tokens)
        fresh = sorted((-count, token) for token, count in counted if token not in known)
        room = self.capacity - len(self.tokens)
        return FittedVocabulary((*self.tokens, *(token for _, token in fresh[:room])), self.oov_buckets, self.capacity)

    @property
    def fingerprint(self) -> str:
        """A hash of the tokens, their order, ``oov_buckets`` and ``capacity``, as sixteen hex digits."""
        digest = hashlib.sha256(f"{self.oov_buckets} {self.capacity}\n".encode())
        for token in self.tokens:
            encoded = token.encode()
            digest.update(len(encoded).to_bytes(8, "little") + encoded)
        return digest.hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class FittedMoments:
    """Moments of a feature's finite values after `clip` and `log1p`, one number per vector element."""

    count: tuple[int, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    """Population standard deviation."""
    min: tuple[float, ...]
    max: tuple[float, ...]

    def shift_and_scale(self, how: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return the shift and scale for which ``(x - shift) / scale`` computes ``standardise`` or ``min_max``.

        Constant elements have the scale 1.
        """
        if how == "standardise":
            return self.mean, tuple(s or 1.0 for s in self.std)
        return self.min, tuple((high - low) or 1.0 for low, high in zip(self.min, self.max, strict=True))


@dataclass(frozen=True, slots=True)
class Growth:
    """The growth of a vocabulary in one version, and its coverage of the version's training days."""

    before: int
    added: int
    capacity: int
    occurrences: int
    covered: int
    left_out: int
    """Number of tokens that are frequent enough but exceed the capacity."""

    @property
    def coverage(self) -> float:
        """The share of token occurrences whose token has its own id."""
        return self.covered / self.occurrences if self.occurrences else 1.0


@dataclass(frozen=True, slots=True)
class FittedState:
    """One version of everything fitted for a sample set. ``declared`` is each part's configuration at that time."""

    name: str
    lineage: str
    version: int
    run_id: str
    created_at: str
    days: tuple[str, ...]
    declared: Mapping[str, Any]
    vocabularies: Mapping[str, FittedVocabulary]
    moments: Mapping[str, FittedMoments] = field(default_factory=dict)
    boundaries: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    growth: Mapping[str, Growth] = field(default_factory=dict)

    @property
    def through(self) -> date:
        """Last day of the training data. Only later days may use this version."""
        return max(date.fromisoformat(day) for day in self.days)

    @property
    def fingerprint(self) -> str:
        """Sixteen hex digits that change whenever an id, moment or boundary is changed or added."""
        parts = {
            "vocabularies": {name: v.fingerprint for name, v in self.vocabularies.items()},
            "moments": {name: asdict(m) for name, m in self.moments.items()},
            "boundaries": self.boundaries,
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]

    def to_contract(self) -> dict[str, Any]:
        """Summarise the state for contracts that contain its ids."""
        return {
            "lineage": self.lineage,
            "version": self.version,
            "fingerprint": self.fingerprint,
            "days": list(self.days),
        }


NOTHING_FITTED = FittedState("", "", 0, "", "", (), {}, {})
"""State of a configuration whose features need no fitted state."""


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Token counts for a vocabulary. ``tokens`` have an id or are frequent enough for an id, ``occurrences`` counts all
    tokens, and ``frequent`` is the number of new tokens frequent enough for an id.
    """

    tokens: Sequence[tuple[str, int]]
    occurrences: int
    frequent: int


def grown_by(
    before: FittedVocabulary | None, empty: FittedVocabulary, counted: TokenCounts
) -> tuple[FittedVocabulary, Growth]:
    """Return the next version of a vocabulary, and its growth."""
    known = before or empty
    now = known.grown(counted.tokens)
    has = set(now.tokens)
    added = len(now.tokens) - len(known.tokens)
    covered = sum(count for token, count in counted.tokens if token in has)
    growth = Growth(len(known.tokens), added, now.capacity, counted.occurrences, covered, counted.frequent - added)
    return now, growth
