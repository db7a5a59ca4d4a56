"""Select the shards of one split on one or several days with the same contract, from their manifests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ctr_samples.arguments import check_text
from ctr_samples.contract import ExampleContract
from ctr_samples.errors import ContractError, InputError, UsageError
from ctr_samples.periods import WHOLE, Period, days_of, period_of
from ctr_samples.readers.order import share
from ctr_samples.shards import (
    Manifest,
    Shard,
    Storage,
    check_shards,
    open_storage,
    periods_of,
    published_days,
    require_manifest,
)


@dataclass(frozen=True, slots=True)
class SampleSet:
    """One split of one or several days, as listed by the newest manifests. Unaffected by later publications."""

    storage: Storage
    manifests: tuple[Manifest, ...]
    split: str
    contract: ExampleContract

    @property
    def shards(self) -> tuple[Shard, ...]:
        """Non-empty shards in published order, day by day."""
        return tuple(s for manifest in self.manifests for s in manifest.of_split(self.split) if s.records)

    @property
    def records(self) -> int:
        """Number of samples."""
        return sum(shard.records for shard in self.shards)

    @property
    def request_size(self) -> float:
        """Mean size of a sample's request on the day where it is largest, if samples of a request are adjacent, else 1."""
        return max([1.0, *(manifest.order.size for manifest in self.manifests if manifest.order is not None)])

    def steps(self, batch_size: int, shard: tuple[int, int] = (0, 1), *, drop_remainder: bool = False) -> int:
        """Return the number of batches per epoch. With ``drop_remainder``, it is the same for every worker."""
        if drop_remainder:
            return self.records // shard[1] // batch_size
        return math.ceil(share(self.records, *shard) / batch_size)

    def check(self) -> None:
        """Check the stored size of every shard. Raises DamagedFile if a shard is missing or has the wrong size."""
        check_shards(self.storage, self.shards, "restore it, or run the day again")


def open_samples(
    path: str | Path, *, date: Period | str | None = None, dates: Sequence[Period | str] | None = None, split: str
) -> SampleSet:
    """Open the samples of one or several days. Reads their manifests and checks the sizes of their shards.

    A day built hour by hour consists of its published hours. ``date`` may also be an hour, or ``all``: the whole log,
    or all published days. Raises InputError for a missing day or split, ContractError for days that cannot be read
    together, and DamagedFile for a shard that is missing or differs in size from its manifest.
    """
    days = _days(date, dates)
    storage = open_storage(path)
    periods = [period for day in days for period in _published(storage, day)]
    manifests = [require_manifest(storage, period) for period in periods]
    samples = samples_of(storage, manifests, split)
    samples.check()
    return samples


def samples_of(storage: Storage, manifests: Sequence[Manifest], split: str) -> SampleSet:
    """Like :func:`open_samples`, but takes manifests that were already read and does not check the shards."""
    check_text("split", split, "the name of a split, such as 'train'")
    for manifest in manifests:
        if split not in manifest.splits:
            there = ", ".join(manifest.splits) or "none"
            raise InputError(f"{storage.url} has no split {split!r} on {manifest.run_date}; it has {there}.")
    contracts = [ExampleContract.from_dict(dict(manifest.contract)) for manifest in manifests]
    for manifest, contract in zip(manifests, contracts, strict=True):
        if contract.fingerprint != contracts[0].fingerprint:
            raise ContractError(
                f"{storage.url} has samples of {manifests[0].run_date} and {manifest.run_date} with different contracts "
                f"({difference(contracts[0], contract)}); read them separately, or generate them again with one configuration "
                "and one lineage of fitted state."
            )
    return SampleSet(storage, tuple(manifests), split, contracts[0])


def _days(date: Period | str | None, dates: Sequence[Period | str] | None) -> list[Period]:
    if (date is None) == (dates is None):
        raise UsageError('Give either `date`, such as "2019-06-05", or `dates`, a list of such days.')
    if date is not None:
        return [period_of(date)]
    return days_of(dates, "dates")


def _published(storage: Storage, day: Period) -> list[Period]:
    """Return the periods that make up a day. ``all`` means all published days, unless the output covers a log."""
    published = published_days(storage) if day == WHOLE else []
    return published if published and WHOLE not in published else periods_of(storage, day)


def difference(first: ExampleContract, second: ExampleContract) -> str:
    """Describe the first difference between two contracts."""
    features, others = ({f.name: f for f in contract.features} for contract in (first, second))
    for name in [*features, *others]:
        if features.get(name) != others.get(name):
            where = "is in only one of them" if name not in features or name not in others else "differs"
            return f"feature {name!r} {where}"
    if first.state != second.state:
        return "their ids come from different lineages of fitted state"
    return f"fingerprints {first.fingerprint} and {second.fingerprint}"
