"""Kernels that measure columns before encoding: moments of numbers, HyperLogLog registers of integers.

They are part of the codec because they are compiled and cached with its kernels; ``quality`` uses them.
"""

# mypy: disallow-untyped-decorators=False
from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ctr_samples.codec.kernels.jit import njit
from ctr_samples.codec.kernels.memory import load_u8, store_u8

LOOSELY = {"reassoc", "contract", "nnan", "nsz"}
"""Floating-point flags that allow vectorised sums in any order. The caller discards all results if the total is not
finite.
"""


def _array(kind: Any) -> Any:
    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(kind)(types.int64), generate


@intrinsic
def float32_at(typing_context: Any, address: Any) -> Any:
    """Return a view of the float32 array at ``address``, to read and write by index."""
    return _array(types.float32)


@intrinsic
def float64_at(typing_context: Any, address: Any) -> Any:
    """Return a view of the float64 array at ``address``, to read and write by index."""
    return _array(types.float64)


@intrinsic
def int64_at(typing_context: Any, address: Any) -> Any:
    """Return a view of the int64 array at ``address``, to read and write by index."""
    return _array(types.int64)


@intrinsic
def uint64_at(typing_context: Any, address: Any) -> Any:
    """Return a view of the uint64 array at ``address``, to read by index."""
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
    """Return the minimum of two numbers of the same type. Unlike a comparison, LLVM vectorises it."""
    return _extreme(number, other, "llvm.minnum", "<")


@intrinsic
def greater(typing_context: Any, number: Any, other: Any) -> Any:
    """Return the maximum of two numbers of the same type."""
    return _extreme(number, other, "llvm.maxnum", ">")


@njit(fastmath=LOOSELY)
def measure(numbers: Any, count: Any, extremes: Any, figures: Any) -> Any:
    """Measure ``count`` numbers. Updates two ``extremes`` and three float64 ``figures``; the first figure is initially
    the origin.

    ``figures`` become the sum of the distances from the origin, the sum of their squares, and the number of zeros. The
    extremes are updated to the minimum and maximum.
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
    """Run :func:`measure` on the float32 array at ``values``."""
    return measure(float32_at(values), count, float32_at(extremes), figures)


@njit(fastmath=LOOSELY)
def measure_float64(values: Any, count: Any, extremes: Any, figures: Any) -> Any:
    """Run :func:`measure` on the float64 array at ``values``."""
    return measure(float64_at(values), count, float64_at(extremes), figures)


@njit(fastmath=LOOSELY)
def measure_int64(values: Any, count: Any, extremes: Any, figures: Any) -> Any:
    """Run :func:`measure` on the int64 array at ``values``."""
    return measure(int64_at(values), count, int64_at(extremes), figures)


@njit
def count_distinct(values: Any, count: Any, registers: Any, precision: Any) -> Any:
    """Update HyperLogLog registers with ``count`` uint64 values. There are 2 to the power of ``precision`` one-byte
    registers.

    A register holds the maximum number of leading zeros, plus one, in the 53 bits after the bits that select it.
    """
    numbers = uint64_at(values)
    chosen = np.uint64(64 - precision)
    for place in range(count):
        mixed = scrambled(numbers[place])
        register = registers + np.int64(mixed >> chosen)
        rest = (mixed << np.uint64(precision)) >> np.uint64(11)
        rank = load_u8(register)
        # The rank exceeds the register's only if this many bits and one more are zero, which is rare.
        while rank < 54 and rest >> (np.uint64(53) - rank) == 0:
            rank += np.uint64(1)
            store_u8(register, rank)
    return 0


@njit
def scrambled(bits: Any) -> Any:
    """Mix the bits with the SplitMix64 finaliser."""
    mixed = bits + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
