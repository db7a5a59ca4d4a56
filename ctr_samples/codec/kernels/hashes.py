"""Kernel that hashes texts as Spark's ``xxhash64`` does.

Source: XXH64 by Yann Collet, as in its specification. Spark hashes each column with the hash of those before as seed.
The kernel is part of the codec because it is compiled and cached with the codec's kernels; ``samples`` uses it.
"""

# mypy: disallow-untyped-decorators=False
from __future__ import annotations

from typing import Any

import numpy as np

from ctr_samples.codec.kernels.jit import njit
from ctr_samples.codec.kernels.memory import load_i64, load_u8, load_u32, load_u64, store_i64

P1, P2, P3, P4, P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)


@njit(inline="always")
def _rotated(number: Any, bits: Any) -> Any:
    return (number << np.uint64(bits)) | (number >> np.uint64(64 - bits))


@njit(inline="always")
def _round(total: Any, lane: Any) -> Any:
    return _rotated(total + lane * P2, 31) * P1


@njit
def _hash_of(begin: Any, size: Any, seed: Any) -> Any:
    """Return XXH64 of ``size`` bytes at an address, as uint64."""
    at, end = begin, begin + size
    if size >= 32:
        one, two, three, four = seed + P1 + P2, seed + P2, seed, seed - P1
        while at <= end - 32:
            one, two = _round(one, load_u64(at)), _round(two, load_u64(at + 8))
            three, four = _round(three, load_u64(at + 16)), _round(four, load_u64(at + 24))
            at += 32
        total = _rotated(one, 1) + _rotated(two, 7) + _rotated(three, 12) + _rotated(four, 18)
        for lane in (one, two, three, four):
            total = (total ^ _round(np.uint64(0), lane)) * P1 + P4
    else:
        total = seed + P5
    total += np.uint64(size)
    while at <= end - 8:
        total = _rotated(total ^ _round(np.uint64(0), load_u64(at)), 27) * P1 + P4
        at += 8
    if at <= end - 4:
        total = _rotated(total ^ (load_u32(at) * P1), 23) * P2 + P3
        at += 4
    while at < end:
        total = _rotated(total ^ (load_u8(at) * P5), 11) * P1
        at += 1
    total = (total ^ (total >> np.uint64(33))) * P2
    total = (total ^ (total >> np.uint64(29))) * P3
    return total ^ (total >> np.uint64(32))


@njit
def hash_texts(texts: Any, offsets: Any, data: Any, hashes: Any) -> Any:
    """Replace each of the ``hashes`` (int64), a seed, by the hash of a text. Returns 0.

    ``offsets`` has an int64 before each text and after the last, relative to the address ``data``. An empty text is
    hashed; the caller restores the seeds of nulls.
    """
    for text in range(texts):
        begin, end = load_i64(offsets + 8 * text), load_i64(offsets + 8 * text + 8)
        store_i64(
            hashes + 8 * text, np.int64(_hash_of(data + begin, end - begin, np.uint64(load_i64(hashes + 8 * text))))
        )
    return 0
