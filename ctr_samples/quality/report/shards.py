"""The shards: how many, how large, how even."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from ctr_samples.quality.report.charts import columns
from ctr_samples.quality.report.documents import figure, figures, objects, text
from ctr_samples.quality.report.tables import Table, table
from ctr_samples.quality.report.wording import count, plural, shown, size

_COLUMNS = 120


@dataclass(frozen=True, slots=True)
class Shards:
    """``chart`` has the sizes in ascending order; ``note`` says how many shards a column stands for."""

    sizes: Table
    splits: Table
    chart: Markup | None
    note: str


def shards_of(metrics: Mapping[str, Any], manifest: Mapping[str, Any], limit: int) -> Shards:
    """What the metrics say of all shards, and the manifest of each."""
    found = objects(manifest, "shards")
    sizes = sorted(figure(shard, "bytes") or 0.0 for shard in found)
    return Shards(
        table("Sizes of shards", "<of a shard | least | median | greatest | all together", _size_rows(metrics)),
        table("Shards by split", "<split | shards | records | size", _split_rows(found), limit),
        _chart(sizes) if sizes else None,
        _note(len(sizes)),
    )


def _size_rows(metrics: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for name, said in (("bytes", size), ("records", count)):
        known = figures(metrics, "shards", name)
        if known:
            yield name, *(said(known.get(key)) for key in ("min", "median", "max", "total"))


def _split_rows(shards: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    names = sorted({text(shard, "split") for shard in shards}, key=lambda name: (name != "train", name))
    for name in names:
        some = [shard for shard in shards if text(shard, "split") == name]
        records = sum(figure(shard, "records") or 0 for shard in some)
        yield shown(name), count(len(some)), count(records), size(sum(figure(shard, "bytes") or 0 for shard in some))


def _chart(sizes: Sequence[float]) -> Markup:
    width = min(len(sizes), _COLUMNS)
    picked = [sizes[(2 * at + 1) * len(sizes) // (2 * width)] for at in range(width)]
    said = f"Sizes of {plural(len(sizes), 'shard')} in ascending order, from {size(sizes[0])} to {size(sizes[-1])}."
    return columns(picked, (), top=sizes[-1], label=said)


def _note(shards: int) -> str:
    if not shards:
        return ""
    each = f"; each column stands for about {shards / _COLUMNS:.1f} shards" if shards > _COLUMNS else ""
    return f"{plural(shards, 'shard')} in order of size{each}."
