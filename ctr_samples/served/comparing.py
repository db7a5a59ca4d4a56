"""Compare served lines with the samples of a day, feature by feature. No Spark."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ctr_samples.codec import ExampleDecoder
from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.quality.measure.collecting import columns_of
from ctr_samples.quality.pseudonyms import Pseudonyms
from ctr_samples.quality.served import Compared, Pair
from ctr_samples.records.read import records_of
from ctr_samples.served.columns import Column, Tolerance, compared, joined, together
from ctr_samples.served.joining import Ids, Matched, Sides, smallest
from ctr_samples.served.keys import ImpressionIndex
from ctr_samples.served.log import ID, TIME, ServedLog, specs_of
from ctr_samples.shards import Manifest, Storage

AT_RANDOM = 4000
"""Samples kept to tell how many would agree with other clocks."""
DIFFERING = 3000
"""Differences of a feature that are kept to seek their cause: those with the smallest hashes of their ids."""
PAIRS = 10
HOURS = 24
_EXPANDS = 4
"""Bytes in memory of a byte of compressed samples, roughly."""
_MOST_EDITED = 200


@dataclass(slots=True)
class Counts:
    """Counts of a feature over the parts so far."""

    equal: int = 0
    near: int = 0
    different: int = 0
    only_served: int = 0
    only_offline: int = 0
    by_hour: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros((2, HOURS), np.int64))
    worst: list[tuple[float, int, str, str]] = field(default_factory=list)
    edits: list[Mapping[str, float]] = field(default_factory=list)


@dataclass(slots=True)
class Kept:
    """Samples on both sides whose causes are sought, row by row: those chosen ``at_random`` and those that differ."""

    ids: Ids
    at_random: npt.NDArray[np.bool_]
    offline: dict[str, Column]
    served: dict[str, Column]

    def rows(self, places: npt.NDArray[Any]) -> Kept:
        """Return some of the samples."""
        at = np.flatnonzero(places) if places.dtype == np.bool_ else places
        offline, served = ({name: c.take(at) for name, c in side.items()} for side in (self.offline, self.served))
        return Kept(self.ids[at], self.at_random[at], offline, served)

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(slots=True)
class Comparison:
    """Everything that the two sides tell without the inputs of the samples."""

    log: ServedLog
    tolerances: Mapping[str, Tolerance]
    zone: str
    index: ImpressionIndex | None
    """Finds the impressions of lines without an id."""
    groups: Mapping[str, Sequence[str]]
    """For each view, its features: a line that has those of another sample has another key's row."""
    names: Pseudonyms | None
    """Stand for users, requests and other keys in features that hold them. None if the configuration requests raw ids."""
    counts: dict[str, Counts] = field(default_factory=dict)
    samples: int = 0
    served: int = 0
    matched: int = 0
    repeated: int = 0
    without_id: int = 0
    not_served: int = 0
    no_sample: list[Ids] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)
    rows_of_groups: dict[str, list[npt.NDArray[np.uint64]]] = field(default_factory=dict)

    def run(self, storage: Storage, manifest: Manifest) -> None:
        """Read both sides and compare them. Raises DamagedFile for a shard or file that is damaged."""
        size = sum(shard.bytes for shard in manifest.shards) * (1 if manifest.compression == "none" else _EXPANDS)
        size += sum(file.bytes for file in self.log.files.shards) * (1 if self.log.format == "tfrecord" else _EXPANDS)
        with Sides.of(size) as sides:
            for batch in samples_of(storage, manifest, self.log.contract):
                sides.samples.add(batch)
            for batch in self.log.batches(self.index):
                sides.served.add(batch)
            self.samples, self.served = sides.samples.rows, sides.served.rows
            self.without_id = sides.served.without_id
            for part in sides.matched():
                self._add(part)

    def _add(self, part: Matched) -> None:
        self.repeated += part.repeated
        self.not_served += len(part.not_served)
        self.no_sample.append(part.no_sample)
        if part.samples is None or part.served is None or not part.samples.num_rows:
            return
        self.matched += part.samples.num_rows
        ids = part.samples.column(ID).to_numpy()
        hours = self._hours(part.served)
        chosen = np.zeros(len(ids), np.bool_)
        at_random = np.zeros(len(ids), np.bool_)
        at_random[smallest(ids, AT_RANDOM)] = True
        offline, served = {}, {}
        for name, spec in specs_of(self.log.contract).items():
            if name in self.log.columns:
                offline[name] = Column.of(part.samples.column(name), spec, f"the feature {name} of the samples")
                served[name] = Column.of(part.served.column(name), spec, f"served.columns.{name}: the column")
                differ = self._count(name, spec, ids, offline[name], served[name], hours)
                rows = np.flatnonzero(differ)
                chosen[rows[smallest(ids[rows], DIFFERING)]] = True
        for group, names in self.groups.items():
            of_group = [offline[name] for name in names if name in offline]
            if of_group:
                self.rows_of_groups.setdefault(group, []).append(np.unique(together(of_group)))
        self.kept.append(Kept(ids, at_random, offline, served).rows(chosen | at_random))

    def _hours(self, served: pa.Table) -> npt.NDArray[np.int64] | None:
        if TIME not in served.column_names:
            return None
        times = served.column(TIME).cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us", self.zone))
        return np.asarray(pa.compute.hour(times).to_numpy(zero_copy_only=False), np.int64)

    def _count(
        self,
        name: str,
        spec: FeatureSpec,
        ids: Ids,
        offline: Column,
        served: Column,
        hours: npt.NDArray[np.int64] | None,
    ) -> npt.NDArray[np.bool_]:
        """Count a part of a feature, and return which samples differ."""
        counts = self.counts.setdefault(name, Counts())
        agreement = compared(offline, served, self.tolerances[name])
        differ = ~agreement.agree
        both = differ & offline.present & served.present
        counts.equal += int(agreement.equal.sum())
        counts.near += int(agreement.near.sum())
        counts.different += int(both.sum())
        counts.only_served += int((differ & ~offline.present).sum())
        counts.only_offline += int((differ & ~served.present).sum())
        if hours is not None:
            counts.by_hour += np.array([np.bincount(hours[some], minlength=HOURS) for some in (differ | True, differ)])
        rows = np.flatnonzero(both)
        if len(rows):
            names = self.names if self.names is not None and name in self.names.features else None
            counts.worst = heapq.nlargest(PAIRS, [*counts.worst, *_worst(ids, rows, offline, served, names)])
            if spec.shape != () and not offline.of_text:
                counts.edits.append(_edits(rows[:_MOST_EDITED], offline, served))
        return differ

    def looked_at(self) -> Kept:
        """Return the samples whose causes are sought, of all parts: each part kept as many as all may have."""
        whole = Kept(
            np.concatenate([kept.ids for kept in self.kept] or [np.zeros(0, np.int64)]),
            np.concatenate([kept.at_random for kept in self.kept] or [np.zeros(0, np.bool_)]),
            {name: joined([kept.offline[name] for kept in self.kept]) for name in self.counts},
            {name: joined([kept.served[name] for kept in self.kept]) for name in self.counts},
        )
        chosen = np.zeros(len(whole), np.bool_)
        some = np.flatnonzero(whole.at_random)
        whole.at_random[:] = False
        whole.at_random[some[smallest(whole.ids[some], AT_RANDOM)]] = True
        for name in self.counts:
            differ = ~compared(whole.offline[name], whole.served[name], self.tolerances[name]).agree
            rows = np.flatnonzero(differ)
            chosen[rows[smallest(whole.ids[rows], DIFFERING)]] = True
        return whole.rows(chosen | whole.at_random)

    def features(self) -> dict[str, Compared]:
        """Return the features as the document has them, without causes."""
        return {
            name: Compared(
                c.equal, c.near, c.different, c.only_served, c.only_offline,
                by_hour=[(int(a), int(b)) for a, b in c.by_hour.T] if c.by_hour.any() else (),
                lists=_means(c.edits),
                pairs=[Pair(number, mine, theirs) for _, number, mine, theirs in c.worst],
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


def _worst(
    ids: Ids, rows: Ids, offline: Column, served: Column, names: Pseudonyms | None
) -> Iterator[tuple[float, int, str, str]]:
    """Yield the pairs that differ most: numbers relative to their size, others and ties by their ids."""
    apart = np.ones(len(rows))
    if offline.single and served.single:
        mine, theirs = offline.numbers()[rows], served.numbers()[rows]
        with np.errstate(invalid="ignore", divide="ignore"):
            apart = np.nan_to_num(np.abs(mine - theirs) / (np.abs(mine) + np.abs(theirs)), nan=1.0)
    at = np.lexsort((~ids[rows], -apart))[:PAIRS]
    for place in at:
        row = int(rows[place])
        yield float(apart[place]), int(ids[row]), text_of(offline, row, names), text_of(served, row, names)


def text_of(column: Column, row: int, names: Pseudonyms | None) -> str:
    """Return the value of a sample as text: numbers or their pseudonyms, or ``text`` since only its hash is known."""
    if not column.present[row]:
        return "none"
    values = column.values[column.splits[row] : column.splits[row + 1]]
    if column.of_text:
        return "text"
    texts = [f"{value:.7g}" if isinstance(value, np.floating) else str(value) for value in values[:6]]
    shown = ", ".join(texts if names is None else map(names.of, texts))
    shown += ", ..." if len(values) > 6 else ""
    return shown if len(values) == 1 else f"[{shown}]"


def _edits(rows: Ids, offline: Column, served: Column) -> Mapping[str, float]:
    """Describe lists that differ: lengths, insertions and deletions, and the cosine of finite vectors of one length."""
    edits, cosines, lengths = [], [], []
    for row in rows:
        mine = offline.values[offline.splits[row] : offline.splits[row + 1]]
        theirs = served.values[served.splits[row] : served.splits[row + 1]]
        lengths.append((len(mine), len(theirs)))
        if mine.dtype == np.float64 and len(mine) == len(theirs):
            if np.isfinite(mine).all() and np.isfinite(theirs).all():
                norm = float(np.linalg.norm(mine) * np.linalg.norm(theirs))
                cosines.append(float(mine @ theirs) / norm if norm else 0.0)
        else:
            edits.append(len(mine) + len(theirs) - 2 * _common(mine.tolist(), theirs.tolist()))
    found = {
        "length": float(np.mean([a for a, _ in lengths])),
        "served_length": float(np.mean([b for _, b in lengths])),
    }
    found |= {"edits": float(np.mean(edits))} if edits else {}
    return found | ({"cosine": float(np.mean(cosines)), "least_cosine": min(cosines)} if cosines else {})


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
