"""Shard section: number, size and balance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ctr_samples.quality import metrics as document
from ctr_samples.quality.report.charts import columns
from ctr_samples.quality.report.manifest_view import Shard
from ctr_samples.quality.report.wording import Table, by_split, count, plural, shown, size, table

_COLUMNS = 120


@dataclass(frozen=True, slots=True)
class Shards:
    """The shard section. ``chart`` shows sizes in ascending order. ``note`` states the number of shards per column."""

    sizes: Table
    splits: Table
    chart: Markup | None
    note: str


def shards_of(spread: document.Shards, shards: Sequence[Shard], limit: int, one: str = "shard") -> Shards:
    """Combine shard metrics and manifest shards. ``one`` is the noun for a shard on the page."""
    sizes = sorted(shard.bytes for shard in shards)
    return Shards(
        table(
            f"{one.capitalize()} sizes",
            f"<per {one} | smallest | median | largest | total",
            _size_rows(spread) if sizes else (),
        ),
        table("Shards by split", "<split | shards | records | size", _split_rows(shards), limit),
        _chart(sizes, one) if sizes else None,
        _note(len(sizes), one),
    )


def _size_rows(spread: document.Shards) -> Iterator[tuple[str, ...]]:
    for name, of, in_words in (("bytes", spread.bytes, size), ("records", spread.records, count)):
        yield name, *(in_words(value) for value in (of.min, of.median, of.max, of.total))


def _split_rows(shards: Sequence[Shard]) -> Iterator[tuple[str, ...]]:
    splits: dict[str, list[Shard]] = {}
    for shard in shards:
        splits.setdefault(shard.split, []).append(shard)
    for name, some in by_split(splits).items():
        records, total = sum(shard.records for shard in some), sum(shard.bytes for shard in some)
        yield shown(name), count(len(some)), count(records), size(total)


def _chart(sizes: Sequence[float], one: str) -> Markup:
    width = min(len(sizes), _COLUMNS)
    picked = [sizes[(2 * at + 1) * len(sizes) // (2 * width)] for at in range(width)]
    label = f"Sizes of {plural(len(sizes), one)} in ascending order, from {size(sizes[0])} to {size(sizes[-1])}."
    return columns(picked, (), top=sizes[-1], label=label)


def _note(shards: int, one: str) -> str:
    if not shards:
        return ""
    each = f"; each bar stands for about {shards / _COLUMNS:.1f} {one}s" if shards > _COLUMNS else ""
    return f"{plural(shards, one)}, smallest first{each}."
