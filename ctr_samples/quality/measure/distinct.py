"""Number of distinct values in a column, by HyperLogLog over whole arrays.

The library of the quantile sketches counts distinct values too, but accepts only one Python value at a time, which
costs many times more than encoding a row. This module runs HyperLogLog as machine code, like the codec.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from ctr_samples.codec.machine_code import kernels

PRECISION = 10
"""Binary logarithm of the number of registers. The standard error is 1.04 / sqrt(1024), or 3.3 %."""

_BITS = 53

Bits = npt.NDArray[np.uint64]
Registers = npt.NDArray[np.uint8]


def no_values(precision: int = PRECISION) -> Registers:
    """Return ``2 ** precision`` empty registers."""
    return np.zeros(1 << precision, np.uint8)


def observe(registers: Registers, bits: Bits) -> None:
    """Add 64-bit values to ``registers`` in place."""
    precision = len(registers).bit_length() - 1
    kernels().count_distinct(bits.ctypes.data, len(bits), registers.ctypes.data, precision)


def scrambled(bits: Bits) -> Bits:
    """Mix bits with a bijection, the finalizer of SplitMix64, so that they look random."""
    mixed = bits + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def estimate(registers: Registers) -> float:
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
