"""What the configuration says of each feature, read from the document in the manifest with the defaults of its models."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import prod
from typing import Any

_PATH = re.compile(r"\w+(\.\w+)+")


@dataclass(frozen=True, slots=True)
class Declared:
    """The keys of one entry under ``features``; docs/configuration.md says what they mean."""

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
    encoding: str = "list"
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
    def of(cls, name: str, said: Mapping[str, Any]) -> Declared:
        """From an entry of the document."""
        keys = {f.name for f in fields(cls)}
        values = {"from_" if key == "from" else key: _frozen(value) for key, value in said.items()}
        return cls(name, **{key: value for key, value in values.items() if key in keys and value is not None})

    @property
    def is_list(self) -> bool:
        """Whether a sample has several values."""
        return self.ragged or bool(self.shape)

    @property
    def size(self) -> int:
        """How many values, where it has a shape."""
        return prod(self.shape)

    @property
    def default_value(self) -> Any:
        """What a missing value becomes."""
        if self.default is not None:
            return self.default
        if self.makes_ids and self.dtype == "float32":
            return math.nan  # what the model's boundaries take for missing
        return {"int64": 0, "float32": 0.0}.get(self.dtype, "")

    @property
    def bucketises(self) -> bool:
        """Whether numbers become ids."""
        return self.boundaries is not None or self.quantiles is not None

    @property
    def makes_ids(self) -> bool:
        """Whether the value becomes an id, here or in the model."""
        return self.bucketises or self.hash_buckets is not None or self.vocabulary is not None

    @property
    def is_id(self) -> bool:
        """Whether the record holds ids, which the layout ``sparse`` gives places of their own."""
        numbers = self.multi_hot or (self.dtype == "float32" and self.computed == "sample")
        return (self.makes_ids or self.date_part is not None) and not numbers


def path_of(text: str | None) -> tuple[str, ...] | None:
    """``item.tags`` as its parts; None for what only Spark can evaluate."""
    return tuple(text.split(".")) if text and _PATH.fullmatch(text) else None


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
