"""The declaration of each feature, read from the configuration in the manifest with the defaults of its models."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import prod
from typing import Any

from ctr_samples.errors import InputError
from ctr_samples.feature_rules import FeatureKeys

ELSEWHERE = frozenset({"encoding"})
"""Feature keys that serving reads from the contract, not from the configuration."""

_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")


@dataclass(frozen=True, slots=True)
class Declared(FeatureKeys):
    """Keys of a feature's entry in the manifest."""

    @classmethod
    def of(cls, name: str, entry: Mapping[str, Any]) -> Declared:
        """Parse an entry of the manifest. Raises InputError for unknown keys, because they could change a model's
        input.
        """
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


def path_of(text: str | None) -> tuple[str, ...] | None:
    """Split a path such as ``item.tags`` into its parts. Return None for expressions that only Spark can evaluate."""
    return tuple(text.split(".")) if text and _PATH.fullmatch(text) else None


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
