"""Kernel that checks for well-formed UTF-8, by table 3-7 of the Unicode standard."""

# mypy: disallow-untyped-decorators=False
from __future__ import annotations

from typing import Any

from ctr_samples.codec.kernels.jit import njit
from ctr_samples.codec.kernels.memory import load_i64, load_u8

NOT_ASCII = -0x7F7F7F7F7F7F7F80
"""Mask of the highest bit in each of eight bytes."""


@njit
def after(first: Any) -> Any:
    """Return the number of bytes after a first byte (0: invalid), and the range of the second byte. Later bytes are 80
    to BF.
    """
    if first < 0xC2 or first > 0xF4:
        return 0, 0x80, 0xBF
    more = 1 if first < 0xE0 else 2 if first < 0xF0 else 3
    low = 0xA0 if first == 0xE0 else 0x90 if first == 0xF0 else 0x80
    high = 0x9F if first == 0xED else 0x8F if first == 0xF4 else 0xBF
    return more, low, high


@njit
def is_utf8(position: Any, end: Any) -> Any:
    """Return 1 if the bytes are well-formed UTF-8, else 0. No overlong forms, surrogates or values over U+10FFFF."""
    while position < end:
        if position + 8 <= end and load_i64(position) & NOT_ASCII == 0:
            position += 8
            continue
        first = load_u8(position)
        position += 1
        if first < 0x80:
            continue
        more, low, high = after(first)
        if more == 0 or position + more > end:
            return 0
        for _ in range(more):
            byte = load_u8(position)
            if byte < low or byte > high:
                return 0
            low, high = 0x80, 0xBF
            position += 1
    return 1
