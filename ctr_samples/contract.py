"""The wire format of a sample: one description shared by the encoder, manifest, readers and serving."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal, Self, TypedDict

from ctr_samples.errors import ContractError
from ctr_samples.typed import Count, Like, Mistyped, typed

DType = Literal["int64", "float32", "float64", "bytes"]
Role = Literal["feature", "label", "mask", "weight", "key"]
NullPolicy = Literal["omit", "default", "fail"]
RecordType = Literal["example", "sequence_example", "byte_array"]
TimeUnit = Literal["D", "s", "ms", "us", "ns"]
Encoding = Literal["list", "tensor", "raw"]
Layout = Literal["columns", "dense", "sparse", "sequence", "legacy_121"]

CONTRACT_VERSION = 1
_ADDED_KEYS = ("fingerprint", "parse")
"""Keys that a manifest and ``contract.json`` add to a contract."""
_MOST_BYTES = 2**31 - 1
"""Maximum size of a record in bytes, the limit of protocol buffers."""
_LEAST_BYTES = {"int64": 1, "float32": 4, "float64": 8, "bytes": 1}
"""Minimum number of bytes per value in a record."""


class _State(TypedDict):
    """The identity of the fitted state behind the ids."""

    lineage: str
    version: int
    fingerprint: str


@dataclass(frozen=True, slots=True)
class ModelSteps:
    """Steps left to the model, which applies them in this order to the value in the record.

    ``clip`` is a minimum and a maximum, ``log1p`` the natural logarithm of 1 + x. The next step is
    ``(x - shift) / scale``, where ``shift`` and ``scale`` have one number, or one per vector element. ``boundaries``
    map the value to an id: 0 for NaN, else 1 plus the number of boundaries that are not above x, both as float32.
    ``vocabulary`` names the token file next to the contract, ``vocabularies/<name>.txt``, with one token per line. Its
    ids: 0 is padding, 1 an empty string, 2 an unknown token, 3 the first line, and so on.
    """

    clip: tuple[float, float] | None = None
    log1p: bool = False
    shift: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()
    boundaries: tuple[float, ...] = ()
    vocabulary: str | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """The position of a feature in a record that joins all features: ``size`` numbers or ids starting at ``start``.

    ``missing`` has the same meaning as in :class:`FeatureSpec`.
    """

    name: str
    start: Count
    size: Count
    missing: int | None = None


@dataclass(frozen=True, slots=True)
class FeatureSpec:
    """One tf.Feature of a record.

    ``shape`` is ``()`` for a scalar, ``(n, ...)`` for a fixed number of values in row-major order and ``None`` for a
    variable-length list. ``nulls`` sets how null rows are handled: omit the key, write ``default``, or reject the
    batch. ``fill`` replaces nulls *inside* a list; without ``fill`` they are rejected. ``nonfinite`` allows NaN and
    infinity. ``unit`` is the unit of an int64 converted from a date or timestamp, counted since 1970 (UTC). Any
    ``encoding`` but ``list`` packs the values, of type ``dtype``, into one bytes value: a TensorProto or raw
    little-endian. ``sequence`` makes the feature a FeatureList of a SequenceExample; ``shape`` is then the shape of one
    step. ``buckets`` is the number of ids of an id feature, 0 to ``buckets - 1``, which is the size of its embedding
    table. ``missing`` is the id of a missing value of a hashed scalar. It is None in contracts of earlier releases,
    which hashed missing values too. ``model`` holds the steps left to the model. float64 requires an ``encoding`` other
    than ``list``: tf.train.Feature has no list of doubles.
    """

    name: str
    dtype: DType
    shape: tuple[int, ...] | None = ()
    role: Role = "feature"
    nulls: NullPolicy = "omit"
    default: int | float | str | None = None
    fill: int | float | str | None = None
    nonfinite: bool = True
    unit: TimeUnit | None = None
    encoding: Encoding = "list"
    sequence: bool = False
    buckets: int | None = None
    missing: int | None = None
    model: ModelSteps | None = None

    def __post_init__(self) -> None:
        if not self.name:
            raise ContractError("A feature has an empty name; give each feature a name.")
        if self.shape is not None and any(n < 0 for n in self.shape):
            raise ContractError(f"Feature {self.name!r} has the shape {self.shape}; sizes cannot be negative.")
        most = _MOST_BYTES // _LEAST_BYTES.get(self.dtype, 1)
        if self.size is not None and max(self.size, *self.shape or (0,)) > most:
            raise ContractError(
                f"Feature {self.name!r} has the shape {self.shape}, but a record of 2 GiB holds at most {most:,} such values."
            )
        if self.dtype == "float64" and self.encoding == "list":
            raise ContractError(
                f"Feature {self.name!r} is a list of float64, which a record cannot hold; use float32, or the encoding 'raw'."
            )
        if self.nulls == "default" and self.default is None:
            raise ContractError(f"Feature {self.name!r} writes a default for nulls but declares none; set `default`.")
        if self.role in ("label", "weight") and self.nonfinite:
            object.__setattr__(self, "nonfinite", False)

    @property
    def size(self) -> int | None:
        """Number of values per row, or None if it varies."""
        if self.shape is None:
            return None
        size = 1
        for n in self.shape:
            size *= n
        return size


@dataclass(frozen=True, slots=True)
class ExampleContract:
    """Features of a record in declared order (the wire format sorts them by name).

    ``layout`` sets the arrangement of a sample set's features in records. If the layout joins features, ``parts`` has
    the position of each feature. ``state`` identifies the version of the fitted state behind the ids.
    """

    features: tuple[FeatureSpec, ...]
    record: RecordType = "example"
    version: int = field(default=CONTRACT_VERSION)
    layout: Layout = "columns"
    parts: tuple[Part, ...] = ()
    state: Annotated[Mapping[str, Any], Like(_State)] | None = None

    def __post_init__(self) -> None:
        repeated = sorted(name for name, times in Counter(f.name for f in self.features).items() if times > 1)
        if repeated:
            raise ContractError(
                f"The contract names {', '.join(map(repr, repeated))} more than once; names must be unique."
            )

    def __getitem__(self, name: str) -> FeatureSpec:
        for spec in self.features:
            if spec.name == name:
                return spec
        raise KeyError(name)

    def names(self, *roles: Role) -> list[str]:
        """Return feature names in declared order, optionally only of features with the given ``roles``."""
        return [f.name for f in self.features if not roles or f.role in roles]

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form that :meth:`from_dict` reads back."""
        return {
            "version": self.version,
            "record": self.record,
            "layout": self.layout,
            "features": [{**_as_dict(f), "shape": None if f.shape is None else list(f.shape)} for f in self.features],
            "parts": [_as_dict(part) for part in self.parts],
            "state": None if self.state is None else dict(self.state),
        }

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> Self:
        """Parse the output of :meth:`to_dict`, with or without the keys that ``contract.json`` adds.

        Raises ContractError for an unknown version or a malformed contract.
        """
        if value.get("version") != CONTRACT_VERSION:
            raise ContractError(
                f"The contract has version {value.get('version')!r}; this release reads version {CONTRACT_VERSION}. "
                "Install the ctr-samples release that wrote it, or a newer one."
            )
        try:
            contract = typed(cls, {key: part for key, part in value.items() if key not in _ADDED_KEYS})
        except Mistyped as error:
            raise ContractError(f"The contract is malformed: {error}. Restore the document that holds it.") from None
        lists = {(f.name, f.dtype) for f in contract.features if f.shape is None}
        if contract.layout == "sparse" and not lists >= {("indices", "int64"), ("values", "float32")}:
            raise ContractError(
                "The contract has the layout sparse but lacks a list of int64 `indices` or one of float32 `values`. "
                "Restore the document that holds it."
            )
        return contract

    @property
    def fingerprint(self) -> str:
        """Sixteen hex digits that change whenever the meaning of a record changes.

        The fitted state counts only by its lineage: within a lineage, ids and moments never change, so days written
        with different versions can be read together.
        """
        document = self.to_dict()
        document["state"] = None if self.state is None else self.state["lineage"]
        text = json.dumps(document, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _as_dict(entry: FeatureSpec | Part) -> dict[str, Any]:
    """Convert to a dict without ``missing`` if it is None, so that fingerprints of older contracts stay the same."""
    return {key: value for key, value in asdict(entry).items() if key != "missing" or value is not None}
