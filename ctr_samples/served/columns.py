"""Values of a feature in many samples, in a form in which the two sides can be compared. NumPy and Arrow only."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ctr_samples.codec.kernel_columns import is_list
from ctr_samples.contract import FeatureSpec

Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Numbers = npt.NDArray[Any]

_STEPS = 4 * 2.0**-24
"""Four steps of float32, relative to the number: what another order of additions may change."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The largest difference of numbers that are near: ``absolute``, or ``relative`` to the offline number.

    ``null_is_nan`` says that no served value may stand for NaN, as in tables: pandas and JSON write NaN as null.
    """

    absolute: float = 0.0
    relative: float = _STEPS
    null_is_nan: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """One feature of some samples. ``values`` are the numbers or hashes of text of all rows, one after the other; row i
    has those from ``splits[i]`` to ``splits[i + 1]``. ``present`` says which rows have a value at all.
    """

    values: Numbers
    splits: Ints
    present: Flags
    of_text: bool = False

    def __len__(self) -> int:
        return len(self.present)

    @classmethod
    def of(cls, array: pa.Array | pa.ChunkedArray, spec: FeatureSpec) -> Self:
        """Return the values of an Arrow array of numbers or text, whichever the feature has, or of lists of them."""
        array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
        present = _numpy(pc.is_valid(array)).astype(np.bool_)
        lengths, flat = present.astype(np.int64), array
        if is_list(array.type):
            lengths, flat = _lengths(array), pc.list_flatten(array)
            while is_list(flat.type):  # lists of lists of one size
                ends, outer = _splits(_lengths(flat)), _splits(lengths)
                lengths, flat = np.diff(ends[outer]), pc.list_flatten(flat)
        else:
            flat = pc.drop_null(array)
        of_text = spec.dtype == "bytes"
        return cls(hashes_of_text(flat) if of_text else _numbers(flat, spec), _splits(lengths), present, of_text)

    @classmethod
    def joined(cls, columns: Sequence[Self]) -> Self:
        """Put the rows of several columns one after the other."""
        lengths = np.concatenate([column.lengths for column in columns])
        values, present = (np.concatenate([getattr(one, part) for one in columns]) for part in ("values", "present"))
        return cls(values, _splits(lengths), present, any(column.of_text for column in columns))

    @property
    def lengths(self) -> Ints:
        """Number of values of each row."""
        return np.diff(self.splits)

    @property
    def single(self) -> bool:
        """Whether each row that has a value has one number."""
        return not self.of_text and bool(np.array_equal(self.lengths, self.present))

    def numbers(self) -> npt.NDArray[np.float64]:
        """Return the single numbers of all rows, NaN for rows without one."""
        found = np.full(len(self), np.nan)
        found[self.present] = self.values
        return found.astype(np.float64)

    def row(self, number: int) -> Numbers:
        """Return the values of a row."""
        return self.values[self.splits[number] : self.splits[number + 1]]

    def take(self, rows: Ints) -> Column:
        """Return some rows, in any order."""
        lengths = self.lengths[rows]
        splits = _splits(lengths)
        if len(self.values) == len(self) and np.array_equal(self.splits, np.arange(len(self) + 1)):
            return Column(self.values[rows], splits, self.present[rows], self.of_text)
        within = np.arange(splits[-1]) - np.repeat(splits[:-1], lengths)
        values = self.values[np.repeat(self.splits[rows], lengths) + within]
        return Column(values, splits, self.present[rows], self.of_text)

    def in_half_precision(self) -> Column:
        """Return the numbers as float16 holds them."""
        with np.errstate(over="ignore"):
            return Column(self.values.astype(np.float16).astype(np.float64), self.splits, self.present, self.of_text)


@dataclass(frozen=True, slots=True)
class Pairs:
    """One feature of some samples on both sides, and which of them differ."""

    offline: Column
    served: Column
    differ: Flags

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Put the samples of several parts one after the other."""
        offline, served = (Column.joined([getattr(one, side) for one in parts]) for side in ("offline", "served"))
        return cls(offline, served, np.concatenate([one.differ for one in parts]))

    def take(self, rows: Ints) -> Pairs:
        """Return some of the samples, in any order."""
        return Pairs(self.offline.take(rows), self.served.take(rows), self.differ[rows])


@dataclass(frozen=True, slots=True)
class Agreement:
    """Which rows of two columns are equal, and which are near without being equal."""

    equal: Flags
    near: Flags

    @property
    def agree(self) -> Flags:
        """Rows that are equal or near."""
        return self.equal | self.near


def compared(offline: Column, served: Column, tolerance: Tolerance) -> Agreement:
    """Compare columns row by row. Two rows without a value are equal."""
    neither = ~offline.present & ~served.present
    if tolerance.null_is_nan and offline.single:
        neither |= np.isnan(offline.numbers()) & ~served.present
    alike = offline.present & served.present & (offline.lengths == served.lengths)
    rows = np.flatnonzero(alike)
    mine, theirs = offline.take(rows), served.take(rows)
    same = mine.values == theirs.values
    close = same
    whole = mine.values.dtype == np.int64 and not tolerance.absolute  # ids are never near
    if not (offline.of_text or served.of_text or whole):
        with np.errstate(invalid="ignore"):
            both_nan = (mine.values != mine.values) & (theirs.values != theirs.values)
            limit = tolerance.absolute + tolerance.relative * np.abs(mine.values)
            within = np.isfinite(limit) & (np.abs(mine.values - theirs.values) <= limit)
            same, close = same | both_nan, same | both_nan | within
    equal, agree = neither.copy(), neither.copy()
    equal[rows] = _all(same, mine.splits)
    agree[rows] = _all(close, mine.splits)
    return Agreement(equal, agree & ~equal)


def _all(flags: Flags, splits: Ints) -> Flags:
    """Whether all flags of each row are set."""
    wrong = _splits(~flags)
    return np.asarray(wrong[splits[1:]] == wrong[splits[:-1]], np.bool_)


def _numpy(array: pa.Array) -> Numbers:
    return np.asarray(array.to_numpy(zero_copy_only=False))


def _lengths(array: pa.Array) -> Ints:
    return _numpy(pc.fill_null(pc.list_value_length(array), 0)).astype(np.int64)


def _splits(lengths: Ints | Flags) -> Ints:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def _numbers(flat: pa.Array, spec: FeatureSpec) -> Numbers:
    """Return int64 for whole numbers of an integer feature, else float64."""
    if spec.dtype == "int64" and not flat.null_count:
        with suppress(pa.ArrowInvalid):  # not whole numbers, which may be what differs
            return _numpy(flat.cast(pa.int64())).astype(np.int64)
    found = _numpy(pc.fill_null(flat.cast(pa.float64(), safe=False), np.nan)).astype(np.float64)
    with np.errstate(over="ignore"):
        return found.astype(np.float32).astype(np.float64) if spec.dtype == "float32" else found


def hashes_of_text(texts: pa.Array) -> npt.NDArray[np.uint64]:
    """Return a number for each text: different texts have different ones, up to collisions of 64 bits. Null has 1."""
    coded = texts.cast(pa.binary()).dictionary_encode()
    hashes = [int.from_bytes(blake2b(word, digest_size=8).digest(), "little") for word in coded.dictionary.to_pylist()]
    return np.array([*hashes, 1], np.uint64)[_numpy(pc.fill_null(coded.indices, len(hashes)))]
