"""Duplicate rows: share of rows with a twin, and share of rows whose twin has a different label.

Each row gets a digest. The rows with the smallest digests over all tasks form a sample (bottom-k sampling), which never
separates twins because they share a digest. Runs on executors and on the driver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ctr_samples.codec.kernel_columns import offsets_of
from ctr_samples.quality.measure.distinct import Bits, scrambled
from ctr_samples.quality.measure.numbers import Flat

KEPT = 1024
"""Number of smallest digests kept. Digests of more than 1 % of the rows are kept too."""
HEAVY = 0.01
VALUES = 1 << 17
"""Maximum number of values that a task digests. Wider rows mean fewer rows."""

Counts = dict[int, list[int]]
"""Number of rows and number of positive rows, by digest."""


def digests(columns: Sequence[pa.Array]) -> Bits:
    """Return a 64-bit digest per row. Rows that agree in all columns have equal digests."""
    total = np.zeros(len(columns[0]), np.uint64)
    for seed, column in enumerate(columns):
        flat = Flat.of(column)
        lengths = np.ones(len(column), np.int64) if flat.lengths is None else flat.lengths
        ends = offsets_of(lengths)
        inside = np.arange(ends[-1]) - np.repeat(ends[:-1], lengths)
        places = inside.astype(np.uint64) + np.uint64(seed << 32)
        mixed = scrambled(_bits(flat) + scrambled(places))
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed, dtype=np.uint64)])
        total = scrambled(total + np.diff(sums[ends]) + lengths.astype(np.uint64))
    return total


def _bits(flat: Flat) -> Bits:
    numbers = flat.numbers
    if numbers is not None:
        # As records hold them, so that values that are read back have the digests of those that were written.
        with np.errstate(over="ignore"):
            numbers = numbers.astype(np.float32) if numbers.dtype.kind == "f" else numbers
        wide = numbers.astype(np.float64 if numbers.dtype.kind == "f" else np.int64)
        bits: Bits = wide.view(np.uint64)
        return bits
    encoded = flat.values.dictionary_encode()
    texts = encoded.dictionary.cast(pa.large_binary()).to_pylist()
    of_texts: Bits = np.array([_digest(text) for text in texts], np.uint64)
    of_rows: Bits = of_texts[encoded.indices.to_numpy()]
    return of_rows


def _digest(text: bytes) -> int:
    import hashlib

    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def counted(columns: Sequence[pa.Array], label: npt.NDArray[Any]) -> tuple[int, Counts]:
    """Count the digests of the first rows. Return the number of rows, and counts of the smallest and heavy digests."""
    values = sum(len(Flat.of(column).values) for column in columns)
    rows = max(1, len(label) * VALUES // max(1, values))
    label = label[:rows]
    kinds, kind_of_row, often = np.unique(
        digests([column.slice(0, rows) for column in columns]), return_inverse=True, return_counts=True
    )
    positive = np.bincount(kind_of_row, label, len(kinds))
    kept = (np.arange(len(kinds)) < KEPT) | (often >= _heavy(len(label)))
    entries = zip(kinds[kept].tolist(), often[kept].tolist(), positive[kept].tolist(), strict=True)
    return len(label), {digest: [n, int(p)] for digest, n, p in entries}


def _heavy(looked_at: int) -> float:
    """Return the row count from which a digest is always counted, since sampling such digests would add too much noise."""
    return max(8.0, looked_at * HEAVY)


def merged(parts: Sequence[Mapping[int, Sequence[int]]]) -> Counts:
    """Sum the counts of all tasks.

    The counts are complete: a digest among the smallest overall is among the smallest of every task that has it.
    """
    whole: Counts = {}
    for part in parts:
        for digest, (often, positive) in part.items():
            own = whole.setdefault(digest, [0, 0])
            own[0] += often
            own[1] += positive
    return whole


def shares(counts: Mapping[int, Sequence[int]], looked_at: int) -> tuple[float, float]:
    """Return the share of sampled rows with a twin, and the share of rows whose twin has a different label.

    Heavy digests are counted exactly. The smallest light digests represent all other digests.
    """
    heavy = [both for both in counts.values() if both[0] >= _heavy(looked_at)]
    light = [counts[digest] for digest in sorted(counts) if counts[digest][0] < _heavy(looked_at)][:KEPT]
    rest = max(0, looked_at - sum(often for often, _ in heavy))
    of_light = _twins(light, sum(often for often, _ in light))
    of_heavy = _twins(heavy, 1)
    identical, conflicting = (
        (h + light_share * rest) / max(1, looked_at) for h, light_share in zip(of_heavy, of_light, strict=True)
    )
    return identical, conflicting


def _twins(counts: Sequence[Sequence[int]], rows: int) -> tuple[float, float]:
    identical = sum(often for often, _ in counts if often > 1)
    conflicting = sum(often for often, positive in counts if 0 < positive < often)
    return identical / max(1, rows), conflicting / max(1, rows)
