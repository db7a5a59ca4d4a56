"""The hash used by the job: XXH64 with seed 42, like Spark's ``xxhash64``. Uses the ``xxhash`` package if installed."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import date, datetime
from typing import Any

from ctr_samples.errors import InputError

SEED = 42
SEPARATOR = b"\x1f"
MISSING = b"\x00"

_MASK = 2**64 - 1
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def xxh64(data: bytes, seed: int = SEED) -> int:
    """Compute XXH64 in pure Python, unsigned. Takes a few microseconds for a typical key."""
    size, position = len(data), 0
    if size >= 32:
        lanes = [(seed + _P1 + _P2) & _MASK, (seed + _P2) & _MASK, seed, (seed - _P1) & _MASK]
        while position <= size - 32:
            for lane in range(4):
                lanes[lane] = _round(lanes[lane], int.from_bytes(data[position : position + 8], "little"))
                position += 8
        h = sum(_rotated(value, by) for value, by in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
        for value in lanes:
            h = ((h ^ _round(0, value)) * _P1 + _P4) & _MASK
    else:
        h = (seed + _P5) & _MASK
    h = (h + size) & _MASK
    while position + 8 <= size:
        h ^= _round(0, int.from_bytes(data[position : position + 8], "little"))
        h = (_rotated(h, 27) * _P1 + _P4) & _MASK
        position += 8
    if position + 4 <= size:
        h ^= (int.from_bytes(data[position : position + 4], "little") * _P1) & _MASK
        h = (_rotated(h, 23) * _P2 + _P3) & _MASK
        position += 4
    for byte in data[position:]:
        h ^= (byte * _P5) & _MASK
        h = (_rotated(h, 11) * _P1) & _MASK
    h = ((h ^ h >> 33) * _P2) & _MASK
    h = ((h ^ h >> 29) * _P3) & _MASK
    return h ^ h >> 32


def _round(accumulator: int, value: int) -> int:
    return (_rotated((accumulator + value * _P2) & _MASK, 31) * _P1) & _MASK


def _rotated(value: int, by: int) -> int:
    return (value << by | value >> 64 - by) & _MASK


_digest: Callable[[bytes, int], int] = xxh64
with suppress(ModuleNotFoundError):
    _digest = importlib.import_module("xxhash").xxh64_intdigest


def bucket_of(prefix: bytes, parts: Sequence[bytes], buckets: int) -> int:
    """Return the bucket of some values: their signed hash modulo ``buckets``. ``prefix`` is the salt and a separator."""
    value = _digest(prefix + SEPARATOR.join(parts), SEED)
    return (value - (value >> 63 << 64)) % buckets


def prefix_of(salt: str) -> bytes:
    """Return the bytes hashed before the values."""
    return salt.encode() + SEPARATOR


def encoded(text: str, name: str) -> bytes:
    """Return text as UTF-8. Raises InputError for half of a surrogate pair, which no log can have."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"features.{name}: found {text!r}, which has half of a surrogate pair, expected text that UTF-8 can hold; pass it "
            "as the log has it."
        ) from None


def text_of(value: Any, name: str) -> bytes:
    """Convert a value to text as Spark does. Raises InputError for types that Java formats differently."""
    kind = type(value)
    if kind is str:
        return encoded(value, name)
    if value is None:
        return MISSING
    if kind is int:
        return b"%d" % value
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat().encode()
    if hasattr(value, "item"):  # a NumPy scalar
        return text_of(value.item(), name)
    raise InputError(
        f"features.{name}: found {value!r}, expected text, an integer, a boolean or a date for an id; pass the column in "
        "the type it has in the source."
    )
