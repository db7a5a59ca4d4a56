"""Which features of a contract a model can use, and as what: ids that get an embedding, or numbers. Values only."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ctr_samples.arguments import check_kind
from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.errors import InputError

NUMBERS = "numbers"
"""The one input of a model that holds all numbers."""
MOST_IDS = 100_000_000
"""Rows of an embedding table that a machine may hope to hold."""


@dataclass(frozen=True, slots=True)
class IdField:
    """A feature of ids 0 to ``buckets - 1``: one in a row, or a list in which 0 is padding, of any length where it is None."""

    name: str
    buckets: int
    length: int | None = 1
    is_list: bool = False


@dataclass(frozen=True, slots=True)
class NumberField:
    """A feature of ``size`` numbers."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Fields:
    """What a model sees of a sample, in declared order, and the names of the features that it does not see."""

    ids: tuple[IdField, ...]
    numbers: tuple[NumberField, ...]
    left_out: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        """How many numbers there are in all."""
        return sum(field.size for field in self.numbers)


def fields_of(contract: ExampleContract) -> Fields:
    """The fields of a contract; InputError where a model would see nothing, or needs a table that no memory holds.

    A feature with ``buckets`` is an id, any other number of a fixed shape a number. Text, numbers of any length, lists of lists
    and the layout ``sparse`` are left out.
    """
    check_kind("contract", contract, ExampleContract, "of the samples")
    ids: list[IdField] = []
    numbers: list[NumberField] = []
    left_out = []
    for spec in contract.features:
        if spec.role != "feature":
            continue
        field = None if contract.layout == "sparse" else _field(spec)
        if isinstance(field, IdField):
            ids.append(field)
        elif isinstance(field, NumberField):
            numbers.append(field)
        else:
            left_out.append(spec.name)
    if not ids and not numbers:
        raise InputError(
            "The samples have no number and no id that a model can use; expected some, in the layout `columns`, `sequence` or "
            "`dense`."
        )
    return Fields(tuple(ids), tuple(numbers), tuple(left_out))


def used_by(fields: Fields, contract: ExampleContract) -> ExampleContract:
    """The contract of the features that a model sees, without labels and all else: what it needs online."""
    names = {*(field.name for field in fields.ids), *(field.name for field in fields.numbers)}
    return replace(contract, features=tuple(f for f in contract.features if f.name in names))


def _field(spec: FeatureSpec) -> IdField | NumberField | None:
    if spec.buckets is not None:
        if spec.sequence and spec.shape != ():
            return None
        if spec.buckets > MOST_IDS:
            raise InputError(
                f"Feature {spec.name!r} has {spec.buckets:,} ids, and a model holds a vector for each; expected at most "
                f"{MOST_IDS:,}. Give it fewer `hash_buckets`, or leave it out of the samples."
            )
        length = None if spec.sequence else spec.size
        return IdField(spec.name, spec.buckets, length, is_list=spec.sequence or spec.shape != ())
    is_number = spec.dtype != "bytes" and spec.size and not spec.sequence
    return NumberField(spec.name, spec.size or 0) if is_number else None
