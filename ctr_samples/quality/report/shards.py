"""Shard section: number, size and balance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ctr_samples.quality import metrics as document
from ctr_samples.quality.report.charts import columns
from ctr_samples.quality.report.manifest_view import ShardView
from ctr_samples.quality.report.wording import Table, by_split, count, number, plural, share, shown, size, table

_COLUMNS = 120
_WORTH = 0.8
"""Share of the size at which the order by request is worth it."""


@dataclass(frozen=True, slots=True)
class ShardSection:
    """The shard section. ``chart`` shows sizes in ascending order. ``note`` states the number of shards per column."""

    sizes: Table
    splits: Table
    chart: Markup | None
    note: str


def shards_of(spread: document.Shards, shards: Sequence[ShardView], limit: int, one: str = "shard") -> ShardSection:
    """Combine shard metrics and manifest shards. ``one`` is the noun for a shard on the page."""
    sizes = sorted(shard.bytes for shard in shards)
    return ShardSection(
        table(
            f"{one.capitalize()} sizes",
            f"<per {one} | smallest | median | largest | total",
            _size_rows(spread) if sizes else (),
        ),
        table("Shards by split", "<split | shards | records | size", _split_rows(shards), limit),
        _chart(sizes, one) if sizes else None,
        _note(len(sizes), one),
    )


def requests_of(requests: document.Requests | None) -> Table:
    """Table of the sizes of requests and of what they have in common."""
    return table("Requests", "<what | figure", () if requests is None else _request_rows(requests))


def requests_in_words(requests: document.Requests | None) -> str:
    """Say what the order by request saves or would save, or that there are no requests."""
    if requests is None:
        return "No key tells which impressions form a request: neither `impressions.request` nor a user."
    gzip = requests.gzip
    if gzip is None or requests.equal_bytes is None:
        return f"Too few of the {count(requests.requests)} requests were sampled to tell what each order needs."
    change = (
        f"{share(gzip.by_impression)} of the plain size in the order by impression, {share(gzip.by_request)} by request"
    )
    if requests.adjacent:
        return f"The samples are ordered by request. Gzip needs {change}."
    if gzip.by_request > _WORTH * gzip.by_impression:
        return f"Gzip would need {change}, so an order by request saves little."
    return f"Gzip would need {change}: consider `output.order: request`."


def _request_rows(requests: document.Requests) -> Iterator[tuple[str, ...]]:
    about = "" if requests.looked_at == requests.requests else "about "
    yield "equal within a request", shown(" and ".join(requests.keys))
    yield "requests", about + count(requests.requests)
    yield "samples of a request, mean", about + number(requests.mean)
    yield "median", about + number(requests.median)
    yield "largest that was seen", count(requests.largest)
    yield "equal bytes of a record and the one before it", share(requests.equal_bytes)
    if requests.gzip is not None:
        yield "gzip by impression, share of plain size", share(requests.gzip.by_impression)
        yield "gzip by request, share of plain size", share(requests.gzip.by_request)


def _size_rows(spread: document.Shards) -> Iterator[tuple[str, ...]]:
    for name, of, in_words in (("bytes", spread.bytes, size), ("records", spread.records, count)):
        yield name, *(in_words(value) for value in (of.min, of.median, of.max, of.total))


def _split_rows(shards: Sequence[ShardView]) -> Iterator[tuple[str, ...]]:
    splits: dict[str, list[ShardView]] = {}
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
