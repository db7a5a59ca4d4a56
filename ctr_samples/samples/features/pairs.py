"""Values that are made of two sources: looked up in a map, the overlap of two lists, the product of two vectors.

They are computed over Arrow columns of joined rows, before Spark computes the other features, and stand in the struct
:data:`PAIRS` under the name of the feature. What is defined where is said in :mod:`ctr_samples.pairs`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from ctr_samples.config import Feature
from ctr_samples.errors import EncodeError, InputError
from ctr_samples.feature_rules import PAIRS as KINDS
from ctr_samples.graph import dotted
from ctr_samples.pairs import overlap, product, reduced
from ctr_samples.samples.columnar.columns import Doubles, Flags, Integers, integers, plain_column, spread, there
from ctr_samples.samples.columnar.stages import Stage
from ctr_samples.sparksql.columns import INTEGERS
from ctr_samples.sparksql.expressions import type_at

PAIRS = "_pairs"
"""Column of joined rows: a struct with the value of each feature that is made of two sources."""

_KEYS = (StringType, BinaryType, BooleanType, DateType, *INTEGERS)
_NUMBERS = (FloatType, DoubleType, DecimalType, *INTEGERS)
_WHOLE = ("count", "any")
"""What gives whole numbers."""


@dataclass(frozen=True, slots=True)
class PairValues:
    """Adds the values of features that are made of two sources. Pickled for executors.

    ``kinds`` has the type of each value, and ``pairs`` what :attr:`~ctr_samples.feature_rules.FeatureRules.pair` has.
    """

    kinds: StructType
    pairs: Mapping[str, tuple[str, Mapping[str, Any]]]

    @classmethod
    def of(cls, features: Mapping[str, Feature], rows: StructType) -> Self:
        """Return the step for rows with some structs. Raises InputError for a column that a feature cannot be made of."""
        pairs = {name: feature.pair for name, feature in features.items() if feature.pair is not None}
        fields = [StructField(name, _kind_of(name, *pair, rows)) for name, pair in pairs.items()]
        return cls(StructType(fields), pairs)

    def add_to(self, stage: Stage) -> Stage:
        """Return the rows of a stage with the values."""
        return stage.each(self, self.kind(stage.kind)) if self.pairs else stage

    def over(self, rows: DataFrame) -> DataFrame:
        """Return the rows of a frame with the values. Lazy."""
        return self.add_to(Stage.of(rows)).rows()

    def kind(self, rows: StructType) -> StructType:
        """Return the type of the rows with the values."""
        return StructType([*rows, StructField(PAIRS, self.kinds, False)])

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows with the values. Raises EncodeError, which ends the run, for two vectors of different length."""
        made = [_MADE[kind](rows, name, entry) for name, (kind, entry) in self.pairs.items()]
        return rows.append_column(PAIRS, pa.StructArray.from_arrays(made, [*self.pairs]))


def _kind_of(name: str, kind: str, entry: Mapping[str, Any], rows: StructType) -> DataType:
    """Return the type of a value. Raises InputError for a column of another type than the kind needs."""
    found = {}
    for key in KINDS[kind]:
        if entry[key] is not None:
            where = f"features.{name}.{kind}.{key}"
            found[key] = _Found(where, _type_of(rows, where, entry[key]))
    if kind == "lookup":
        return _kind_of_lookup(entry, found)
    for one in found.values():
        if kind == "dot" and not (isinstance(one.kind, ArrayType) and isinstance(one.item, _NUMBERS)):
            raise one.refuse("a list of numbers")
        if kind == "overlap" and not isinstance(one.item, _KEYS):
            raise one.refuse(_COMPARED.format("a value or a list"))
    return LongType() if entry["as"] in _WHOLE else DoubleType()


def _kind_of_lookup(entry: Mapping[str, Any], found: Mapping[str, _Found]) -> DataType:
    of = found["map"]
    keys, values = of.entries or (None, None)
    if keys is None or values is None:
        raise of.refuse("a map, or a list of structs with two fields, a key and a value")
    if "under" in found and not isinstance(found["under"].kind, _KEYS):
        raise found["under"].refuse(_COMPARED.format("a key"))
    if "keys" in found and not isinstance(found["keys"].item, _KEYS):
        raise found["keys"].refuse(_COMPARED.format("a key or a list of keys"))
    if "under" in found:
        inner = _Found(of.where, values).entries
        if inner is None and not isinstance(keys, StringType):
            raise of.refuse("keys of text, which begin with what they lie under, or a map of maps")
        keys, values = inner or (keys, values)
    if not isinstance(keys, _KEYS):
        raise of.refuse(_COMPARED.format("keys"))
    if "keys" not in found:
        return MapType(keys, values)
    how = entry["reduce"]
    if how is None:
        return ArrayType(values) if isinstance(found["keys"].kind, ArrayType) else values
    if how != "count" and not isinstance(values, _NUMBERS):
        raise of.refuse(f"values that are numbers for `reduce: {how}`")
    return LongType() if how in _WHOLE else DoubleType()


@dataclass(frozen=True, slots=True)
class _Found:
    """The type of a column, and the key of the configuration that names it."""

    where: str
    kind: DataType

    @property
    def item(self) -> DataType:
        return self.kind.elementType if isinstance(self.kind, ArrayType) else self.kind

    @property
    def entries(self) -> tuple[DataType, DataType] | None:
        """The types of keys and values of a map, or of a list of structs with two fields."""
        if isinstance(self.kind, MapType):
            return self.kind.keyType, self.kind.valueType
        if isinstance(self.kind, ArrayType) and isinstance(self.item, StructType) and len(self.item) == 2:
            return self.item[0].dataType, self.item[1].dataType
        return None

    def refuse(self, expected: str) -> InputError:
        return InputError(f"{self.where}: found {self.kind.simpleString()}, expected {expected}.")


_COMPARED = "{} of text, whole numbers, booleans or dates"


def _type_of(rows: StructType, where: str, path: str) -> DataType:
    kind = type_at(rows, dotted(path) or ())
    if kind is None:
        raise InputError(f"{where}: there is no column {path!r}.")
    return kind


def _lookup(rows: pa.RecordBatch, _: str, entry: Mapping[str, Any]) -> pa.Array:
    entries, at = _Entries.of_rows(rows, entry["map"])
    under = None if entry["under"] is None else _column(rows, entry["under"])
    is_there = at >= 0 if under is None else (at >= 0) & there(under)
    if under is not None and entries.hold_maps:
        at, under, entries = entries.last_at(at, under), None, _Entries.of(entries.values)
    if entry["keys"] is None:
        return entries.those_under(at, under, entry["separator"], is_there)
    keys = Lists.of(_column(rows, entry["keys"])).where(is_there)
    is_there &= keys.there
    wanted = keys.items if under is None else _joined(under, keys, entry["separator"])
    places = entries.last_at(at[keys.rows], wanted)
    values = entries.values.take(pa.array(places, mask=places < 0))
    if entry["reduce"] is not None:
        numbers = np.zeros(len(values)) if entry["reduce"] == "count" else doubles(values)
        numbers, known = reduced(numbers, there(values), keys.sizes, entry["reduce"])
        return _numbers(numbers, known & is_there, entry["reduce"])
    return pa.ListArray.from_arrays(_ends(keys.sizes, is_there), values) if keys.are_lists else values


def _overlap(rows: pa.RecordBatch, _: str, entry: Mapping[str, Any]) -> pa.Array:
    one, other = (Lists.of(_column(rows, entry[key])) for key in KINDS["overlap"])
    codes, others = _codes(one.items, other.items)
    numbers, known = overlap(codes, one.sizes, others, other.sizes, entry["as"])
    return _numbers(numbers, known & one.there & other.there, entry["as"])


def _dot(rows: pa.RecordBatch, name: str, entry: Mapping[str, Any]) -> pa.Array:
    columns = [_column(rows, entry[key]) for key in KINDS["dot"]]
    both = there(columns[0]) & there(columns[1])
    one, other = (Lists.of(column.filter(pa.array(both))) for column in columns)
    if (differs := np.flatnonzero(one.sizes != other.sizes)).size:
        found = [f"{lists.sizes[differs[0]]} numbers in {entry[key]}" for lists, key in ((one, "of"), (other, "with"))]
        raise EncodeError(f"features.{name}: found {' and '.join(found)}, expected two vectors of one length.")
    numbers, known = product(doubles(one.items), doubles(other.items), one.sizes, entry["as"])
    has_nulls = np.bincount(one.rows, ~(there(one.items) & there(other.items)), len(one.sizes)) > 0
    every, is_known = np.zeros(len(both)), both.copy()
    every[both], is_known[both] = numbers, known & ~has_nulls
    return _numbers(every, is_known, entry["as"])


_MADE = {"lookup": _lookup, "overlap": _overlap, "dot": _dot}


@dataclass(frozen=True, slots=True)
class Lists:
    """Lists of rows: all their items, and the number of items of each row. A single value is a list of one."""

    items: pa.Array
    sizes: Integers
    there: Flags
    are_lists: bool

    @classmethod
    def of(cls, column: pa.Array) -> Self:
        """Return the lists of a column, or a list of one for each value."""
        if not pa.types.is_list(column.type):
            return cls(column, np.ones(len(column), np.int64), there(column), are_lists=False)
        return cls(column.flatten(), integers(pc.list_value_length(column)), there(column), are_lists=True)

    @property
    def rows(self) -> Integers:
        """The row of each item."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    def where(self, known: Flags) -> Self:
        """Return the lists, empty in rows that are not known."""
        if known.all() or not self.are_lists:
            return self
        items = self.items.filter(pa.array(known[self.rows]))
        return replace(self, items=items, sizes=np.where(known, self.sizes, 0))


@dataclass(frozen=True, slots=True)
class _Entries:
    """The entries of some maps, one after the other. ``maps`` has the map of each."""

    keys: pa.Array
    values: pa.Array
    maps: Integers

    @classmethod
    def of(cls, maps: pa.Array) -> Self:
        lists = Lists.of(_as_lists(maps))
        keys, values = (pc.struct_field(lists.items, [number]) for number in (0, 1))
        return cls(keys, values, lists.rows)

    @classmethod
    def of_rows(cls, rows: pa.RecordBatch, path: str) -> tuple[Self, Integers]:
        """Return the entries of a column, and the map of each row, or -1. Rows that share a map have the same one."""
        column = _stored(rows, dotted(path) or ("",))
        if not pa.types.is_dictionary(column.type):
            return cls.of(column), np.where(there(column), np.arange(len(column)), -1)
        used, at = np.unique(integers(column.indices), return_inverse=True)
        maps = column.dictionary.take(pa.array(used))
        return cls.of(maps), np.where(there(maps)[at], at, -1)

    @property
    def hold_maps(self) -> bool:
        kind = self.values.type
        return bool(pa.types.is_map(kind) or (pa.types.is_list(kind) and pa.types.is_struct(kind.value_type)))

    def last_at(self, maps: Integers, keys: pa.Array) -> Integers:
        """Return the place of the last entry with each key in a map, or -1. ``maps`` has a map for each key."""
        codes, wanted = _codes(self.keys, keys)
        order, ordered, asked = _in_order(self.maps, codes, maps, wanted)
        found = np.searchsorted(ordered, asked, "right") - 1
        known = found >= 0
        known[known] = ordered[found[known]] == asked[known]
        places = np.full(len(maps), -1)
        places[known] = order[found[known]]
        return places

    def those_under(self, maps: Integers, under: pa.Array | None, separator: str, known: Flags) -> pa.Array:
        """Return the entries in each of some maps whose keys begin with a text and the separator, or all, as a map."""
        entries = np.arange(len(self.maps))
        if under is None:
            codes, wanted = np.zeros_like(entries), np.zeros_like(maps)
        else:
            keys = _encoded(self.keys)[0]
            begins = [_begins(key, separator.encode()) for key in keys.dictionary.to_pylist()]
            of_keys, wanted = _codes(pa.array([one for some in begins for one in some], pa.binary()), under)
            counts = np.array([len(some) for some in begins] or [0], np.int64)
            numbers = _numbers_of(keys)
            sizes = np.where(numbers < 0, 0, counts[numbers])
            codes, entries = of_keys[spread((np.cumsum(counts) - counts)[numbers], sizes)], np.repeat(entries, sizes)
        order, ordered, asked = _in_order(self.maps[entries], codes, maps, wanted)
        starts = np.searchsorted(ordered, asked, "left")
        sizes = np.searchsorted(ordered, asked, "right") - starts
        places = pa.array(entries[order][spread(starts, sizes)])
        return pa.MapArray.from_arrays(_ends(sizes, known), self.keys.take(places), self.values.take(places))


def values_of_maps(maps: pa.MapArray) -> Lists:
    """Return the values of each map."""
    entries = Lists.of(_as_lists(maps))
    return replace(entries, items=pc.struct_field(entries.items, [1]))


def _as_lists(maps: pa.Array) -> pa.Array:
    """Return lists of entries, for maps or such lists."""
    if not pa.types.is_map(maps.type):
        return maps
    return maps.cast(pa.list_(pa.struct([maps.type.key_field, maps.type.item_field])))


def _begins(key: bytes | None, separator: bytes) -> list[bytes]:
    """Return what stands before each separator in a key."""
    parts = (key or b"").split(separator)
    return [separator.join(parts[:count]) for count in range(1, len(parts))]


def _in_order(
    maps: Integers, codes: Integers, of_maps: Integers, wanted: Integers
) -> tuple[Integers, Integers, Integers]:
    """Return the order of entries by their maps and codes, a number for each in this order, and those that are wanted."""
    size = 1 + max(int(codes.max(initial=0)), int(wanted.max(initial=0)))
    numbers = np.where(codes < 0, -2, maps * size + codes)
    order = np.argsort(numbers, kind="stable")
    return order, numbers[order], np.where((of_maps < 0) | (wanted < 0), -1, of_maps * size + wanted)


def _joined(under: pa.Array, keys: Lists, separator: str) -> pa.DictionaryArray:
    """Return each key behind the text that it lies under. Equal ones are joined once."""
    first, second = _encoded(under)[0], _encoded(keys.items)[0]
    numbers, others = _numbers_of(first)[keys.rows], _numbers_of(second)
    known, size = (numbers >= 0) & (others >= 0), max(1, len(second.dictionary))
    pairs = pa.array(numbers * size + others, mask=~known).dictionary_encode()
    places = integers(pairs.dictionary)
    parts = first.dictionary.take(pa.array(places // size)), second.dictionary.take(pa.array(places % size))
    return pa.DictionaryArray.from_arrays(pairs.indices, pc.binary_join_element_wise(*parts, separator.encode()))


def _codes(*columns: pa.Array) -> list[Integers]:
    """Return equal numbers for values with equal texts, and -1 for null."""
    return [_numbers_of(column) for column in _encoded(*columns)]


def _numbers_of(column: pa.DictionaryArray) -> Integers:
    return integers(pc.fill_null(column.indices, -1))


def _encoded(*columns: pa.Array) -> list[pa.DictionaryArray]:
    """Return values as places in one dictionary of their texts, so that a number and its text are equal."""
    encoded = [column.dictionary_encode() for column in columns]
    texts = [pa.DictionaryArray.from_arrays(one.indices, _texts(one.dictionary)) for one in encoded]
    return pa.chunked_array(texts).unify_dictionaries().chunks  # type: ignore[no-any-return]


def _texts(values: pa.Array) -> pa.Array:
    """Return values as text, the text as bytes."""
    return values if pa.types.is_binary(values.type) else values.cast(pa.string()).view(pa.binary())


def doubles(values: pa.Array) -> Doubles:
    """Return numbers of 64 bits, the nearest ones, and 0 for null."""
    if pa.types.is_decimal(values.type):
        values = values.cast(pa.string()).cast(pa.float64())
    numbers: Doubles = pc.fill_null(values, 0).to_numpy(zero_copy_only=False).astype(np.float64)
    return numbers


def _numbers(numbers: Doubles, known: Flags, how: str) -> pa.Array:
    return pa.array(numbers.astype(np.int64) if how in _WHOLE else numbers, mask=~known)


def _ends(sizes: Integers, known: Flags) -> pa.Array:
    """Return the offsets of lists, of which those that are not ``known`` are null."""
    ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    return pa.array(ends, mask=np.append(~known, False))


def _column(rows: pa.RecordBatch, text: str) -> pa.Array:
    return column_at(rows, dotted(text) or ("",))


def column_at(rows: pa.RecordBatch, path: Sequence[str]) -> pa.Array:
    """Return a column with a value for each row."""
    return plain_column(_stored(rows, path))


def _stored(rows: pa.RecordBatch, path: Sequence[str]) -> pa.Array:
    """Return a column of a struct, found by its names in any case."""
    first, *fields = path
    return reduce(_field, fields, rows.column(_named(first, rows.schema.names)))


def _field(struct: pa.Array, name: str) -> pa.Array:
    return pc.struct_field(struct, [_named(name, struct.type.names)])


def _named(name: str, names: Sequence[str]) -> int:
    return [one.lower() for one in names].index(name.lower())
