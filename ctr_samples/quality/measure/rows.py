"""Measures of whole rows: rows that are alike, positives by value, correlations with biases, bytes in a record.

All can be merged over tasks. Runs on executors and on the driver.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from ctr_samples.codec import ExampleEncoder
from ctr_samples.contract import ExampleContract
from ctr_samples.errors import EncodeError
from ctr_samples.quality.measure.numbers import Flat, Mergeable, named

KEPT = 1024
"""Number of smallest digests kept. Digests of more than 1 % of the rows are kept too."""
HEAVY = 0.01
VALUES = 1 << 17
"""Maximum number of values that a task digests. Wider rows mean fewer rows."""
MOST_VALUES = 1_000
"""Maximum number of values of a column that a task tells apart. The samples of all others are counted together."""
BYTES_OF = 64
"""Rows of each task whose bytes are counted."""
WHOLE = ""
"""Name of the whole record among those of the features."""


@dataclass(slots=True)
class Alike(Mergeable):
    """Number of rows and number of positive rows by digest, of ``looked_at`` rows.

    The rows with the smallest digests over all tasks form a sample (bottom-k sampling), which never separates twins because
    they share a digest. Merged counts are complete: a digest among the smallest overall is among the smallest of every task
    that has it.
    """

    looked_at: int = 0
    counts: dict[int, list[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: pa.RecordBatch, contract: ExampleContract, label: npt.NDArray[Any]) -> Alike:
        """Count the digests of the first rows, and keep the smallest and the heavy ones. Rows are alike if records of their
        features are; a missing value is none of its default.
        """
        features = tuple(replace(spec, nulls="omit") for spec in contract.features if spec.role == "feature")
        rows = rows.select([spec.name for spec in features])
        values = sum(len(Flat.of(column).values) for column in rows.columns)
        most = max(1, len(label) * VALUES // max(1, values))
        label = label[:most]
        try:
            encoded = ExampleEncoder(replace(contract, features=features)).encode(rows.slice(0, most))
        except EncodeError:  # the writer says what is wrong
            return cls()
        digests = np.array([_digest(bytes(encoded.records(row, row + 1))) for row in range(len(encoded))], np.uint64)
        kinds, kind_of_row, often = np.unique(digests, return_inverse=True, return_counts=True)
        positive = np.bincount(kind_of_row, label, len(kinds))
        kept = (np.arange(len(kinds)) < KEPT) | (often >= _heavy(len(label)))
        entries = zip(kinds[kept].tolist(), often[kept].tolist(), positive[kept].tolist(), strict=True)
        return cls(len(label), {digest: [n, int(p)] for digest, n, p in entries})

    def shares(self) -> tuple[float, float]:
        """Return the share of sampled rows with a twin, and the share of rows whose twin has a different label.

        Heavy digests are counted exactly. The smallest light digests represent all other digests.
        """
        least = _heavy(self.looked_at)
        heavy = [both for both in self.counts.values() if both[0] >= least]
        light = [self.counts[digest] for digest in sorted(self.counts) if self.counts[digest][0] < least][:KEPT]
        rest = max(0, self.looked_at - sum(often for often, _ in heavy))
        of_light = _twins(light, sum(often for often, _ in light))
        of_heavy = _twins(heavy, 1)
        identical, conflicting = (
            (h + light_share * rest) / max(1, self.looked_at) for h, light_share in zip(of_heavy, of_light, strict=True)
        )
        return identical, conflicting


def _digest(record: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(record, digest_size=8).digest(), "little")


def _heavy(looked_at: int) -> float:
    """Return the row count from which a digest is always counted, since sampling such digests would add too much noise."""
    return max(8.0, looked_at * HEAVY)


def _twins(counts: Sequence[Sequence[int]], rows: int) -> tuple[float, float]:
    identical = sum(often for often, _ in counts if often > 1)
    conflicting = sum(often for often, positive in counts if 0 < positive < often)
    return identical / max(1, rows), conflicting / max(1, rows)


class ValueCounts:
    """Samples and positives by value, as for the arms of an experiment. None is the value of rows without one."""

    def __init__(self) -> None:
        self.values: dict[str | None, list[int]] = {}
        self.others = [0, 0]

    def observe(self, values: pa.Array, positive: npt.NDArray[Any]) -> None:
        """Count a batch. Runs on an executor."""
        encoded = values.dictionary_encode(null_encoding="encode")
        places, names = encoded.indices.to_numpy(zero_copy_only=False), encoded.dictionary.cast(pa.binary()).to_pylist()
        samples = np.bincount(places, minlength=len(names)).tolist()
        positives = np.bincount(places, positive, len(names)).astype(np.int64).tolist()
        self.add(zip(map(named, names), samples, positives, strict=True))

    def add(self, counts: Iterable[Sequence[Any]]) -> None:
        """Add samples and positives of values."""
        for value, samples, positives in counts:
            there = self.values.get(value)
            if there is None and len(self.values) < MOST_VALUES:
                there = self.values[value] = [0, 0]
            kept = self.others if there is None else there
            kept[0] += samples
            kept[1] += positives

    def merge(self, other: ValueCounts) -> None:
        """Add the counts of a task."""
        self.add((value, *counts) for value, counts in other.values.items())
        self.others = [self.others[0] + other.others[0], self.others[1] + other.others[1]]


Sums = npt.NDArray[np.float64]
"""Count, both sums, both sums of squares, and the sum of the products of pairs of numbers."""


def sums_with(rows: pa.RecordBatch, biases: Sequence[str], features: Sequence[str]) -> dict[str, dict[str, Sums]]:
    """Return the sums of each bias and each other feature that are single numbers. Runs on executors."""
    numbers = dict(_numbers(rows, features))
    pairs = {bias: [name for name in numbers if name not in biases] for bias in biases if bias in numbers}
    return {bias: {name: _sums(numbers[bias], numbers[name]) for name in names} for bias, names in pairs.items()}


def _numbers(rows: pa.RecordBatch, names: Sequence[str]) -> Iterator[tuple[str, npt.NDArray[np.float64]]]:
    for name in names:
        column = rows.column(name)
        if pt.is_integer(column.type) or pt.is_floating(column.type):
            yield name, column.to_numpy(zero_copy_only=False).astype(np.float64)


def _sums(one: npt.NDArray[np.float64], other: npt.NDArray[np.float64]) -> Sums:
    there = np.isfinite(one) & np.isfinite(other)
    x, y = one[there], other[there]
    with np.errstate(over="ignore", invalid="ignore"):
        return np.array([len(x), x.sum(), y.sum(), x @ x, y @ y, x @ y])


def correlations(sums: Mapping[str, Sums]) -> dict[str, float]:
    """Return the absolute correlation (Pearson) of each feature with a bias, from sums over all tasks. A feature that does
    not vary has none.
    """
    found = {}
    for name, (n, x, y, xx, yy, xy) in sums.items():
        spread = (n * xx - x * x) * (n * yy - y * y)
        if np.isfinite(spread) and spread > 0:
            found[name] = float(min(1.0, abs(n * xy - x * y) / spread**0.5))
    return found


def bytes_of(rows: pa.RecordBatch, contract: ExampleContract) -> dict[str, int]:
    """Return the bytes of each feature in the first rows of a batch, and of their whole records. Empty for layouts that join
    features into one.

    A feature takes what it adds to records of the keys alone. Runs on executors.
    """
    if contract.parts or not rows.num_rows:
        return {}
    few, keys = rows.slice(0, BYTES_OF), tuple(f for f in contract.features if f.role == "key")

    def size(names: list[str]) -> int:
        specs = tuple(spec for spec in contract.features if spec in keys or spec.name in names)
        encoder = ExampleEncoder(replace(contract, features=specs))
        return len(encoder.encode(few.select([spec.name for spec in specs])).buffer)

    try:
        alone = size([])
        found = {name: size([name]) - alone for name in contract.names("feature")}
        return found | {WHOLE: size(contract.names())}
    except EncodeError:  # the writer says what is wrong
        return {}
