"""Compare served lines with the samples of a day, feature by feature, in parts that fit into memory. No Spark."""

from __future__ import annotations

import heapq
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import feather

from ctr_samples.codec import ExampleDecoder
from ctr_samples.contract import ExampleContract
from ctr_samples.quality.measure.collecting import columns_of
from ctr_samples.quality.pseudonyms import Pseudonyms
from ctr_samples.quality.served import Compared, Coverage, Pair
from ctr_samples.records.read import records_of
from ctr_samples.served.columns import Column, Flags, Ints, Pairs, Tolerance, compared
from ctr_samples.served.keys import ImpressionIndex
from ctr_samples.served.log import ID, TIME, ServedLog, specs_of
from ctr_samples.shards import Manifest, Storage

MEMORY = 256 << 20
"""Bytes of both sides that are joined at a time. Comparing them takes about four times as much."""
AT_RANDOM = 4000
"""Samples kept to tell how many would agree with other clocks."""
DIFFERING = 3000
"""Differences of a feature that are kept to seek their cause: those with the smallest hashes of their ids."""
PAIRS = 10
HOURS = 24
_EXPANDS = 4
"""Bytes in memory of a byte of compressed samples, roughly."""
_MOST_EDITED = 200


class Side:
    """Rows of one side, cut by the ids of their impressions. Beyond a share of the memory, they are kept in files."""

    def __init__(self, directory: Path, parts: int) -> None:
        self._directory, self._parts, self._bytes = directory, parts, 0
        self._kept: list[list[pa.Table]] = [[] for _ in range(parts)]
        self._files: list[list[Path]] = [[] for _ in range(parts)]
        self.rows = self.without_id = 0
        directory.mkdir()

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows. Those without an id are counted alone."""
        ids = batch.column(ID)
        self.without_id += ids.null_count
        batch = batch.filter(pc.is_valid(ids)) if ids.null_count else batch
        self.rows += batch.num_rows
        self._bytes += batch.nbytes
        # Ids are hashes, so their upper bits tell the part.
        parts = (batch.column(ID).to_numpy().view(np.uint64) >> np.uint64(32)) % np.uint64(self._parts)
        order = np.argsort(parts, kind="stable")
        ends = np.searchsorted(parts[order], np.arange(self._parts + 1))
        table = pa.Table.from_batches([batch.take(pa.array(order)) if self._parts > 1 else batch])
        for part in np.flatnonzero(np.diff(ends)):
            self._kept[part].append(table.slice(ends[part], ends[part + 1] - ends[part]))
        if self._bytes > MEMORY // 2:
            self._write()

    def _write(self) -> None:
        for part, tables in enumerate(self._kept):
            if tables:
                path = self._directory / f"{part}-{len(self._files[part])}.arrow"
                feather.write_feather(_whole(tables), str(path), compression="uncompressed")
                self._files[part].append(path)
        self._kept, self._bytes = [[] for _ in range(self._parts)], 0

    def part(self, number: int) -> pa.Table | None:
        """Return the rows of a part in the order in which they came, or None if it has none."""
        written = [feather.read_table(str(path), memory_map=True) for path in self._files[number]]
        tables = [*written, *self._kept[number]]
        return _whole(tables) if tables else None


def _whole(tables: Sequence[pa.Table]) -> pa.Table:
    """Put tables one after the other, whose columns and types may differ as those of JSON files do."""
    return pa.concat_tables(tables, promote_options="permissive")


@dataclass(frozen=True, slots=True)
class Matched:
    """A part of both sides. Row i of ``samples`` and row i of ``served`` are of the same impression; the other ids are on
    one side only.
    """

    samples: pa.Table | None
    served: pa.Table | None
    not_served: Ints
    no_sample: Ints
    repeated: int
    """Further served lines of an impression. The first one counts."""


@dataclass(frozen=True, slots=True)
class Sides:
    """Both sides of a comparison, in as many parts."""

    samples: Side
    served: Side
    parts: int

    @classmethod
    @contextmanager
    def of(cls, expected_bytes: int) -> Iterator[Sides]:
        """Prepare for about as many bytes of both sides together. Removes its files at the end."""
        parts = max(1, -(-expected_bytes // MEMORY))
        with tempfile.TemporaryDirectory(prefix="compare-served-") as root:
            yield Sides(Side(Path(root, "samples"), parts), Side(Path(root, "served"), parts), parts)

    def matched(self) -> Iterator[Matched]:
        """Yield the parts, each joined."""
        for number in range(self.parts):
            yield _matched(self.samples.part(number), self.served.part(number))


def _matched(samples: pa.Table | None, served: pa.Table | None) -> Matched:
    mine, theirs = (
        np.zeros(0, np.int64) if side is None else np.asarray(side.column(ID).to_numpy(), np.int64)
        for side in (samples, served)
    )
    unique, first = np.unique(theirs, return_index=True)
    there = np.isin(mine, unique)
    return Matched(
        None if samples is None else samples.take(pa.array(np.flatnonzero(there))),
        None if served is None else served.take(pa.array(first[np.searchsorted(unique, mine[there])])),
        mine[~there],
        unique[~np.isin(unique, mine)],
        len(theirs) - len(unique),
    )


def smallest(ids: Ints, count: int) -> Ints:
    """Return the places of the ``count`` ids with the smallest hashes: the same ones of whatever they are chosen from."""
    with np.errstate(over="ignore"):
        hashes = (ids.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) ^ np.uint64(0x5851F42D4C957F2D)
        hashes *= np.uint64(0xD6E8FEB86659FD93)
    return np.arange(len(ids)) if len(ids) <= count else np.sort(np.argpartition(hashes, count)[:count])


@dataclass(frozen=True, slots=True)
class Kept:
    """Samples on both sides whose causes are sought, row by row: those chosen ``at_random`` and those that differ."""

    ids: Ints
    at_random: Flags
    features: dict[str, Pairs]

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def joined(cls, parts: Sequence[Kept]) -> Kept:
        """Return the samples of all parts: each part has kept as many as all may have."""
        ids = np.concatenate([np.zeros(0, np.int64), *(part.ids for part in parts)])
        at_random = np.concatenate([np.zeros(0, np.bool_), *(part.at_random for part in parts)])
        names = parts[0].features if parts else ()
        return cls(ids, at_random, {n: Pairs.joined([part.features[n] for part in parts]) for n in names}).fewer()

    def take(self, rows: Ints) -> Kept:
        """Return some of the samples, in any order."""
        return Kept(self.ids[rows], self.at_random[rows], {n: pairs.take(rows) for n, pairs in self.features.items()})

    def fewer(self) -> Kept:
        """Return as many samples at random and as many that differ as are kept."""
        at_random = self._smallest(self.at_random, AT_RANDOM)
        chosen = at_random.copy()
        for pairs in self.features.values():
            chosen |= self._smallest(pairs.differ, DIFFERING)
        return Kept(self.ids, at_random, self.features).take(np.flatnonzero(chosen))

    def _smallest(self, flags: Flags, count: int) -> Flags:
        rows, chosen = np.flatnonzero(flags), np.zeros(len(flags), np.bool_)
        chosen[rows[smallest(self.ids[rows], count)]] = True
        return chosen


@dataclass(slots=True)
class _Counts:
    """What a feature has over the parts so far. ``totals`` are by their names in the document."""

    totals: Counter[str] = field(default_factory=Counter)
    by_hour: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros((2, HOURS), np.int64))
    worst: list[tuple[float, int, str, str]] = field(default_factory=list)
    edits: list[Mapping[str, float]] = field(default_factory=list)


@dataclass(slots=True)
class Comparison:
    """Everything that the two sides tell without the inputs of the samples."""

    log: ServedLog
    tolerances: Mapping[str, Tolerance]
    zone: str
    index: ImpressionIndex | None
    """Finds the impressions of lines without an id."""
    names: Pseudonyms | None
    """Stand for users, requests and other keys in features that hold them. None if the configuration requests raw ids."""
    counts: dict[str, _Counts] = field(default_factory=dict)
    totals: Counter[str] = field(default_factory=Counter)
    """Counts of both sides, by their names in the coverage of the document."""
    no_sample: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    kept: list[Kept] = field(default_factory=list)

    def run(self, storage: Storage, manifest: Manifest) -> None:
        """Read both sides and compare them. Raises DamagedFile for a shard or file that is damaged."""
        size = sum(shard.bytes for shard in manifest.shards) * (1 if manifest.compression == "none" else _EXPANDS)
        size += sum(file.bytes for file in self.log.files.shards) * (1 if self.log.format == "tfrecord" else _EXPANDS)
        with Sides.of(size) as sides:
            for batch in samples_of(storage, manifest, self.log.contract):
                sides.samples.add(batch)
            for batch in self.log.batches(self.index):
                sides.served.add(batch)
            self.totals.update(samples=sides.samples.rows, served=sides.served.rows)
            self.totals.update(without_id=sides.served.without_id)
            for part in sides.matched():
                self._add(part)

    def _add(self, part: Matched) -> None:
        self.totals.update(repeated=part.repeated, not_served=len(part.not_served))
        self.no_sample = np.concatenate([self.no_sample, part.no_sample])
        if part.samples is None or part.served is None or not part.samples.num_rows:
            return
        self.totals.update(matched=part.samples.num_rows)
        ids = part.samples.column(ID).to_numpy()
        hours = self._hours(part.served)
        features = {}
        for name, spec in specs_of(self.log.contract).items():
            if name in self.log.columns:
                offline, served = (Column.of(side.column(name), spec) for side in (part.samples, part.served))
                features[name] = self._counted(name, ids, offline, served, hours)
                if spec.shape != () and not offline.of_text:
                    self.counts[name].edits += _edits(features[name])
        self.kept.append(Kept(ids, np.ones(len(ids), np.bool_), features).fewer())

    def _hours(self, served: pa.Table) -> Ints | None:
        if TIME not in served.column_names:
            return None
        times = served.column(TIME).cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us", self.zone))
        return np.asarray(pc.hour(times).to_numpy(zero_copy_only=False), np.int64)

    def _counted(self, name: str, ids: Ints, offline: Column, served: Column, hours: Ints | None) -> Pairs:
        """Count a part of a feature, and return both sides of it."""
        counts = self.counts.setdefault(name, _Counts())
        agreement = compared(offline, served, self.tolerances[name])
        pairs = Pairs(offline, served, ~agreement.agree)
        for total, rows in (
            ("equal", agreement.equal),
            ("near", agreement.near),
            ("different", pairs.differ & offline.present & served.present),
            ("only_served", pairs.differ & ~offline.present),
            ("only_offline", pairs.differ & ~served.present),
        ):
            counts.totals[total] += int(rows.sum())
        if hours is not None:
            of_all = (hours, hours[pairs.differ])
            counts.by_hour += np.array([np.bincount(some, minlength=HOURS) for some in of_all])
        names = self.names if self.names is not None and name in self.names.features else None
        counts.worst = heapq.nlargest(PAIRS, [*counts.worst, *_worst(ids, pairs, names)])
        return pairs

    def looked_at(self) -> Kept:
        """Return the samples whose causes are sought, of all parts."""
        return Kept.joined(self.kept)

    def coverage(self, why: Mapping[str, int]) -> Coverage:
        """Return what there is on either side. ``why`` says what became of lines without a sample."""
        totals, index = Counter(self.totals), self.index
        totals["no_sample"] = len(self.no_sample)
        if index is not None:
            totals["no_sample"] += index.unknown
            totals["without_id"] -= index.lost
            totals.update(too_far=index.far, tied=index.tied)
        names = ("samples", "served", "matched", "not_served", "no_sample", "repeated", "without_id", "too_far", "tied")
        return Coverage(**{name: totals[name] for name in names}, why_no_sample=why)

    def features(self) -> dict[str, Compared]:
        """Return the features as the document has them, without causes."""
        return {
            name: Compared(
                c.totals["equal"], c.totals["near"], c.totals["different"], c.totals["only_served"], c.totals["only_offline"],
                by_hour=tuple((int(a), int(b)) for a, b in c.by_hour.T) if c.by_hour.any() else (),
                lists=_means(c.edits),
                pairs=tuple(Pair(number, mine, theirs) for _, number, mine, theirs in c.worst),
            )
            for name, c in self.counts.items()
        }  # fmt: skip


def samples_of(storage: Storage, manifest: Manifest, contract: ExampleContract) -> Iterator[pa.RecordBatch]:
    """Yield the samples of a generation, with their ids and features. Verifies checksums and sizes."""
    (key,) = contract.names("key")
    decoder = ExampleDecoder(contract)
    for shard in manifest.shards:
        for chunk in records_of(storage, shard) if shard.records else ():
            rows = decoder.decode_frames(chunk.buffer, chunk.offsets)
            features = {name: column for name, column in columns_of(rows, contract) if name in specs_of(contract)}
            yield pa.RecordBatch.from_pydict({ID: rows.column(key), **features})


def _both(pairs: Pairs) -> Ints:
    """Return the samples that differ in their values, not only in having one."""
    return np.flatnonzero(pairs.differ & pairs.offline.present & pairs.served.present)


def _worst(ids: Ints, pairs: Pairs, names: Pseudonyms | None) -> Iterator[tuple[float, int, str, str]]:
    """Yield the pairs that differ most: numbers relative to their size, others and ties by their ids."""
    rows = _both(pairs)
    apart = np.ones(len(rows))
    if pairs.offline.single and pairs.served.single:
        mine, theirs = pairs.offline.numbers()[rows], pairs.served.numbers()[rows]
        with np.errstate(invalid="ignore", divide="ignore"):
            apart = np.nan_to_num(np.abs(mine - theirs) / (np.abs(mine) + np.abs(theirs)), nan=1.0)
    for place in np.lexsort((~ids[rows], -apart))[:PAIRS]:
        row = int(rows[place])
        offline, served = (_text_of(side, row, names) for side in (pairs.offline, pairs.served))
        yield float(apart[place]), int(ids[row]), offline, served


def _text_of(column: Column, row: int, names: Pseudonyms | None) -> str:
    """Return the value of a sample as text: numbers or their pseudonyms, or ``text`` since only its hash is known."""
    if column.of_text:
        return "text"
    values = column.row(row)
    texts = [f"{value:.7g}" if isinstance(value, np.floating) else str(value) for value in values[:6]]
    shown = ", ".join(texts if names is None else map(names.of, texts))
    shown += ", ..." if len(values) > 6 else ""
    return shown if len(values) == 1 else f"[{shown}]"


def _edits(pairs: Pairs) -> list[Mapping[str, float]]:
    """Describe lists that differ: lengths, insertions and deletions, and the cosine of finite vectors of one length."""
    edits, cosines, lengths = [], [], []
    for row in _both(pairs)[:_MOST_EDITED]:
        mine, theirs = pairs.offline.row(row), pairs.served.row(row)
        lengths.append((len(mine), len(theirs)))
        if mine.dtype == np.float64 and len(mine) == len(theirs):
            with np.errstate(over="ignore", invalid="ignore"):
                norm = np.linalg.norm(mine) * np.linalg.norm(theirs)
                cosine = float(mine @ theirs / (norm or 1.0))
            cosines += [cosine] if np.isfinite(cosine) else []
        else:
            edits.append(len(mine) + len(theirs) - 2 * _common(mine.tolist(), theirs.tolist()))
    if not lengths:
        return []
    length, served_length = np.mean(lengths, axis=0)
    found = {"length": float(length), "served_length": float(served_length)}
    found |= {"edits": float(np.mean(edits))} if edits else {}
    return [found | ({"cosine": float(np.mean(cosines)), "least_cosine": min(cosines)} if cosines else {})]


def _common(mine: Sequence[Any], theirs: Sequence[Any]) -> int:
    """Return the length of the longest common subsequence."""
    before = [0] * (len(theirs) + 1)
    for value in mine:
        now = [0]
        for at, other in enumerate(theirs):
            now.append(before[at] + 1 if value == other else max(before[at + 1], now[at]))
        before = now
    return before[-1]


def _means(edits: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for one in edits for name in one)
    told = {name: [one[name] for one in edits if name in one] for name in names}
    return {name: min(some) if name.startswith("least") else float(np.mean(some)) for name, some in told.items()}
