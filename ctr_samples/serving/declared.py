"""Declaration of each feature, read from the configuration in the manifest with the defaults of its models."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import prod
from typing import Any

from ctr_samples.errors import InputError
from ctr_samples.feature_rules import FeatureRules

ELSEWHERE = frozenset({"encoding"})
"""Feature keys that serving reads from the contract, not from the configuration."""

_PATH = re.compile(r"\w+(\.\w+)+")


@dataclass(frozen=True, slots=True)
class Declared(FeatureRules):
    """Keys of an entry under ``features``; docs/configuration.md explains them."""

    name: str
    from_: str | None = None
    expr: str | None = None
    cross: tuple[str, ...] = ()
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

    @classmethod
    def of(cls, name: str, entry: Mapping[str, Any]) -> Declared:
        """Parse an entry of the document. Raise InputError for unknown keys: they could change what a model sees."""
        values = {"from_" if key == "from" else key: _frozen(value) for key, value in entry.items()}
        known = {field.name for field in fields(cls)} - {"name"}
        for key in sorted(values.keys() - known - ELSEWHERE):
            raise InputError(
                f"features.{name}: found the key {key!r} in the manifest, expected only keys that serving knows, since any "
                "other may change the values that a model sees; serve with the version of ctr-samples that wrote the samples."
            )
        return cls(name, **{key: value for key, value in values.items() if key in known and value is not None})

    @property
    def size(self) -> int:
        """Number of values, for features with a shape."""
        return prod(self.shape)

    @property
    def is_id(self) -> bool:
        """True if the record holds ids, which get indices of their own in the layout ``sparse``."""
        numbers = self.multi_hot or (self.dtype == "float32" and self.computed == "sample")
        return (self.makes_ids or self.date_part is not None) and not numbers


def path_of(text: str | None) -> tuple[str, ...] | None:
    """Split ``item.tags`` into its parts; None for expressions that only Spark can evaluate."""
    return tuple(text.split(".")) if text and _PATH.fullmatch(text) else None


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
