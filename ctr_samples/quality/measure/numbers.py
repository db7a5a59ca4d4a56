"""Measures of one column: exact counts and moments of all rows, and sketches of a sample of the rows.

All measures are mergeable. Merging two tasks equals measuring all their rows in one task: exactly for counts, up to
rounding for moments, within the error bounds for sketches. Runs on executors, once per batch, and on the driver.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from ctr_samples.codec.kernel_columns import is_list, offsets_of, take_apart, validity
from ctr_samples.codec.machine_code import kernels
from ctr_samples.crc32c import crc32c

Array = npt.NDArray[Any]
Bits = npt.NDArray[np.uint64]
Registers = npt.NDArray[np.uint8]

CHUNK = 1 << 16
"""Number of values measured at a time. A chunk fits in the CPU cache, since it is read several times."""
KEPT = 64
"""Number of most frequent values kept per column."""
LONGEST = 256
"""Characters of a text that are kept of a frequent value."""
SKETCHED = 1 << 14
"""Maximum number of values that a task sketches per column. Vectors therefore have fewer rows."""
SKETCH_K = 200
"""Size of the KLL sketches: a rank error of 1.3 % at 99 % confidence."""
PRECISION = 10
"""Binary logarithm of the number of registers. The standard error is 1.04 / sqrt(1024), or 3.3 %."""
_BITS = 53


class Mergeable:
    """Measures, as a dataclass, to which those of another task are added field by field."""

    __slots__ = ()

    def merge(self, other: Self) -> None:
        """Add the measures of another task, which is not used any more."""
        for one in fields(self):  # type: ignore[arg-type]
            setattr(self, one.name, _sum(getattr(self, one.name), getattr(other, one.name)))


def _sum(one: Any, other: Any) -> Any:
    """Add numbers and arrays, lists of numbers place by place, dicts by name, and whatever has a method for it."""
    if isinstance(one, dict):
        for name, value in other.items():
            one[name] = _sum(one[name], value) if name in one else value
    elif isinstance(one, list):
        return [mine + theirs for mine, theirs in zip(one, other, strict=True)]
    elif hasattr(one, "merge"):
        one.merge(other)
    else:
        return one + other
    return one


@dataclass(frozen=True, slots=True)
class Flat:
    """A flattened column: the non-null values, and the number of values per row."""

    values: pa.Array
    lengths: Array | None
    nulls: int

    @classmethod
    def of(cls, column: pa.Array) -> Self:
        """Flatten a column of scalars, lists or lists of lists."""
        values, offsets = column, None
        while is_list(values.type):
            apart = take_apart(values)
            offsets = apart.offsets if offsets is None else apart.offsets[offsets]
            values = apart.values
        valid = validity(values)
        if valid is not None:
            kept = offsets_of(valid.astype(np.int64))
            offsets = kept if offsets is None else kept[offsets]
            values = values.drop_null()
        return cls(values, None if offsets is None else np.diff(offsets), column.null_count)

    @property
    def numbers(self) -> Array | None:
        """Values as a NumPy array; None for text."""
        kind = self.values.type
        if pt.is_boolean(kind):
            return self.values.to_numpy(zero_copy_only=False).astype(np.int64)  # type: ignore[no-any-return]
        return self.values.to_numpy() if pt.is_integer(kind) or pt.is_floating(kind) else None

    def per_value(self, of_rows: Array) -> Array:
        """Repeat a figure of each row for each of its values."""
        return of_rows if self.lengths is None else np.repeat(of_rows, self.lengths)


@dataclass(slots=True)
class ColumnMoments:
    """Moments of the finite values of a column. ``values`` also counts NaN and infinity. Without finite values, ``min`` is
    above ``max``.
    """

    values: int = 0
    finite: int = 0
    zeros: int = 0
    nan: int = 0
    infinite: int = 0
    min: float = math.inf
    max: float = -math.inf
    mean: float = 0.0
    squares: float = 0.0
    """Sum of squared distances from the mean."""

    def observe(self, numbers: Array) -> None:
        """Add numbers."""
        for start in range(0, len(numbers), CHUNK):
            self.merge(ColumnMoments._of(numbers[start : start + CHUNK]))

    @classmethod
    def _of(cls, chunk: Array) -> ColumnMoments:
        values, nan, infinite = len(chunk), 0, 0
        origin, total, squares, zeros, low, high = _measured(chunk)
        if not np.isfinite(total):  # detects NaN and infinity without an extra pass
            nan, infinite = int(np.isnan(chunk).sum()), int(np.isinf(chunk).sum())
            chunk = chunk[np.isfinite(chunk)]
            if not len(chunk):
                return cls(values, nan=nan, infinite=infinite)
            origin, total, squares, zeros, low, high = _measured(chunk)
        finite = len(chunk)
        squares = max(0.0, squares - total * total / finite) if np.isfinite(squares) else np.inf
        return cls(values, finite, int(zeros), nan, infinite, low, high, origin + total / finite, squares)

    def merge(self, other: ColumnMoments) -> None:
        """Merge ``other`` into this instance (Chan, Golub and LeVeque, 1979)."""
        both = self.finite + other.finite
        if other.finite:
            apart = other.mean - self.mean
            self.mean += apart * other.finite / both
            self.squares += other.squares + apart * apart * self.finite * other.finite / both
        self.min, self.max = min(self.min, other.min), max(self.max, other.max)
        self.finite = both
        self.values += other.values
        self.zeros += other.zeros
        self.nan += other.nan
        self.infinite += other.infinite

    @property
    def std(self) -> float | None:
        """Standard deviation of the finite values."""
        return float(np.sqrt(self.squares / self.finite)) if self.finite else None


def _measured(chunk: Array) -> list[float]:
    """Return the origin of a non-empty chunk, the sums of the distances from it and of their squares, zeros, minimum, maximum.

    The origin is a value of the chunk, which preserves precision if all values are far from 0.
    """
    if chunk.dtype not in _KERNELS:
        chunk = chunk.astype(np.float64 if chunk.dtype.kind == "f" else np.int64)
    chunk = np.ascontiguousarray(chunk)
    origin = float(chunk[0]) if np.isfinite(chunk[0]) else 0.0
    figures, extremes = np.array([origin, 0.0, 0.0]), np.array([chunk[0], chunk[0]])
    measure = getattr(kernels(), _KERNELS[chunk.dtype])
    measure(chunk.ctypes.data, len(chunk), extremes.ctypes.data, figures.ctypes.data)
    return [origin, *figures.tolist(), *extremes.tolist()]


_KERNELS = {np.dtype(kind): f"measure_{kind}" for kind in ("float32", "float64", "int64")}


@dataclass(slots=True)
class Quantiles(Mergeable):
    """A KLL sketch of all numbers. With a 0/1 label, there is one sketch per class, to measure class separation."""

    sketches: dict[str, Any] = field(default_factory=dict)

    def observe(self, numbers: Array, label: Array | None) -> None:
        """Add the finite numbers. ``label`` is 0 or 1 for each number."""
        from datasketches import kll_doubles_sketch

        finite = np.isfinite(numbers) if numbers.dtype.kind == "f" else np.ones(len(numbers), bool)
        groups = {"all": finite} if label is None else {"0": finite & (label == 0), "1": finite & (label != 0)}
        for name, chosen in groups.items():
            if chosen.any():
                sketch = self.sketches.setdefault(name, kll_doubles_sketch(SKETCH_K))
                sketch.update(numbers[chosen].astype(np.float64))

    @property
    def whole(self) -> Any:
        """Single sketch of all numbers, or None if the column has no numbers."""
        from datasketches import kll_doubles_sketch

        if not self.sketches:
            return None
        both = kll_doubles_sketch(SKETCH_K)
        for name in sorted(self.sketches):
            both.merge(self.sketches[name])
        return both

    def __reduce__(self) -> tuple[Any, ...]:
        return Quantiles.of, ({name: sketch.serialize() for name, sketch in self.sketches.items()},)

    @classmethod
    def of(cls, serialized: Mapping[str, bytes]) -> Self:
        """Return the sketches that a task has serialized."""
        from datasketches import kll_doubles_sketch

        return cls({name: kll_doubles_sketch.deserialize(sketch) for name, sketch in serialized.items()})


@dataclass(slots=True)
class Frequent(Mergeable):
    """The total and positive counts of the most frequent values.

    Each task keeps :data:`KEPT` values. Any other value loses its count in that task, at most the count of the last
    kept value.
    """

    seen: int = 0
    positives: int = 0
    counts: dict[Any, list[int]] = field(default_factory=dict)

    def observe(self, values: pa.Array, label: Array | None) -> None:
        """Add values. ``label`` is 0 or 1 for each value."""
        encoded = values.dictionary_encode()
        indices = encoded.indices.to_numpy()
        often = np.bincount(indices, minlength=len(encoded.dictionary))
        positive = np.zeros(len(often)) if label is None else np.bincount(indices, label, len(often))
        first = np.argsort(-often, kind="stable")[:KEPT]
        names = encoded.dictionary.take(pa.array(first))
        if pt.is_string(names.type) or pt.is_large_string(names.type):
            names = names.cast(pa.large_binary())  # text from Spark is not always UTF-8
        names = names.to_pylist()
        counts = {named(name): [int(often[i]), int(positive[i])] for name, i in zip(names, first, strict=True)}
        self.merge(Frequent(len(values), int(positive.sum()), counts))

    def first(self, most: int = KEPT) -> list[tuple[Any, int, int]]:
        """Return the most frequent values with both counts. Ties are sorted as text."""
        ranked = sorted(self.counts.items(), key=lambda item: (-item[1][0], str(item[0])))
        return [(name, often, positive) for name, (often, positive) in ranked[:most]]

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what a task sends: the most frequent values."""
        counts = {name: [often, positive] for name, often, positive in self.first()}
        return Frequent, (self.seen, self.positives, counts)


def named(value: Any) -> Any:
    """Return a value under which it is counted: text for bytes, and of long text the beginning, the size and a checksum."""
    if not isinstance(value, bytes):
        return value
    text = value.decode("utf-8", "backslashreplace")
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}... ({len(value):,} bytes, checksum {crc32c(value):08x})"


def no_values(precision: int = PRECISION) -> Registers:
    """Return ``2 ** precision`` empty registers."""
    return np.zeros(1 << precision, np.uint8)


def count_distinct(registers: Registers, bits: Bits) -> None:
    """Add 64-bit values to ``registers`` in place: HyperLogLog as machine code, like the codec.

    The library of the quantile sketches counts distinct values too, but accepts only one Python value at a time, which
    costs many times more than encoding a row.
    """
    precision = len(registers).bit_length() - 1
    kernels().count_distinct(bits.ctypes.data, len(bits), registers.ctypes.data, precision)


def distinct_values(registers: Registers) -> float:
    """Estimate the number of distinct values added.

    O. Ertl, New cardinality estimation algorithms for HyperLogLog sketches (2017), algorithm 6: unbiased even for small
    counts, without tables.
    """
    size = len(registers)
    counts = np.bincount(registers, minlength=_BITS + 2).astype(float)
    z = size * _tau(1 - counts[_BITS + 1] / size)
    for k in range(_BITS, 0, -1):
        z = 0.5 * (z + counts[k])
    z += size * _sigma(counts[0] / size)
    return 0.0 if math.isinf(z) else size * size / (2 * math.log(2)) / z


def _sigma(x: float) -> float:
    if x == 1:
        return math.inf
    y, z, before = 1.0, x, math.nan
    while z != before:
        x *= x
        before = z
        z += x * y
        y += y
    return z


def _tau(x: float) -> float:
    if x in (0, 1):
        return 0.0
    y, z, before = 1.0, 1 - x, math.nan
    while z != before:
        x = math.sqrt(x)
        before = z
        y *= 0.5
        z -= (1 - x) ** 2 * y
    return z / 3


@dataclass(slots=True)
class ColumnMeasures:
    """Measures of one column of one split. Without lists, ``shortest`` is above ``longest``."""

    rows: int = 0
    nulls: int = 0
    defaults: int = 0
    shortest: float = math.inf
    longest: float = -math.inf
    moments: ColumnMoments = field(default_factory=ColumnMoments)
    registers: Registers = field(default_factory=no_values)
    looked_at: int = 0
    filled: Array = field(default_factory=lambda: np.zeros((2, 2), np.int64))
    """Number of sketched rows without a non-default value, and with a non-default value, each by label 0 and 1."""
    quantiles: Quantiles = field(default_factory=Quantiles)
    frequent: Frequent = field(default_factory=Frequent)

    def observe(self, column: pa.Array, default: float | str | None = None, missing_id: int | None = None) -> None:
        """Count all rows. ``default`` replaces missing values; ``missing_id`` is the id of missing values."""
        flat = Flat.of(column)
        numbers = flat.numbers
        self.rows += len(column)
        self.nulls += flat.nulls
        if numbers is not None and isinstance(default, float) and np.isnan(default):  # NaN stands for missing values
            self.defaults += int(np.isnan(numbers).sum()) if flat.lengths is None else 0
            numbers, default = numbers[~np.isnan(numbers)], None
        if numbers is not None:
            self.moments.observe(numbers)
            if numbers.dtype.kind != "f":
                count_distinct(self.registers, numbers.astype(np.int64).view(np.uint64))
        else:
            self.moments.values += len(flat.values)
        if missing_id is not None:
            self.nulls += int(np.count_nonzero(_are_default(flat, numbers, missing_id)))
        if default is not None:
            self.defaults += int(np.count_nonzero(_are_default(flat, numbers, default)))
        if flat.lengths is not None and len(flat.lengths) and is_list(column.type):
            self.shortest = min(self.shortest, int(flat.lengths.min()))
            self.longest = max(self.longest, int(flat.lengths.max()))

    def look(
        self,
        column: pa.Array,
        label: Array | None,
        default: float | str | None = None,
        *,
        as_numbers: bool,
        as_values: bool,
    ) -> None:
        """Sketch a random sample of the rows. ``label`` is 0 or 1 for each row."""
        most = max(1, SKETCHED * len(column) // max(1, len(Flat.of(column).values)))
        column = column.slice(0, most)
        label = None if label is None else label[:most]
        flat = Flat.of(column)
        numbers = flat.numbers
        self.looked_at += len(column)
        if label is not None:
            which = 2 * _are_filled(flat, numbers, default) + label
            self.filled = self.filled + np.bincount(which, minlength=4).reshape(2, 2)
        if numbers is not None and as_numbers:
            scalar = flat.lengths is None or int(flat.lengths.max(initial=0)) <= 1
            self.quantiles.observe(numbers, flat.per_value(label) if scalar and label is not None else None)
            if numbers.dtype.kind == "f":
                count_distinct(self.registers, numbers.astype(np.float64).view(np.uint64))
        if as_values and len(flat.values):
            self.frequent.observe(flat.values, None if label is None else flat.per_value(label))

    def merge(self, other: ColumnMeasures) -> None:
        """Add the measures of another task."""
        self.rows += other.rows
        self.nulls += other.nulls
        self.defaults += other.defaults
        self.shortest, self.longest = min(self.shortest, other.shortest), max(self.longest, other.longest)
        self.moments.merge(other.moments)
        np.maximum(self.registers, other.registers, out=self.registers)
        self.looked_at += other.looked_at
        self.filled = self.filled + other.filled
        self.quantiles.merge(other.quantiles)
        self.frequent.merge(other.frequent)


def _are_filled(flat: Flat, numbers: Array | None, default: float | str | None) -> Array:
    """Return a mask of the rows with a non-default value. A single NaN counts as missing."""
    lengths = np.ones(len(flat.values), np.int64) if flat.lengths is None else flat.lengths
    filled = lengths > 0
    if numbers is not None and numbers.dtype.kind == "f" and lengths.max(initial=0) <= 1:
        filled[filled] = ~np.isnan(numbers)
    if default is not None:
        filled &= ~_are_default(flat, numbers, default)
    return filled


def _are_default(flat: Flat, numbers: Array | None, default: float | str) -> Array:
    """Return a mask of the non-empty rows in which every value is the default."""
    if flat.lengths is None:
        return _equal(flat.values, numbers, default)
    lengths, starts = flat.lengths, np.cumsum(flat.lengths) - flat.lengths
    chosen = lengths > 0
    if numbers is not None:  # few rows begin and end with the default; only such rows are checked in full
        chosen[chosen] = (numbers[starts[chosen]] == default) & (numbers[(starts + lengths - 1)[chosen]] == default)
    lengths, starts = lengths[chosen], starts[chosen]
    if len(lengths):
        firsts = np.cumsum(lengths) - lengths
        positions = np.arange(lengths.sum()) + np.repeat(starts - firsts, lengths)
        texts = flat.values.take(pa.array(positions)) if numbers is None else flat.values
        alike = _equal(texts, None if numbers is None else numbers[positions], default)
        chosen[chosen] = np.logical_and.reduceat(alike, firsts)
    return chosen


def _equal(values: pa.Array, numbers: Array | None, default: float | str) -> Array:
    """Return a mask of the values equal to the default. Compares ``numbers``, or texts in ``values`` if it is None."""
    if numbers is not None:
        same: Array = numbers == default
        return same
    kind = values.type
    wanted = pa.scalar(str(default).encode() if pt.is_binary(kind) or pt.is_large_binary(kind) else str(default), kind)
    return pc.equal(values, wanted).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
