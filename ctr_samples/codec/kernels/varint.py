"""Protobuf varints: seven bits per byte, lowest first. The top bit is set if more bytes follow."""

# mypy: disallow-untyped-decorators=False
from __future__ import annotations

from typing import Any

import numpy as np

from ctr_samples.codec.kernels.jit import njit
from ctr_samples.codec.kernels.memory import leading_zeros, store_u8, store_u64

SEVEN_BITS = np.uint64(0x7F)
MORE = np.uint64(0x80)
ONE = np.uint64(1)
MORE_IN_ALL = np.uint64(0x8080808080808080)
FIRST_OVER_56_BITS = np.uint64(1 << 56)


@njit(forceinline=True)
def varint_size(value: Any) -> Any:
    """Return the size of ``value`` (int64 or uint64) as a varint: 1 to 10 bytes. Negative numbers take 10."""
    bits = 64 - leading_zeros(np.uint64(value) | ONE)
    return (bits * 9 + 64) >> 6


@njit(forceinline=True)
def spread(value: Any) -> Any:
    """Spread the 56 low bits of ``value`` over eight bytes, seven bits each."""
    value = (value & np.uint64(0x000000000FFFFFFF)) | ((value & np.uint64(0x00FFFFFFF0000000)) << np.uint64(4))
    value = (value & np.uint64(0x00003FFF00003FFF)) | ((value & np.uint64(0x0FFFC0000FFFC000)) << np.uint64(2))
    return (value & np.uint64(0x007F007F007F007F)) | ((value & np.uint64(0x3F803F803F803F80)) << ONE)


@njit(forceinline=True)
def gather(word: Any) -> Any:
    """Pack the low seven bits of each byte of ``word`` into a 56-bit number: the inverse of :func:`spread`."""
    word = (word & np.uint64(0x007F007F007F007F)) | ((word & np.uint64(0x7F007F007F007F00)) >> ONE)
    word = (word & np.uint64(0x00003FFF00003FFF)) | ((word & np.uint64(0x3FFF00003FFF0000)) >> np.uint64(2))
    return (word & np.uint64(0x000000000FFFFFFF)) | ((word & np.uint64(0x0FFFFFFF00000000)) >> np.uint64(4))


@njit(forceinline=True)
def write_varint(position: Any, number: Any) -> Any:
    """Write ``number`` at ``position`` and return the position after it. May overwrite up to 10 bytes from
    ``position``.
    """
    value = np.uint64(number)
    if value < MORE:
        store_u8(position, value)
        return position + 1
    size = varint_size(value)
    if value < FIRST_OVER_56_BITS:
        continued = MORE_IN_ALL >> np.uint64(8 * (9 - size))
        store_u64(position, spread(value) | continued)
        return position + size
    store_u64(position, spread(value) | MORE_IN_ALL)
    top = value >> np.uint64(56)
    if top < MORE:
        store_u8(position + 8, top)
    else:
        store_u8(position + 8, top | MORE)
        store_u8(position + 9, ONE)
    return position + size
