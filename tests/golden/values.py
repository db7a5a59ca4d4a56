"""The samples of a published set as plain lists, for releases to be compared."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any


def values_of(samples: Path, period: str) -> dict[str, dict[str, Any]]:
    """All columns of each split of a period."""
    from ctr_samples.periods import period_of
    from ctr_samples.readers import iter_batches
    from ctr_samples.shards import open_storage, require_manifest

    found = {}
    for split in sorted({shard.split for shard in require_manifest(open_storage(samples), period_of(period)).shards}):
        (batch,) = iter_batches(samples, date=period, split=split, batch_size=1_000)
        columns = {**batch.features, **batch.labels, "weight": batch.weight, **batch.keys}
        found[split] = {name: plain(column) for name, column in sorted(columns.items()) if column is not None}
    return found


def plain(column: Any) -> Any:
    """An array, or a column of several arrays, as lists. Bytes become text of one character each."""
    if isinstance(column, int):
        return column
    if is_dataclass(column):
        return {field.name: plain(getattr(column, field.name)) for field in fields(column)}
    values = column.tolist()
    return [value.decode("latin-1") if isinstance(value, bytes) else value for value in values]
