"""Messages as other writers may write them: odd, but valid protobuf. Made from a seed, since strategies would be slow."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable


def varint(number: int, *, padding: int = 0) -> bytes:
    """``number`` (unsigned) as a varint, with redundant bytes at its end if ``padding`` asks for them."""
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    if not padding:
        return bytes([*out, number])
    return bytes([*out, number | 0x80, *[0x80] * (padding - 1), 0])


def delimited(number: int, content: bytes) -> bytes:
    """A length-delimited field."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def odd_message(seed: int) -> bytes:
    """An Example message with the features a, b and c among others."""
    return Writer(random.Random(seed)).message()


class Writer:
    """Writes what protobuf allows and no sane writer does: unpacked lists, split chunks, unknown fields, repeated keys,
    features of several kinds or none, groups, entries with their value first."""

    def __init__(self, choice: random.Random) -> None:
        self.choice = choice

    def message(self) -> bytes:
        return self.with_unknown(self.several(2, lambda: delimited(1, self.features())))

    def features(self) -> bytes:
        return self.with_unknown(self.several(5, self.entry))

    def entry(self) -> bytes:
        """Without unknown fields: Python's protobuf sets such entries aside, against what it does everywhere else."""
        keys = [delimited(1, self.name()) for _ in range(self.choice.choice([1, 1, 1, 1, 0, 2]))]
        values = [delimited(2, self.feature()) for _ in range(self.choice.choice([1, 1, 1, 1, 0, 2]))]
        parts = keys + values
        if self.choice.random() < 0.3:
            self.choice.shuffle(parts)
        return delimited(1, b"".join(parts))

    def name(self) -> bytes:
        return self.choice.choice([b"a", b"b", b"c", b"other", b"", b"a" * 9])

    def feature(self) -> bytes:
        return self.with_unknown(self.several(2, self.list_of_values))

    def list_of_values(self) -> bytes:
        kind, chunk = self.choice.choice([(1, self.some_bytes), (2, self.floats), (3, self.integers)])
        return delimited(kind, self.with_unknown(self.several(3, chunk)))

    def some_bytes(self) -> bytes:
        return delimited(1, self.choice.randbytes(self.choice.randrange(7)))

    def floats(self) -> bytes:
        numbers = [struct.pack("<f", self.choice.uniform(-9, 9)) for _ in range(self.choice.randrange(4))]
        return delimited(1, b"".join(numbers)) if self.packed() else b"".join(b"\x0d" + n for n in numbers)

    def integers(self) -> bytes:
        numbers = [self.integer() for _ in range(self.choice.randrange(4))]
        return delimited(1, b"".join(numbers)) if self.packed() else b"".join(b"\x08" + n for n in numbers)

    def integer(self) -> bytes:
        number = self.choice.getrandbits(self.choice.choice([3, 8, 20, 40, 64]))
        return varint(number, padding=self.choice.randrange(3) if number < 2**40 else 0)

    def packed(self) -> bool:
        return self.choice.random() < 0.5

    def several(self, most: int, part: Callable[[], bytes]) -> list[bytes]:
        return [part() for _ in range(self.choice.randint(0, most))]

    def with_unknown(self, parts: list[bytes]) -> bytes:
        """The parts with an unknown field among them now and then."""
        if self.choice.random() < 0.2:
            parts.insert(self.choice.randint(0, len(parts)), self.unknown_field(2))
        return b"".join(parts)

    def unknown_field(self, depth: int) -> bytes:
        number = self.choice.choice([5, 15, 16, 2047, 2**29 - 1])
        wire = self.choice.choice([0, 1, 2, 5, 3] if depth else [0, 1, 2, 5])
        if wire == 3:
            inside = b"".join(self.several(2, lambda: self.unknown_field(depth - 1)))
            return varint(number << 3 | 3) + inside + varint(number << 3 | 4)
        content = {0: varint(300), 1: bytes(8), 2: b"\x03xyz", 5: bytes(4)}[wire]
        return varint(number << 3 | wire) + content


def altered(message: bytes, seed: int) -> bytes:
    """The message with a few bytes changed, or its end cut off."""
    choice = random.Random(seed)
    data = bytearray(message)
    for _ in range(choice.randint(0, 3) if data else 0):
        data[choice.randrange(len(data))] = choice.choice([choice.randrange(256), 0, 0x80, 0xFF])
    return bytes(data if choice.random() < 0.7 else data[: choice.randint(0, len(data))])
