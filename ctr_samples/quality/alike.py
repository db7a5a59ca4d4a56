"""Rows that look the same: how many have a twin, and how many have one with another label.

A digest of each row is looked at by its size: the rows with the smallest digests of all tasks are a sample in which twins are
never parted, as both have the same digest (bottom-k sampling). Runs on executors and on the driver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ctr_samples.quality.columns import Flat
from ctr_samples.quality.distinct import Bits, scrambled

KEPT = 1024
"""Digests that are kept."""
VALUES = 1 << 17
"""Values of a task that are digested: of wide rows fewer, therefore."""

Counts = dict[int, list[int]]
"""Digest -> how many rows have it, and how many of them have a positive label."""


def digests(columns: Sequence[pa.Array]) -> Bits:
    """64 bits for each row, equal for rows that are equal in all columns."""
    total = np.zeros(len(columns[0]), np.uint64)
    for seed, column in enumerate(columns):
        flat = Flat.of(column)
        lengths = np.ones(len(column), np.int64) if flat.lengths is None else flat.lengths
        ends = np.concatenate([[0], np.cumsum(lengths)])
        inside = np.arange(ends[-1]) - np.repeat(ends[:-1], lengths)
        places = inside.astype(np.uint64) + np.uint64(seed << 32)
        mixed = scrambled(_bits(flat) + scrambled(places))
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed, dtype=np.uint64)])
        total = scrambled(total + np.diff(sums[ends]) + lengths.astype(np.uint64))
    return total


def _bits(flat: Flat) -> Bits:
    numbers = flat.numbers
    if numbers is not None:
        wide = np.float64 if numbers.dtype.kind == "f" else np.int64
        bits: Bits = numbers.astype(wide).view(np.uint64)
        return bits
    encoded = flat.values.dictionary_encode()
    texts = encoded.dictionary.cast(pa.large_binary()).to_pylist()
    of_texts: Bits = np.array([_digest(text) for text in texts], np.uint64)
    found: Bits = of_texts[encoded.indices.to_numpy()]
    return found


def _digest(text: bytes) -> int:
    import hashlib

    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def counted(columns: Sequence[pa.Array], label: npt.NDArray[Any]) -> tuple[int, Counts]:
    """How many rows were looked at, the first ones, and the counts of the smallest digests among them."""
    values = sum(len(Flat.of(column).values) for column in columns)
    rows = max(1, len(label) * VALUES // max(1, values))
    label = label[:rows]
    found, places, often = np.unique(
        digests([column.slice(0, rows) for column in columns]), return_inverse=True, return_counts=True
    )
    positive = np.bincount(places, label, len(found))
    first = slice(0, KEPT)
    entries = zip(found[first].tolist(), often[first].tolist(), positive[first].tolist(), strict=True)
    return len(label), {digest: [n, int(p)] for digest, n, p in entries}


def merged(parts: Sequence[Mapping[int, Sequence[int]]]) -> Counts:
    """The smallest digests of all tasks with the counts of all of them.

    A digest that is among the smallest of all was among those of each task that saw it, so its counts are whole.
    """
    whole: Counts = {}
    for part in parts:
        for digest, (often, positive) in part.items():
            own = whole.setdefault(digest, [0, 0])
            own[0] += often
            own[1] += positive
    return {digest: whole[digest] for digest in sorted(whole)[:KEPT]}


def shares(counts: Mapping[int, Sequence[int]]) -> tuple[float, float]:
    """The share of rows that have a twin, and the share that have one with another label."""
    rows = sum(often for often, _ in counts.values())
    if not rows:
        return 0.0, 0.0
    identical = sum(often for often, _ in counts.values() if often > 1)
    conflicting = sum(often for often, positive in counts.values() if 0 < positive < often)
    return identical / rows, conflicting / rows
