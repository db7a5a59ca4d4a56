"""Values of a feature in many samples, in a form in which the two sides can be compared. NumPy and Arrow only."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ctr_samples.contract import FeatureSpec
from ctr_samples.errors import InputError

Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[Any]

_STEPS = 4 * 2.0**-24
"""Four steps of float32, relative to the number: what another order of additions may change."""
_MIX = np.uint64(0x9E3779B97F4A7C15)


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
    splits: npt.NDArray[np.int64]
    present: Flags
    of_text: bool = False

    def __len__(self) -> int:
        return len(self.present)

    @classmethod
    def of(cls, array: pa.Array | pa.ChunkedArray, spec: FeatureSpec, where: str) -> Self:
        """Return the values of an Arrow array for a feature. Raises InputError if they are of another kind."""
        array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
        present = _numpy(pc.is_valid(array)).astype(np.bool_)
        lengths, flat = present.astype(np.int64), array
        if _is_list(array.type):
            lengths, flat = _lengths(array), pc.list_flatten(array)
            while _is_list(flat.type):  # lists of lists of one size
                ends, outer = (np.concatenate([[0], np.cumsum(some)]) for some in (_lengths(flat), lengths))
                lengths, flat = np.diff(ends[outer]), pc.list_flatten(flat)
        else:
            flat = pc.drop_null(array)
        splits = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        values = _hashes_of_text(flat) if spec.dtype == "bytes" else _numbers(flat, spec, where)
        return cls(values, splits, present, spec.dtype == "bytes")

    @classmethod
    def absent(cls, rows: int) -> Self:
        """Return a column without any value."""
        return cls(np.zeros(0), np.zeros(rows + 1, np.int64), np.zeros(rows, np.bool_))

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
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

    def take(self, rows: npt.NDArray[np.int64]) -> Column:
        """Return some rows, in any order."""
        lengths = self.lengths[rows]
        splits = np.concatenate([[0], np.cumsum(lengths)])
        if len(self.values) == len(self) and np.array_equal(self.splits, np.arange(len(self) + 1)):
            return Column(self.values[rows], splits, self.present[rows], self.of_text)
        within = np.arange(splits[-1]) - np.repeat(splits[:-1], lengths)
        return Column(
            self.values[np.repeat(self.splits[rows], lengths) + within], splits, self.present[rows], self.of_text
        )

    def in_half_precision(self) -> Column:
        """Return the numbers as float16 holds them."""
        with np.errstate(over="ignore"):
            return Column(self.values.astype(np.float16).astype(np.float64), self.splits, self.present, self.of_text)

    def hashes(self) -> npt.NDArray[np.uint64]:
        """Return a hash of each row: equal for equal values, and 1 for rows without a value."""
        if self.values.dtype == np.float64:
            bits = (self.values + 0.0).astype(np.float32).view(np.uint32).astype(np.uint64)  # -0.0 is 0.0
        else:
            bits = self.values.view(np.uint64)
        within = (np.arange(len(bits)) - np.repeat(self.splits[:-1], self.lengths)).astype(np.uint64)
        with np.errstate(over="ignore"):
            mixed = _mixed(bits + _MIX * (within + np.uint64(1)))
            sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed, dtype=np.uint64)])
            whole = _mixed(sums[self.splits[1:]] - sums[self.splits[:-1]] + self.lengths.astype(np.uint64))
        return np.where(self.present, whole, np.uint64(1))


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


def _all(flags: Flags, splits: npt.NDArray[np.int64]) -> Flags:
    """Whether all flags of each row are set."""
    wrong = np.concatenate([[0], np.cumsum(~flags)])
    return np.asarray(wrong[splits[1:]] == wrong[splits[:-1]], np.bool_)


def joined(columns: list[Column]) -> Column:
    """Put the rows of several columns one after the other."""
    lengths = np.concatenate([column.lengths for column in columns])
    return Column(
        np.concatenate([column.values for column in columns]),
        np.concatenate([[0], np.cumsum(lengths)]),
        np.concatenate([column.present for column in columns]),
        any(column.of_text for column in columns),
    )


def together(columns: list[Column]) -> npt.NDArray[np.uint64]:
    """Return a hash of the values of several features of each sample."""
    with np.errstate(over="ignore"):
        whole = np.zeros(len(columns[0]), np.uint64)
        for column in columns:
            whole = whole * np.uint64(0x9E3779B97F4A7C15) + column.hashes()
    return whole


def _mixed(bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Mix bits as splitmix64 does (Steele, Lea and Flood, 2014)."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _numpy(array: pa.Array) -> Numbers:
    return np.asarray(array.to_numpy(zero_copy_only=False))


def _lengths(array: pa.Array) -> npt.NDArray[np.int64]:
    return _numpy(pc.fill_null(pc.list_value_length(array), 0)).astype(np.int64)


def _numbers(flat: pa.Array, spec: FeatureSpec, where: str) -> Numbers:
    """Return int64 for whole numbers of an integer feature, else float64. Text that holds numbers is read as numbers."""
    if pa.types.is_boolean(flat.type):
        flat = flat.cast(pa.int8())
    if spec.dtype == "int64":
        try:
            return _numpy(flat.cast(pa.int64())).astype(np.int64) if flat.null_count == 0 else _as_floats(flat)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            pass  # not whole numbers, which may be what differs
    try:
        found = _as_floats(flat)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise InputError(
            f"{where} is {flat.type}; expected numbers, as the samples have them. Say under `served.columns` which column "
            "holds the feature."
        ) from None
    with np.errstate(over="ignore"):
        return found.astype(np.float32).astype(np.float64) if spec.dtype == "float32" else found


def _as_floats(flat: pa.Array) -> npt.NDArray[np.float64]:
    return _numpy(pc.fill_null(flat.cast(pa.float64(), safe=False), np.nan)).astype(np.float64)


def _hashes_of_text(flat: pa.Array) -> npt.NDArray[np.uint64]:
    """Return a number for each text: different texts have different ones, up to collisions of 64 bits."""
    coded = (
        flat.cast(pa.binary()).dictionary_encode()
        if _is_text(flat.type)
        else flat.cast(pa.string()).dictionary_encode()
    )
    words = [word.encode() if isinstance(word, str) else word or b"" for word in coded.dictionary.to_pylist()]
    known = np.array(
        [int.from_bytes(blake2b(word, digest_size=8).digest(), "little") for word in words] or [0], np.uint64
    )
    return known[_numpy(pc.fill_null(coded.indices, 0))]


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind))
