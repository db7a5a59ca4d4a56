"""Kinds of features and the rules that follow from their keys.

The job reads the keys from the configuration, and serving reads them from the manifest; both share these rules.
``KINDS`` lists for each kind the facts that the configuration, contract, plan description, gate and serving need.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from ctr_samples.vocabulary import MISSING

PARTS = {"hour": 24, "weekday": 7, "day": 32, "month": 13, "hour_of_week": 168, "weekend": 2}
"""Number of ids of each date part, counted from 0: weekday 0 is Monday, and day and month begin at 1."""


@dataclass(frozen=True, slots=True)
class FeatureKind:
    """One kind of feature. Each function takes a feature of the kind."""

    keys: tuple[str, ...]
    """Keys that identify the kind. A feature has one of them."""
    ids: Callable[[Any, Mapping[str, Any]], int]
    """Number of ids, given the vocabularies. It is 0 if the feature is not an id or its vocabulary does not exist."""
    words: Callable[[Any], str] = lambda _: ""
    """A description of the ids for the plan."""
    takes: Literal["numbers", "values", "features"] | None = None
    """The input of the ids: numbers, any values or other features, or None if the kind makes no ids."""
    missing: int | None = None
    """Id reserved for a single missing value."""
    in_model: str | None = None
    """Type of the value in the record if the model makes the ids, or None if a model cannot make them."""
    fitted: tuple[str, ...] = ()
    """Keys that need fitted state."""
    multi_hot: bool = False
    """Whether the ids may become a vector."""


HASHED = FeatureKind(
    keys=("hash_buckets",),
    ids=lambda f, _: f.hash_buckets,
    words=lambda f: f"hashed to {f.hash_buckets} ids",
    takes="values",
    missing=0,
    multi_hot=True,
)
CROSSED = replace(HASHED, keys=("cross",), takes="features", missing=None, multi_hot=False)
TOKEN = FeatureKind(
    keys=("vocabulary",),
    ids=lambda f, vocabularies: vocabularies[f.vocabulary].buckets if f.vocabulary in vocabularies else 0,
    words=lambda f: f"as ids of the vocabulary {f.vocabulary}",
    takes="values",
    missing=MISSING,
    in_model="string",
    fitted=("vocabulary",),
    multi_hot=True,
)
BUCKETED = FeatureKind(
    keys=("boundaries", "quantiles"),
    ids=lambda f, _: 2 + (f.quantiles - 1 if f.boundaries is None else len(f.boundaries)),
    words=lambda f: (
        f"in {len(f.boundaries) + 1} buckets" if f.boundaries else f"in {f.quantiles} buckets by fitted quantiles"
    ),
    takes="numbers",
    missing=0,
    in_model="float32",
    fitted=("quantiles",),
)
PART_OF_A_TIME = FeatureKind(("date_part",), lambda f, _: PARTS[f.date_part] if f.dtype == "int64" else 0)
PLAIN = FeatureKind((), lambda *_: 0, fitted=("scale",))

KINDS = (CROSSED, HASHED, TOKEN, BUCKETED, PART_OF_A_TIME, PLAIN)
"""All kinds, by priority. A feature has the first kind whose key it contains, so the hash of an hour is hashed."""


ID_KEYS = tuple(key for kind in KINDS if kind.takes in ("numbers", "values") for key in kind.keys)
"""Keys that make ids. A feature has at most one of them."""
FITTED_KEYS = tuple(key for kind in KINDS for key in kind.fitted)


PAIRS = {"lookup": ("map", "under", "keys"), "overlap": ("of", "with"), "dot": ("of", "with")}
"""Kinds of values that are made of two sources, and the keys that name these."""
PAIR_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "lookup": {"keys": None, "under": None, "separator": ":", "reduce": None},
    "overlap": {"as": "count"},
    "dot": {"as": "dot"},
}


class FeatureRules:
    """Rules as properties, for any class that has the keys of :class:`FeatureKeys`."""

    __slots__ = ()

    @property
    def pair(self) -> tuple[str, dict[str, Any]] | None:
        """One of :data:`PAIRS` with its keys, or None if the value comes from one place."""
        for kind in PAIRS:
            if (entry := getattr(self, kind)) is not None:
                keys = entry.items() if isinstance(entry, Mapping) else entry
                return kind, {**PAIR_DEFAULTS[kind], **{key.rstrip("_"): value for key, value in keys}}
        return None

    @property
    def texts(self: Any) -> dict[str, str]:
        """What the feature reads, by the key that says so: a path, or an expression."""
        found = {"from": self.from_, "expr": self.expr, "at": self.at}
        if self.pair is not None:
            kind, entry = self.pair
            found |= {f"{kind}.{key}": entry.get(key) for key in PAIRS[kind]}
        return {key: text for key, text in found.items() if text is not None}

    @property
    def kind(self) -> FeatureKind:
        """Kind of the feature."""
        return next((kind for kind in KINDS if any(getattr(self, key) for key in kind.keys)), PLAIN)

    @property
    def is_list(self: Any) -> bool:
        """Whether a sample has several values of the feature."""
        return self.ragged or bool(self.shape)

    @property
    def bucketises(self) -> bool:
        """Whether numbers are mapped to bucket ids."""
        return self.kind.takes == "numbers"

    @property
    def makes_ids(self) -> bool:
        """Whether the value becomes an id, in the sample or in the model."""
        return self.kind.takes is not None

    @property
    def is_id(self: Any) -> bool:
        """Whether the record holds ids, or values that the model maps to ids. The layout ``sparse`` gives each id an
        index.
        """
        numbers = self.multi_hot or (self.dtype == "float32" and self.computed == "sample")
        return (self.makes_ids or self.date_part is not None) and not numbers

    @property
    def missing_id(self: Any) -> int | None:
        """The id reserved for a missing value, or None if the record does not hold a single id."""
        return self.kind.missing if self.computed == "sample" and not (self.is_list or self.multi_hot) else None

    @property
    def is_fitted(self) -> bool:
        """Whether the feature needs a state fitted on training days."""
        return any(getattr(self, key) for key in FITTED_KEYS)

    @property
    def default_value(self: Any) -> int | float | str:
        """The replacement for a missing value."""
        if self.default is not None:
            return self.default  # type: ignore[no-any-return]
        if self.makes_ids and self.dtype == "float32":
            return math.nan  # which the model's boundaries treat as missing
        return {"int64": 0, "float32": 0.0}.get(self.dtype, "")


@dataclass(frozen=True, slots=True)
class FeatureKeys(FeatureRules):
    """Keys of an entry under ``features``, with the defaults of the configuration; docs/configuration.md explains them."""

    name: str
    from_: str | None = None
    expr: str | None = None
    cross: tuple[str, ...] = ()
    lookup: Mapping[str, Any] | None = None
    overlap: Mapping[str, Any] | None = None
    dot: Mapping[str, Any] | None = None
    dtype: str = "float32"
    shape: tuple[int, ...] = ()
    default: Any = None
    nulls: str = "default"
    fill: Any = None
    ragged: bool = False
    pad: bool = False
    at: str | None = None
    date_part: str | None = None
    top_k: int | None = None
    order: str = "greatest"
    part: str = "values"
    clip: tuple[float, float] | None = None
    log1p: bool = False
    scale: str | None = None
    boundaries: tuple[float, ...] | None = None
    quantiles: int | None = None
    hash_buckets: int | None = None
    salt: str | None = None
    vocabulary: str | None = None
    multi_hot: bool = False
    computed: str = "sample"
    bias: Any = None
