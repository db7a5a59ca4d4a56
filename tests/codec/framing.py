"""Framing by the book, one record at a time, independent of the code under test; and its records as the codec has them."""

from __future__ import annotations

import struct

import numpy as np

from ctr_samples.codec import EncodedBatch, frame_offsets

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


def array(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


def chunk(*messages: bytes) -> EncodedBatch:
    """The records of a file, as a reader hands them over."""
    data = array(b"".join(map(frame, messages)))
    return EncodedBatch(data, frame_offsets(data))


def messages_of(encoded: EncodedBatch) -> list[bytes]:
    return [bytes(encoded.records(i, i + 1))[12:-4] for i in range(len(encoded))]
