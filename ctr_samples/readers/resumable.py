"""Iterate over batches from any position: a state names it, down to the batch, and the generations that it counts over."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, NamedTuple

from ctr_samples.errors import ContractError, DamagedFile, InputError, UsageError
from ctr_samples.periods import days_of, parse_period
from ctr_samples.readers.order import Rest, Span
from ctr_samples.readers.sample_set import SampleSet, difference, samples_of
from ctr_samples.readers.standing import Standing, beginning, parts_of, shared
from ctr_samples.readers.stream import Reading
from ctr_samples.shards import Manifest, Storage, require_generation
from ctr_samples.shards.generations import last_forgotten
from ctr_samples.typed import Count, Mistyped, Positive, Such, typed

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


_Span = tuple[Count, Positive, Count, Count]
"""A span of records in a state: worker, workers, first and stop."""
_Days = Annotated[tuple[tuple[str, Count, str], ...], Such(len, "at least one day")]
"""Days in a state, as (name, generation, run)."""


@dataclass(frozen=True, slots=True)
class _Position:
    """A worker's next batch: ``batch`` of ``epoch``, both from 0, over ``days``.

    ``rest`` has what is left of epochs that another number of workers began, as (epoch, spans, days).
    """

    shard: Annotated[
        tuple[Count, Positive], Such(lambda shard: shard[0] < shard[1], "a worker and a number of workers")
    ]
    epoch: Count
    batch: Count
    days: _Days
    rest: tuple[tuple[Count, tuple[_Span, ...], _Days], ...] = ()

    @property
    def standing(self) -> Standing:
        """Where the worker stands."""
        rests = [Rest(epoch, tuple(Span(*span) for span in spans)) for epoch, spans, _ in self.rest]
        return Standing(self.epoch, self.batch, tuple(rests))

    @property
    def begun(self) -> dict[int, _Days]:
        """The days of the epochs that have begun."""
        return {**({self.epoch: self.days} if self.batch else {}), **{epoch: days for epoch, _, days in self.rest}}


class Batches(Iterator[Batch]):
    """An iterator over batches that can hand over its position in the stream. Not for use by several threads at once.

    ``close()`` stops early and ends its threads, as does garbage collection.
    """

    def __init__(self, samples: SampleSet, reading: Reading, read: Read) -> None:
        self._samples, self._reading, self._read = samples, reading, read
        self._process: int | None = None
        """The process that reads, once it does."""
        self._start({}, beginning(samples, reading))

    def __next__(self) -> Batch:
        if self._process not in (None, os.getpid()):
            raise UsageError(
                "This iterator was begun before its process was forked, and its threads are in the parent. Call `iter_batches` "
                "in the child, as `__iter__` of a dataset does, or load the parent's `state_dict()`."
            )
        self._process = os.getpid()
        batch = next(self._batches)
        self._batch += 1
        if self._batch == self._steps:
            self._stand(replace(self._standing, epoch=self._epoch + 1, batch=0))
        return batch

    def close(self) -> None:
        """Stop reading. Only :meth:`load_state_dict` makes the iterator yield batches again."""
        self._batches.close()

    def state_dict(self) -> dict[str, Any]:
        """Return the position after the last batch: numbers, texts and lists of them, ready for JSON.

        It names the arguments that decide which batches come, ``epoch`` and ``batch`` (of this worker, from 0), and the
        generations that this epoch reads. While an epoch lasts that another number of workers began, ``rest`` says
        which of their records were left.
        """
        state = {**self._arguments(), "epoch": self._epoch, "batch": self._batch, "days": self._days}
        rests = [rest for rest in self._standing.rests if rest.epoch >= self._epoch]
        if rests:
            state["rest"] = [[rest.epoch, _spans_in(rest), _days_of(self._over(rest.epoch))] for rest in rests]
        return state

    def load_state_dict(self, state: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """Continue with the batch after the last one of ``state``, wherever this iterator is.

        If there are more or fewer workers now, each loads the list of all states, in any order: together they read each
        remaining sample of the epoch once. With ``drop_remainder``, where workers keep step, the state of one stands
        for those of all.

        An epoch that has begun reads the generations that the state names, even if days were added, left out or
        republished since. Later epochs read the samples of this iterator.

        Raises UsageError for a state of other arguments, and for states that are not those of all workers, InputError
        if a generation that they name can no longer be read, and ContractError if that generation has another contract
        than the samples of this iterator.
        """
        positions = self._positions_in(state)
        begun = {epoch: days for position in positions for epoch, days in position.begun.items()}
        if any(begun[epoch] != days for position in positions for epoch, days in position.begun.items()):
            raise UsageError("The states are of an epoch over different days; expected the states of one moment.")
        own = _named(self._samples.manifests)
        pinned = {epoch: _pinned(self._samples, days) for epoch, days in begun.items() if days != own}
        for position in positions:
            self._check(pinned, position)
        self.close()
        standings = [position.standing for position in positions]
        alone = len(positions) == 1 and positions[0].shard == tuple(self._reading.shard)
        whole = (
            standings[0] if alone else shared(lambda epoch: pinned.get(epoch, self._samples), self._reading, standings)
        )
        self._start(pinned, whole)

    def _positions_in(self, state: Any) -> list[_Position]:
        """Return the position of this worker, or those of all workers that there were."""
        arguments, own = self._arguments(), self._reading.shard
        states = state if isinstance(state, list | tuple) and state else [state]
        positions = sorted((_position_in(one, arguments) for one in states), key=lambda one: one.shard)
        worker, workers = positions[0].shard
        if len(positions) == 1 and workers > 1:
            if (worker, workers) == tuple(own):
                return positions
            if not self._reading.drop_remainder:
                raise UsageError(
                    f"The state is of worker {worker} of {workers}, this is worker {own[0]} of {own[1]}; load the states of "
                    f"all {workers} workers, as a list."
                )
            return [replace(positions[0], shard=(n, workers)) for n in range(workers)]
        if [one.shard for one in positions] != [(n, workers) for n in range(workers)]:
            found = ", ".join(f"{n} of {count}" for n, count in (one.shard for one in positions))
            raise UsageError(f"The states are of the workers {found}; expected one of each of the {workers} workers.")
        return positions

    def _check(self, pinned: Mapping[int, SampleSet], position: _Position) -> None:
        """Raise UsageError for a position that is not in its epoch."""
        reading = replace(self._reading, shard=position.shard)
        steps = position.standing.reading(reading, position.epoch).steps_of(pinned.get(position.epoch, self._samples))
        if position.batch and position.batch >= steps:
            raise UsageError(
                f"The state has batch {position.batch} of an epoch of {steps} batches; expected what `state_dict()` returned."
            )
        for epoch, spans, _ in position.rest:
            samples = pinned.get(epoch, self._samples)
            for worker, workers, first, stop in spans:
                there = worker < workers and replace(reading, shard=(worker, workers)).order_of(samples).records
                if not first <= stop <= there:
                    raise UsageError("The state has a `rest` of other samples; expected what `state_dict()` returned.")

    def _over(self, epoch: int) -> SampleSet:
        """Return the samples of an epoch."""
        return self._pinned.get(epoch, self._samples)

    def _start(self, pinned: Mapping[int, SampleSet], standing: Standing) -> None:
        """Read from a batch of an epoch on: ``pinned`` epochs over their days, all others over the iterator's own."""
        self._pinned = pinned
        self._stand(standing)
        self._process = None
        self._batches = _in_turn(list(parts_of(standing, self._over, self._samples, self._reading)), self._read)

    def _stand(self, standing: Standing) -> None:
        """Set the position. Loaders ask for a state at each batch, so its days are listed once for an epoch."""
        self._standing, self._epoch, self._batch = standing, standing.epoch, standing.batch
        reading = standing.reading(self._reading, self._epoch)
        samples = self._over(self._epoch)
        self._steps, self._days = reading.steps_of(samples), _days_of(samples)
        if reading.rest is not None and not self._steps:  # nothing is left for this worker
            self._stand(replace(standing, epoch=self._epoch + 1))

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
            "drop_remainder": bool(reading.drop_remainder),
            "shard": [int(n) for n in reading.shard],
        }


def _in_turn(parts: Sequence[tuple[SampleSet, Reading]], read: Read) -> Generator[Batch]:
    """Yield the batches of all parts. It knows no Batches, so that one that is let go closes its files at once."""
    for samples, reading in parts:
        yield from read(samples, reading)


def _spans_in(rest: Rest) -> list[list[int]]:
    return [[one.worker, one.workers, one.first, one.stop] for one in rest.spans]


def _days_of(samples: SampleSet) -> list[list[Any]]:
    return [list(day) for day in _named(samples.manifests)]


def _named(manifests: Sequence[Manifest]) -> tuple[tuple[str, int, str], ...]:
    return tuple((m.run_date, m.generation, m.run_id) for m in manifests)


def _position_in(state: Any, arguments: dict[str, Any]) -> _Position:
    """Return the position in a state. Raises UsageError if it is none, or one of other arguments but ``shard``."""
    arguments = {name: value for name, value in arguments.items() if name != "shard"}
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


def _pinned(samples: SampleSet, days: _Days) -> SampleSet:
    """Return the samples that a state counts over, and check that they can still be read."""
    storage = samples.storage
    try:
        days_of([name for name, _, _ in days], "days")
        pinned = samples_of(storage, [_generation(storage, *day) for day in days], samples.split)
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
