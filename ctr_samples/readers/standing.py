"""Where workers stand in their streams, and where each goes on if their number changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from ctr_samples.readers.order import Rest, cut
from ctr_samples.readers.sample_set import SampleSet
from ctr_samples.readers.stream import Reading


@dataclass(frozen=True, slots=True)
class Standing:
    """The next batch of a worker: ``batch`` of ``epoch``, both from 0.

    ``rests`` has what is left of this epoch, and maybe of the next one, if another number of workers began it.
    """

    epoch: int
    batch: int
    rests: tuple[Rest, ...] = ()

    def reading(self, reading: Reading, epoch: int) -> Reading:
        """Return the options for an epoch, with what is left of it."""
        return replace(reading, rest=next((rest for rest in self.rests if rest.epoch == epoch), None))


Over = Callable[[int], SampleSet]
"""The samples of an epoch: one that has begun keeps the days with which it began."""


def beginning(samples: SampleSet, reading: Reading) -> Standing:
    """Return where a worker begins after ``reading.skip`` batches, or after those of each of the earlier workers."""
    if isinstance(reading.skip, Sequence):
        each = [
            beginning(samples, replace(reading, skip=skip, shard=(worker, len(reading.skip))))
            for worker, skip in enumerate(reading.skip)
        ]
        return shared(lambda epoch: samples, reading, each)
    steps = reading.steps_of(samples)
    return Standing(*(divmod(int(reading.skip), steps) if steps else (0, 0)))


def shared(over: Over, reading: Reading, workers: Sequence[Standing]) -> Standing:
    """Return where a worker goes on for all of some earlier ``workers``.

    As many workers go on as they were. Others share what was left of each epoch that had begun, in the order of the
    earlier workers, and read whole epochs from the next one on.
    """
    count = len(workers)
    if count == reading.shard[1]:
        return workers[reading.shard[0]]
    first = min(worker.epoch for worker in workers)
    stop = max(
        max([worker.epoch + bool(worker.batch), *(rest.epoch + 1 for rest in worker.rests)]) for worker in workers
    )
    rests = []
    for epoch in range(first, stop):
        spans = []
        for index, worker in enumerate(workers):
            own = worker.reading(replace(reading, shard=(index, count)), epoch).spans_of(over(epoch))
            read = worker.batch * reading.batch_size if worker.epoch == epoch else 0
            spans += cut(own, read, sum(map(len, own))) if worker.epoch <= epoch else []
        rests.append(Rest(epoch, tuple(spans)))
    return Standing(first, 0, tuple(rests))


def parts_of(
    standing: Standing, over: Over, samples: SampleSet, reading: Reading
) -> Iterator[tuple[SampleSet, Reading]]:
    """Yield what to read one after the other: epochs that have begun over their days, later ones over ``samples``."""
    epoch, batch = standing.epoch, standing.batch
    for rest in standing.rests:
        if reading.epochs is None or rest.epoch < reading.epochs:
            yield over(rest.epoch), replace(reading, skip=batch if rest.epoch == standing.epoch else 0, rest=rest)
        epoch, batch = rest.epoch + 1, 0
    pinned = over(epoch)
    if pinned is not samples and not standing.rests:
        steps = reading.steps_of(pinned)
        ends = epoch + 1 if reading.epochs is None else min(epoch + 1, reading.epochs)
        yield pinned, replace(reading, skip=epoch * steps + batch, epochs=ends)
        epoch, batch = epoch + 1, 0
    yield samples, replace(reading, skip=epoch * reading.steps_of(samples) + batch)
