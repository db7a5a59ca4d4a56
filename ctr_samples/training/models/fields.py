"""Contract fields that a model can use: ids, which have embeddings, and numbers. Value classes only."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ctr_samples.arguments import check_kind
from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.errors import InputError

NUMBERS = "numbers"
"""Name of the model input that holds all numbers. What is named for a feature has a dot in its name, and nothing else has."""
MOST_IDS = 100_000_000
"""Maximum number of rows in an embedding table, so that it fits in the memory of one machine."""


@dataclass(frozen=True, slots=True)
class IdField:
    """A categorical feature with ids 0 to ``buckets - 1``: one per row, or a list padded with 0.

    ``length`` is None for variable-length lists.
    """

    name: str
    buckets: int
    length: int | None = 1
    is_list: bool = False

    @property
    def input(self) -> str:
        """Name of the model input that holds its ids."""
        return f"ids.{self.name}"


@dataclass(frozen=True, slots=True)
class NumberField:
    """A numeric feature with ``size`` values per row."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Fields:
    """The input fields of a model in declared order, and the names of unused features."""

    ids: tuple[IdField, ...]
    numbers: tuple[NumberField, ...]
    left_out: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        """Number of numeric values per row."""
        return sum(field.size for field in self.numbers)


def fields_of(contract: ExampleContract) -> Fields:
    """Return the fields of a contract.

    Raises InputError if there are no usable features or an embedding table is too large. Features with ``buckets`` are
    ids; numeric features of fixed shape are numbers. Text, variable-length numbers, lists of lists and the layout
    ``sparse`` are not used.
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
    """Reduce the contract to the features that the model uses, and thus needs at serving time."""
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
