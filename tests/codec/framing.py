"""Framing by the book, one record at a time, independent of the code under test."""

from __future__ import annotations

import struct

import numpy as np
import tensorflow as tf

REMAINDERS = [0] * 256
for byte in range(256):
    remainder = byte
    for _ in range(8):
        remainder = (remainder >> 1) ^ 0x82F63B78 if remainder & 1 else remainder >> 1
    REMAINDERS[byte] = remainder


def masked_crc(data: bytes) -> int:
    state = 0xFFFFFFFF
    for byte in data:
        state = REMAINDERS[(state ^ byte) & 0xFF] ^ (state >> 8)
    crc = state ^ 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def header(length: int) -> bytes:
    """A record's length with its valid checksum."""
    packed = struct.pack("<Q", length)
    return packed + struct.pack("<I", masked_crc(packed))


def frame(message: bytes) -> bytes:
    return header(len(message)) + message + struct.pack("<I", masked_crc(message))


def example(**features: list[int] | list[float] | list[bytes]) -> bytes:
    """A serialized tf.train.Example; the type of the first value decides the kind."""
    return tf.train.Example(
        features=tf.train.Features(feature={name: feature(values) for name, values in features.items()})
    ).SerializeToString(deterministic=True)


def feature(values: list[int] | list[float] | list[bytes]) -> tf.train.Feature:
    if values and isinstance(values[0], bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if values and isinstance(values[0], float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def array(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)
