"""Plan the encoding of each column, once per schema. The features are in wire order."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from ctr_samples.codec.column_parts import Source, sources_of
from ctr_samples.codec.conversions import FeaturePlan, plan_feature
from ctr_samples.codec.kernel_columns import (
    WireColumn,
)
from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.errors import ContractError


@dataclass(frozen=True, slots=True)
class EncodePlan:
    """Features in wire order, and the index of each feature's source column."""

    features: tuple[FeaturePlan, ...]
    columns: tuple[int, ...]

    @property
    def context_count(self) -> int:
        """Number of features before the first FeatureList."""
        return sum(not f.spec.sequence for f in self.features)

    def wire_columns(self, batch: pa.RecordBatch) -> list[WireColumn]:
        """Convert all features of ``batch``. Raises EncodeError."""
        return [f.wire_column(batch.column(i)) for f, i in zip(self.features, self.columns, strict=True)]


def plan_encoding(contract: ExampleContract, schema: pa.Schema) -> EncodePlan:
    """Match a schema with a contract. Pure. Raises ContractError, naming the first column that does not fit."""
    specs = {f.name: f for f in contract.features}
    check_record_type(contract)
    sources: dict[str, tuple[int, Source]] = {}
    for index, field in enumerate(schema):
        for source in sources_of(field.name, field.type, specs):
            if source.name not in specs:
                raise _unwanted(source, field)
            if source.name in sources:
                raise ContractError(f"Two columns of the batch provide feature {source.name!r}; rename one of them.")
            sources[source.name] = (index, source)
    for spec in contract.features:
        if spec.name not in sources:
            raise ContractError(
                f"Column {spec.name!r} ({spec.dtype}) is missing from the batch, which has {schema.names}; "
                "add the column or remove the feature from the contract."
            )
    ordered = in_wire_order(contract)
    features = tuple(plan_feature(spec, sources[spec.name][1]) for spec in ordered)
    return EncodePlan(features, tuple(sources[spec.name][0] for spec in ordered))


def in_wire_order(contract: ExampleContract) -> list[FeatureSpec]:
    """Return the features in the order of ``SerializeToString(deterministic=True)``, FeatureLists last.

    Python's protobuf sorts keys by bytes but places a key after longer keys that start with it: C10 before C1.
    """
    end = b"\xff"  # sorts after every byte of UTF-8
    return sorted(contract.features, key=lambda spec: (spec.sequence, spec.name.encode() + end))


def check_record_type(contract: ExampleContract) -> None:
    """Raise ContractError if the features are invalid for the record type."""
    if contract.record == "byte_array":
        if [(f.dtype, f.shape, f.encoding, f.sequence) for f in contract.features] != [("bytes", (), "list", False)]:
            raise ContractError(
                f"A byte_array record holds exactly one scalar bytes feature, but the contract has {contract.names()}. "
                "Keep one feature or use the record type example."
            )
        return
    for spec in contract.features:
        if spec.sequence and contract.record != "sequence_example":
            raise ContractError(
                f"Feature {spec.name!r} is a sequence, which a record of type {contract.record} cannot hold; "
                "use sequence_example or declare a shape."
            )
        if spec.encoding != "list" and (spec.dtype == "bytes" or spec.sequence):
            raise ContractError(
                f"Feature {spec.name!r} has the encoding {spec.encoding!r}, which is only for numeric tensors "
                "outside sequences; use the encoding 'list'."
            )


def _unwanted(source: Source, field: pa.Field) -> ContractError:
    part = "" if source.name == field.name else f" (its part {source.name!r})"
    return ContractError(
        f"Column {field.name!r}{part} of type {field.type} is not in the contract; "
        "drop the column or add it as a feature."
    )
