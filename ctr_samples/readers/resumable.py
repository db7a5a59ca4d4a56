"""Iterate over batches from any position: a state names it, down to the batch, and the generations that it counts over."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, NamedTuple

from ctr_samples.errors import ContractError, DamagedFile, InputError, UsageError
from ctr_samples.periods import days_of, parse_period
from ctr_samples.readers.sample_set import SampleSet, difference, samples_of
from ctr_samples.readers.stream import Reading
from ctr_samples.shards import Manifest, Storage, require_generation
from ctr_samples.shards.generations import last_forgotten
from ctr_samples.typed import Count, Mistyped, Such, typed

_VERSION = 1
"""Version of the order of the batches. A state of another version would continue with other batches."""


class Batch(NamedTuple):
    """Columns by name: model inputs, labels with their masks, sample weights (None without sampling), and keys that
    only identify a sample.
    """

    features: dict[str, Any]
    labels: dict[str, Any]
    weight: Any
    keys: dict[str, Any]


Read = Callable[[SampleSet, Reading], Iterator[Batch]]


@dataclass(frozen=True, slots=True)
class _Position:
    """The next batch: ``batch`` of ``epoch``, both from 0, over ``days`` as (name, generation, run)."""

    epoch: Count
    batch: Count
    days: Annotated[tuple[tuple[str, Count, str], ...], Such(len, "at least one day")]


class Batches(Iterator[Batch]):
    """An iterator over batches that can hand over its position in the stream. Not for use by several threads at once.

    ``close()`` stops early and ends its threads, as does garbage collection.
    """

    def __init__(self, samples: SampleSet, reading: Reading, read: Read) -> None:
        self._samples, self._reading, self._read = samples, reading, read
        steps = reading.steps_of(samples)
        self._start(samples, *(divmod(int(reading.skip), steps) if steps else (0, 0)))

    def __next__(self) -> Batch:
        batch = next(self._batches)
        self._batch += 1
        if self._batch == self._steps:
            self._stand(self._samples, self._epoch + 1, 0)
        return batch

    def close(self) -> None:
        """Stop reading. Only :meth:`load_state_dict` makes the iterator yield batches again."""
        self._batches.close()

    def state_dict(self) -> dict[str, Any]:
        """Return the position after the last batch: numbers, texts and lists of them, ready for JSON.

        It names the arguments that decide which batches come, ``epoch`` and ``batch`` (of this worker, from 0), and the
        generations that this epoch reads.
        """
        return {**self._arguments(), "epoch": self._epoch, "batch": self._batch, "days": self._days}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue with the batch after the last one of ``state``, wherever this iterator is.

        An epoch that has begun reads the generations that the state names, even if days were added, left out or
        republished since. Later epochs read the samples of this iterator.

        Raises UsageError for a state of other arguments, InputError if a generation that it names can no longer be
        read, and ContractError if that generation has another contract than the samples of this iterator.
        """
        position = _position_in(state, self._arguments())
        samples = self._samples
        if position.batch and position.days != _named(samples.manifests):
            samples = _pinned(samples, position)
        if position.batch and position.batch >= self._reading.steps_of(samples):
            raise UsageError(
                f"The state has batch {position.batch} of an epoch of {self._reading.steps_of(samples)} batches; expected what "
                "`state_dict()` returned."
            )
        self.close()
        self._start(samples, position.epoch, position.batch)

    def _start(self, samples: SampleSet, epoch: int, batch: int) -> None:
        """Read from a batch of an epoch over ``samples`` on, and all later epochs over the iterator's own samples."""
        self._stand(samples, epoch, batch)
        reading, parts = self._reading, []
        if samples is not self._samples:
            ends = epoch + 1 if reading.epochs is None else min(epoch + 1, reading.epochs)
            parts = [(samples, replace(reading, skip=epoch * self._steps + batch, epochs=ends))]
            epoch, batch = epoch + 1, 0
        skip = epoch * reading.steps_of(self._samples) + batch
        self._batches = _in_turn([*parts, (self._samples, replace(reading, skip=skip))], self._read)

    def _stand(self, samples: SampleSet, epoch: int, batch: int) -> None:
        """Set the position. Loaders ask for a state at each batch, so its days are listed once for an epoch."""
        self._epoch, self._batch = epoch, batch
        self._steps = self._reading.steps_of(samples)
        self._days = [list(day) for day in _named(samples.manifests)]

    def _arguments(self) -> dict[str, Any]:
        """The arguments that decide which batches come."""
        reading = self._reading
        return {
            "version": _VERSION,
            "path": self._samples.storage.url,
            "split": self._samples.split,
            "batch_size": int(reading.batch_size),
            "shuffle": reading.shuffle if isinstance(reading.shuffle, bool) else int(reading.shuffle),
            "seed": int(reading.seed),
            "shard": [int(n) for n in reading.shard],
            "drop_remainder": bool(reading.drop_remainder),
        }


def _in_turn(parts: Sequence[tuple[SampleSet, Reading]], read: Read) -> Generator[Batch]:
    """Yield the batches of all parts. It knows no Batches, so that one that is let go closes its files at once."""
    for samples, reading in parts:
        yield from read(samples, reading)


def _named(manifests: Sequence[Manifest]) -> tuple[tuple[str, int, str], ...]:
    return tuple((m.run_date, m.generation, m.run_id) for m in manifests)


def _position_in(state: Any, arguments: dict[str, Any]) -> _Position:
    """Return the position in a state. Raises UsageError if it is none, or one of other arguments."""
    rest = (
        {name: value for name, value in state.items() if name not in arguments} if isinstance(state, Mapping) else state
    )
    try:
        position = typed(_Position, rest)
    except Mistyped as error:
        raise UsageError(f"This is no state of an iterator: {error}; pass what `state_dict()` returned.") from None
    for name, own in arguments.items():
        found = state.get(name)
        if found != own or isinstance(found, bool) != isinstance(own, bool):
            raise UsageError(
                f"The state is of an iterator with `{name}` {found!r}, this one has {own!r}; load it into one with the same "
                "arguments."
            )
    return position


def _pinned(samples: SampleSet, position: _Position) -> SampleSet:
    """Return the samples that a state counts over, and check that they can still be read."""
    storage = samples.storage
    try:
        days_of([name for name, _, _ in position.days], "days")
        pinned = samples_of(storage, [_generation(storage, *day) for day in position.days], samples.split)
        pinned.check()
    except (InputError, UsageError, DamagedFile) as error:
        raise InputError(
            f"The state is in the middle of an epoch over samples that cannot be read any more: {error} To begin with the next "
            "epoch instead, add 1 to the state's `epoch` and set its `batch` to 0."
        ) from None
    if pinned.contract.fingerprint != samples.contract.fingerprint:
        raise ContractError(
            f"The state is of samples with another contract ({difference(pinned.contract, samples.contract)}); begin anew, or "
            "read days of the same contract."
        )
    return pinned


def _generation(storage: Storage, name: str, number: int, run: str) -> Manifest:
    day = parse_period(name)
    manifest = require_generation(storage, day, number)
    if manifest.run_id != run:
        raise InputError(f"Generation {number} of {name} is of run {manifest.run_id}, but the state is of run {run}.")
    if number < last_forgotten(storage, day):
        raise InputError(f"Generation {number} of {name} may have samples of users who were forgotten since.")
    return manifest
