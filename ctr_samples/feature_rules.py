"""What follows from the keys of a feature.

The job reads them in the configuration, serving in the manifest: what both conclude stands here once.
"""

from __future__ import annotations

import math
from typing import Any, Protocol


class _Keys(Protocol):
    """The keys that the rules look at."""

    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def ragged(self) -> bool: ...
    @property
    def default(self) -> Any: ...
    @property
    def boundaries(self) -> tuple[float, ...] | None: ...
    @property
    def quantiles(self) -> int | None: ...
    @property
    def hash_buckets(self) -> int | None: ...
    @property
    def vocabulary(self) -> str | None: ...
    @property
    def bucketises(self) -> bool: ...
    @property
    def makes_ids(self) -> bool: ...


class FeatureRules:
    """The rules, as properties of whatever has these keys."""

    __slots__ = ()

    @property
    def is_list(self: _Keys) -> bool:
        """Whether a sample has several values."""
        return self.ragged or bool(self.shape)

    @property
    def bucketises(self: _Keys) -> bool:
        """Whether numbers become ids."""
        return self.boundaries is not None or self.quantiles is not None

    @property
    def makes_ids(self: _Keys) -> bool:
        """Whether the value becomes an id, in the sample or in the model."""
        return self.bucketises or self.hash_buckets is not None or self.vocabulary is not None

    @property
    def default_value(self: _Keys) -> int | float | str:
        """What a missing value becomes."""
        if self.default is not None:
            default: int | float | str = self.default
            return default
        if self.makes_ids and self.dtype == "float32":
            return math.nan  # what the model's boundaries take for missing
        zeros: dict[str, int | float] = {"int64": 0, "float32": 0.0}
        return zeros.get(self.dtype, "")
