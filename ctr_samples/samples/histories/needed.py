"""Select the actions of a finished day that later impressions may need, in one pass over sorted rows.

An action that is still unknown at the end of the day is always needed, because an impression may precede it. Of the
known actions, the newest action of each of the newest ``last`` items is needed. Because an impression ignores its own
request, the newest ``last`` items after excluding any single request are needed too. That is at most two actions for
each of ``2 * last`` items, however many actions a key has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ctr_samples.samples.histories.join import moment
from ctr_samples.samples.histories.lists import ITEM, KEY, REQUEST, TIME, HistoryPlan
from ctr_samples.sparksql.columns import content_hash
from ctr_samples.sparksql.workers import python_values

_UNKNOWN = "not known when the day ends"


def newest_first(actions: DataFrame, plan: HistoryPlan, end: datetime, partitions: int) -> DataFrame:
    """Sort a day's actions for :func:`needed_of`, each key within one partition. The day ends at ``end``."""
    known = moment(actions, plan)
    order = [F.col(TIME).desc(), F.col(ITEM).desc(), content_hash(actions).desc()]
    sorted_rows = actions.repartition(partitions, KEY).sortWithinPartitions(KEY, *order)
    return sorted_rows.withColumn(_UNKNOWN, known > F.lit(end))


def needed_of(batches: Iterable[pa.RecordBatch], plan: HistoryPlan) -> Iterator[pa.RecordBatch]:
    """Yield the needed actions of sorted batches. Memory per key does not grow with its number of actions."""
    key, seen = None, Seen(plan.last)
    for batch in batches:
        columns = [python_values(batch.column(name)) for name in (KEY, ITEM, REQUEST, _UNKNOWN)]
        needed = []
        for own, item, request, unknown in zip(*columns, strict=True):
            if own != key:
                key, seen = own, Seen(plan.last)
            needed.append(unknown or seen.needs(item, request if plan.by_request else None))
        yield batch.drop_columns([_UNKNOWN]).filter(pa.array(needed, pa.bool_()))


@dataclass(slots=True)
class Seen:
    """The actions of one key found to be needed so far, newest first, which decide whether the next action is needed."""

    last: int
    items: dict[Any, Any] = field(default_factory=dict)
    """Request shared by all actions of each item, or None."""
    short: dict[Any, int] = field(default_factory=dict)
    """Requests whose removal leaves fewer than ``last`` items, each with the number of items lost."""

    def needs(self, item: Any, request: Any) -> bool:
        """Return whether a later impression may need the next action."""
        if item in self.items:
            return self._substitutes(item, request)
        if len(self.items) >= self.last and all(other == request for other in self.short):
            return False
        self.items[item] = request
        if request is not None:
            self.short[request] = self.short.get(request, 0) + 1
        self._fill()
        return True

    def _substitutes(self, item: Any, request: Any) -> bool:
        """Return whether this older action restores an item that would be lost if its request were excluded."""
        own = self.items[item]
        if own == request or own not in self.short:
            return False
        self.items[item] = None
        self.short[own] -= 1
        self._fill()
        return True

    def _fill(self) -> None:
        """Drop requests whose removal leaves at least ``last`` items."""
        spare = len(self.items) - self.last
        if spare >= 0:
            self.short = {request: gone for request, gone in self.short.items() if gone > spare}
