"""Warnings about tasks that hold too many rows at once. Read from the counts of a run's tasks."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from ctr_samples.config.units import format_size
from ctr_samples.samples.columnar.blocks import FINAL_ORDER, HELD, setting_of
from ctr_samples.samples.columnar.counts import Counts

MULTIPLE = 4
"""A task may hold this multiple of its rows while it works, see docs/operations.md, "Sizing"."""

_MOST, _FAIR = 1 << 30, 256 << 20
"""Bytes of rows of a task above which a run warns, and those that it then suggests."""
_UNEVEN = 4
"""A share that is so many times the mean is large because of its keys, and not because the tasks are few."""


def crowded(counts: Counts, tasks: int, writing_tasks: int) -> Iterator[str]:
    """Yield a sentence for each stage in which a task held more than 1 GiB of rows. ``tasks`` is the number of tasks that
    join, ``writing_tasks`` of those that write.
    """
    for key, (_, most) in sorted(counts.extremes.items()):
        name = key.removeprefix(HELD)
        if name == key or most <= _MOST:
            continue
        total, number = counts.sums[key], writing_tasks if name == FINAL_ORDER else tasks
        held = f"A task of the stage `{name}` held {format_size(int(most))} of rows, and needs up to {MULTIPLE} times as much"
        if most > _UNEVEN * total / number:
            yield (
                f"{held}, because few keys have most of them. Give Python more memory beside the JVM "
                "(spark.executor.memoryOverhead), or look at the most frequent keys in the report."
            )
        else:
            yield f"{held}; set `{setting_of(name)}` to {ceil(total / _FAIR):,}, now {number:,}."
