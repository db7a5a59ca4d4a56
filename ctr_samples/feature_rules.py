"""Rules derived from the keys of a feature.

The job reads the keys from the configuration, serving reads them from the manifest. Both share these rules.
"""

from __future__ import annotations

import math
from typing import Any, Protocol


class _Keys(Protocol):
    """Feature keys that the rules use."""

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
    """Rules as properties, for any class that has these keys."""

    __slots__ = ()

    @property
    def is_list(self: _Keys) -> bool:
        """Whether the feature has several values per sample."""
        return self.ragged or bool(self.shape)

    @property
    def bucketises(self: _Keys) -> bool:
        """Whether the feature's numbers are converted to bucket ids."""
        return self.boundaries is not None or self.quantiles is not None

    @property
    def makes_ids(self: _Keys) -> bool:
        """Whether the value is converted to an id, in the sample or in the model."""
        return self.bucketises or self.hash_buckets is not None or self.vocabulary is not None

    @property
    def default_value(self: _Keys) -> int | float | str:
        """Replacement for a missing value."""
        if self.default is not None:
            default: int | float | str = self.default
            return default
        if self.makes_ids and self.dtype == "float32":
            return math.nan  # which the model's boundaries treat as missing
        zeros: dict[str, int | float] = {"int64": 0, "float32": 0.0}
        return zeros.get(self.dtype, "")
