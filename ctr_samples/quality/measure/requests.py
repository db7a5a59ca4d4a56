"""Requests: how many impressions they have, which share of a record they repeat, and what each order costs in gzip.

All figures come from a sample of requests by hash: every task keeps the requests whose hash ends in the same number of
zero bits, so a request is kept by all tasks or by none. Runs on executors and on the driver.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
import numpy.typing as npt

from ctr_samples.codec.deflate import compressor
from ctr_samples.codec.layout import FOOTER, HEADER
from ctr_samples.contract import RecordType
from ctr_samples.quality.measure.numbers import Mergeable
from ctr_samples.quality.metrics import Gzip, Requests

COUNTED = 4096
"""Number of requests that a task counts."""
KEPT_BYTES = 8 << 20
"""Size of the records that all tasks together keep."""
KEPT_ROWS = 64
"""Number of records kept of a request, so that a crawler's request leaves room for others."""
COMPARED = 1000
"""Number of pairs of neighbours whose bytes are compared."""

Hashes = npt.NDArray[np.int64]
_NONE = np.empty(0, np.int64)


class RequestSums:
    """Number of impressions of the requests whose hash ends in ``level`` zero bits."""

    def __init__(self) -> None:
        self.level, self._requests, self._counts = 0, _NONE, _NONE

    def add(self, requests: Hashes, counts: Hashes, level: int = 0) -> None:
        """Add requests, which may repeat, with their numbers of impressions. Their sample has this level."""
        self.level = max(level, self.level)
        kept = ends_in_zeros(requests, self.level)
        self._requests = np.concatenate([self._requests, requests[kept]])
        self._counts = np.concatenate([self._counts, counts[kept]])
        if len(self._requests) > 2 * COUNTED:
            self.reduce()

    def merge(self, other: RequestSums) -> None:
        """Add the counts of another task."""
        self.add(other._requests, other._counts, other.level)

    def reduce(self) -> Hashes:
        """Merge equal requests, keep at most :data:`COUNTED`, and return their numbers of impressions."""
        self._requests, back = np.unique(self._requests, return_inverse=True)
        self._counts = np.bincount(back, self._counts, len(self._requests)).astype(np.int64)
        while len(kept := np.flatnonzero(ends_in_zeros(self._requests, self.level))) > COUNTED:
            self.level += 1
        self._requests, self._counts = self._requests[kept], self._counts[kept]
        return self._counts


class Records:
    """Records of a sample of requests, at most :data:`KEPT_ROWS` of each, in the order by request."""

    def __init__(self, most_bytes: int = KEPT_BYTES) -> None:
        self._most, self.level = most_bytes, 0
        self.requests, self.places = _NONE, _NONE
        self._records: list[bytes] = []

    def add(self, requests: Hashes, places: Hashes, records: Sequence[bytes], level: int = 0) -> None:
        """Add records with the hashes of their requests and impressions."""
        self.level = max(level, self.level)
        self.requests = np.concatenate([self.requests, requests])
        self.places = np.concatenate([self.places, places])
        self._records += records
        self._reduce()

    def merge(self, other: Records) -> None:
        """Add the records of another task."""
        self.add(other.requests, other.places, other._records, other.level)

    def _reduce(self) -> None:
        order = np.lexsort((self.places, self.requests))
        first = np.r_[True, np.diff(self.requests[order]) != 0][: len(order)]
        within = np.arange(len(order)) - np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))
        order = order[within < KEPT_ROWS]
        sizes = np.array([len(self._records[row]) for row in order], np.int64)
        while sizes[kept := ends_in_zeros(self.requests[order], self.level)].sum() > self._most:
            self.level += 1
        order = order[kept]
        self.requests, self.places = self.requests[order], self.places[order]
        self._records = [self._records[row] for row in order]

    @property
    def size(self) -> int:
        """Size of all records in bytes."""
        return sum(map(len, self._records))

    def in_order(self, *columns: Hashes) -> Iterator[bytes]:
        """Yield the records in ascending order of the last column, then of those before."""
        return (self._records[row] for row in np.lexsort(columns))

    def neighbours(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield adjacent records of equal requests."""
        for row in np.flatnonzero(self.requests[1:] == self.requests[:-1]):
            yield self._records[row], self._records[row + 1]


@dataclass(slots=True)
class RequestMeasures(Mergeable):
    """A sample of the requests of a task, or of all tasks after they are merged."""

    counts: RequestSums = field(default_factory=RequestSums)
    records: Records = field(default_factory=Records)

    def result(self, keys: Sequence[str], largest: int, record: RecordType, *, adjacent: bool) -> Requests | None:
        """Return the figures, or None without samples. ``largest`` is the size of the largest request seen elsewhere."""
        counts = self.counts.reduce()
        if not len(counts):
            return None
        return Requests(
            keys=tuple(keys),
            adjacent=adjacent,
            requests=len(counts) << self.counts.level,
            looked_at=len(counts),
            mean=float(counts.mean()),
            median=float(np.median(counts)),
            largest=max(largest, int(counts.max())),
            equal_bytes=self._equal_bytes(record),
            gzip=self._gzip(),
        )

    def _equal_bytes(self, record: RecordType) -> float | None:
        equal = total = 0
        for before, after in islice(self.records.neighbours(), COMPARED):
            equal += _equal_bytes(*({b"": one} if record == "byte_array" else _entries(one) for one in (before, after)))
            total += len(after)
        return equal / total if total else None

    def _gzip(self) -> Gzip | None:
        plain = self.records.size
        if not plain:
            return None
        by_impression, by_request = (
            _gzipped(self.records.in_order(*columns)) / plain
            for columns in ([self.records.places], [self.records.places, self.records.requests])
        )
        return Gzip(plain, by_impression, by_request)


def ends_in_zeros(hashes: Hashes, bits: int) -> npt.NDArray[np.bool_]:
    """Return which hashes end in so many zero bits."""
    zeros: npt.NDArray[np.bool_] = (hashes & np.int64((1 << bits) - 1)) == 0
    return zeros


def _equal_bytes(before: Mapping[bytes, bytes], after: Mapping[bytes, bytes]) -> int:
    """Count bytes of features with equal values, and equal words of four bytes in features of equal size."""
    equal = 0
    for name, value in after.items():
        other = before.get(name, b"")
        if other == value:
            equal += len(value)
        elif len(other) == len(value):  # the values stand at the end
            words = (np.frombuffer(one[len(one) % 4 :], np.uint32) for one in (other, value))
            equal += 4 * int(np.equal(*words).sum())
    return equal


def _entries(record: bytes) -> dict[bytes, bytes]:
    """Return the features of a framed Example or SequenceExample by name, each with its tags and lengths."""
    entries = {}
    for part in _fields(record, HEADER, len(record) - FOOTER):
        for entry in _fields(record, *part):
            name = next(_fields(record, *entry))
            entries[record[slice(*name)]] = record[slice(*entry)]
    return entries


def _fields(data: bytes, first: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield where the contents of the length-delimited fields of a message begin and end."""
    while first < stop:
        size, shift, first = 0, 0, first + 1
        while True:
            byte = data[first]
            size, shift, first = size | (byte & 0x7F) << shift, shift + 7, first + 1
            if byte < 0x80:
                break
        yield first, first + size
        first += size


def _gzipped(records: Iterator[bytes]) -> int:
    stream = compressor("gzip")
    return sum(len(stream.compress(record)) for record in records) + len(stream.flush())
