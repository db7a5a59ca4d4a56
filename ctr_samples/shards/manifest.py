"""What a task returns for each shard, and the list of shards whose appearance is the commit. Values only."""

from __future__ import annotations

import builtins
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from typing import Any, Literal, Self

from ctr_samples.errors import DamagedFile

MANIFEST_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Shard:
    """One closed TFRecord file. ``path`` is relative to the output directory, ``crc32c`` is that of the whole file."""

    path: str
    split: str
    partition: int
    records: int
    bytes: int
    crc32c: int
    label_sums: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Receipt:
    """What one task wrote: no shard where its partition was empty. One for each partition reaches the driver.

    ``measures`` is what the task measured of its rows, if it did; a text that means nothing here.
    """

    partition: int
    attempt: int
    shards: tuple[Shard, ...]
    measures: str | None = None

    def to_json(self) -> str:
        """One line that :meth:`from_json` reads back."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read :meth:`to_json`."""
        value = json.loads(text)
        shards = tuple(Shard(**s) for s in value["shards"])
        return cls(value["partition"], value["attempt"], shards, value.get("measures"))


@dataclass(frozen=True, slots=True)
class Manifest:
    """One generation of one day.

    ``accounting`` maps ``impressions``, ``samples`` and each drop reason to a count; ``fingerprint`` is equal for two
    runs that must give the same samples (config, code, inputs, contract), or empty where inputs cannot be told apart.
    """

    name: str
    run_date: str
    generation: int
    run_id: str
    parent: str | None
    created_at: str
    fingerprint: str
    compression: Literal["none", "gzip", "zlib"]
    contract: Mapping[str, Any]
    config: Mapping[str, Any]
    inputs: Mapping[str, Any]
    shards: tuple[Shard, ...]
    accounting: Mapping[str, int]
    views: Mapping[str, Mapping[str, float]]
    labels: Mapping[str, Mapping[str, Any]]
    label_mature: bool
    versions: Mapping[str, str]
    seconds: float = 0.0
    plan: tuple[str, ...] = ()
    sampling: Mapping[str, Any] = field(default_factory=dict)
    quality: Mapping[str, Any] = field(default_factory=dict)
    format: int = MANIFEST_FORMAT

    @property
    def records(self) -> int:
        """Number of samples over all splits."""
        return sum(s.records for s in self.shards)

    @property
    def bytes(self) -> int:
        """Bytes over all shards."""
        return sum(s.bytes for s in self.shards)

    @property
    def day(self) -> date:
        """The run date."""
        return date.fromisoformat(self.run_date)

    @property
    def splits(self) -> list[str]:
        """Names of the splits that have shards, train first."""
        return sorted({s.split for s in self.shards}, key=lambda name: (name != "train", name))

    def of_split(self, split: str | None) -> tuple[Shard, ...]:
        """The shards of one split, or all of them."""
        return tuple(s for s in self.shards if split in (None, s.split))

    def label_sum(self, label: str, split: str | None = None) -> float:
        """Sum of a label over a split; for a 0/1 label the number of positives."""
        return sum(s.label_sums.get(label, 0) for s in self.of_split(split))

    def to_json(self) -> builtins.bytes:
        """Indented JSON, in declared order; a manifest that was read gives the bytes that it was read from."""
        return (json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n").encode()

    @classmethod
    def from_json(cls, data: builtins.bytes, place: str) -> Self:
        """Read :meth:`to_json`; DamagedFile names ``place`` when the bytes are no manifest of a known format."""
        try:
            value = json.loads(data)
            if value["format"] != MANIFEST_FORMAT:
                raise DamagedFile(
                    f"{place} has format {value['format']!r}; this release reads format {MANIFEST_FORMAT}. "
                    "Install the ctr-samples release that wrote it, or a newer one."
                )
            return cls(
                **{**value, "plan": tuple(value.get("plan", ())), "shards": tuple(Shard(**s) for s in value["shards"])}
            )
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise DamagedFile(
                f"{place} is not a manifest ({error}); restore it, or move it away and run the day again."
            ) from None


def check_receipts(receipts: Sequence[Receipt], partitions: int) -> None:
    """Each partition 0..n-1 must have exactly one receipt; DamagedFile otherwise (a bug in the engine)."""
    seen = Counter(r.partition for r in receipts)
    missing = [p for p in range(partitions) if p not in seen]
    repeated = sorted(p for p, times in seen.items() if times > 1)
    unknown = sorted(p for p in seen if not 0 <= p < partitions)
    if missing or repeated or unknown:
        raise DamagedFile(
            f"Expected one receipt for each of {partitions} partitions; missing: {missing}, repeated: {repeated}, "
            f"unknown: {unknown}. Nothing was published; run the day again."
        )
