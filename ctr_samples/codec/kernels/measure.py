"""Kernels that measure columns on their way into records: moments of numbers, registers of distinct integers.

They stand among the codec's because they are compiled and kept with them; what the figures are for is in ``quality``.
"""

# mypy: disallow-untyped-decorators=False
from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from ctr_samples.codec.kernels.memory import load_u8, store_u8

LOOSELY = {"reassoc", "contract", "nnan", "nsz"}
"""Sums in any order, several values at a time. The caller looks whether the total is finite: if it is not, no figure counts."""


def _array(kind: Any) -> Any:
    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(kind)(types.int64), generate


@intrinsic
def float32_at(typing_context: Any, address: Any) -> Any:
    """The float32 from ``address`` on, to be read and written by index."""
    return _array(types.float32)


@intrinsic
def float64_at(typing_context: Any, address: Any) -> Any:
    """The float64 from ``address`` on, to be read and written by index."""
    return _array(types.float64)


@intrinsic
def int64_at(typing_context: Any, address: Any) -> Any:
    """The int64 from ``address`` on, to be read and written by index."""
    return _array(types.int64)


@intrinsic
def uint64_at(typing_context: Any, address: Any) -> Any:
    """The uint64 from ``address`` on, to be read by index."""
    return _array(types.uint64)


def _extreme(kind: Any, other: Any, of_floats: str, of_integers: str) -> Any:
    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        native = context.get_value_type(kind)
        if isinstance(kind, types.Integer):
            return builder.select(builder.icmp_signed(of_integers, *arguments), *arguments)
        function = builder.module.declare_intrinsic(of_floats, [native], ir.FunctionType(native, [native, native]))
        return builder.call(function, arguments, fastmath=tuple(LOOSELY))

    return kind(kind, other), generate


@intrinsic
def lesser(typing_context: Any, number: Any, other: Any) -> Any:
    """The lesser of two numbers of one type: LLVM takes several pairs at a time, which it does not see in a comparison."""
    return _extreme(number, other, "llvm.minnum", "<")


@intrinsic
def greater(typing_context: Any, number: Any, other: Any) -> Any:
    """The greater of two numbers of one type."""
    return _extreme(number, other, "llvm.maxnum", ">")


@njit(fastmath=LOOSELY)
def measure(numbers: Any, count: Any, extremes: Any, figures: Any) -> Any:
    """Measure ``count`` numbers into two ``extremes`` and three float64 at ``figures``, the first of which tells the origin.

    ``figures`` become the sum of the distances from the origin, the sum of their squares, and the number of zeros. The
    extremes are lowered and raised to the least and the greatest number.
    """
    result = float64_at(figures)
    origin, total, squares, zeros = result[0], 0.0, 0.0, 0.0
    low, high = extremes[0], extremes[1]
    for place in range(count):
        number = numbers[place]
        apart = np.float64(number) - origin
        total += apart
        squares += apart * apart
        zeros += 1.0 if number == 0 else 0.0
        low = lesser(number, low)
        high = greater(number, high)
    result[0], result[1], result[2] = total, squares, zeros
    extremes[0], extremes[1] = low, high
    return 0


@njit(fastmath=LOOSELY)
def measure_float32(values: Any, count: Any, extremes: Any, figures: Any) -> Any:
    """:func:`measure` of the float32 at ``values``."""
    return measure(float32_at(values), count, float32_at(extremes), figures)


@njit(fastmath=LOOSELY)
def measure_float64(values: Any, count: Any, extremes: Any, figures: Any) -> Any:
    """:func:`measure` of the float64 at ``values``."""
    return measure(float64_at(values), count, float64_at(extremes), figures)


@njit(fastmath=LOOSELY)
def measure_int64(values: Any, count: Any, extremes: Any, figures: Any) -> Any:
    """:func:`measure` of the int64 at ``values``."""
    return measure(int64_at(values), count, int64_at(extremes), figures)


@njit
def count_distinct(values: Any, count: Any, registers: Any, precision: Any) -> Any:
    """Raise the HyperLogLog registers, a byte each, 2 to the power of ``precision`` of them, by ``count`` uint64.

    A register has the greatest number of zeros in front of the 53 bits that follow those that choose it, and one more.
    """
    numbers = uint64_at(values)
    chosen = np.uint64(64 - precision)
    for place in range(count):
        mixed = scrambled(numbers[place])
        register = registers + np.int64(mixed >> chosen)
        rest = (mixed << np.uint64(precision)) >> np.uint64(11)
        rank = load_u8(register)
        # The rank is above that of the register where so many bits and one more are zero: of most values they are not.
        while rank < 54 and rest >> (np.uint64(53) - rank) == 0:
            rank += np.uint64(1)
            store_u8(register, rank)
    return 0


@njit
def scrambled(bits: Any) -> Any:
    """The finaliser of SplitMix64."""
    mixed = bits + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
