"""What a person reads after a run: where the samples are, how many, what was dropped, what to do next."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ctr_samples.config.units import format_size
from ctr_samples.shards import Manifest, Storage
from ctr_samples.shards.naming import day_directory

_REASONS = {
    "no_time": "had no readable time",
    "no_article": "named no article",
    "repeated": "repeated the one before",
}


def run_summary(manifest: Manifest, storage: Storage, *, published: bool) -> RenderableType:
    """The summary of a published generation."""
    parts = [_headline(manifest, published), _splits(manifest), _accounting(manifest), _facts(manifest), _next(manifest, storage)]
    return Padding(Group(*parts), (1, 0))


def _headline(manifest: Manifest, published: bool) -> RenderableType:
    what = "Published" if published else "Nothing to do: the same inputs, configuration and code are already published as"
    took = f" in {manifest.seconds:.0f} s" if published else ""
    return Text.assemble(
        (f"{what} ", "bold green"),
        (f"{manifest.name} {manifest.run_date}", "bold"),
        f", generation {manifest.generation}{took}\n",
    )


def _splits(manifest: Manifest) -> RenderableType:
    labels = list(manifest.labels)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("split", "samples", "shards", "size"):
        table.add_column(heading, justify="left" if heading == "split" else "right")
    for label in labels:
        table.add_column(label, justify="right")
    for split in [*manifest.splits, None]:
        shards = manifest.of_split(split)
        samples = sum(s.records for s in shards)
        cells = [split or "all", f"{samples:,}", f"{len(shards):,}", format_size(sum(s.bytes for s in shards))]
        table.add_row(*cells, *[_label_cell(manifest, label, split, samples) for label in labels])
    return table


def _label_cell(manifest: Manifest, label: str, split: str | None, samples: int) -> str:
    total = manifest.label_sum(label, split)
    if _is_binary(manifest, label):
        return f"{total:,.0f} ({total / samples:.2%})" if samples else "0"
    return f"{total:,.0f}"


def _is_binary(manifest: Manifest, label: str) -> bool:
    return any(f["name"] == label and f["dtype"] == "int64" for f in manifest.contract["features"])


def _accounting(manifest: Manifest) -> RenderableType:
    counts = dict(manifest.accounting)
    impressions, samples = counts.pop("impressions"), counts.pop("samples")
    lines = [("impressions", impressions, ""), ("= samples", samples, "")]
    lines += [("+ dropped", count, _REASONS.get(reason, reason)) for reason, count in counts.items() if count]
    return _grid("Every impression is accounted for", [(name, f"{count:,}", note) for name, count, note in lines])


def _facts(manifest: Manifest) -> RenderableType:
    return Group(*_fact_lines(manifest))


def _fact_lines(manifest: Manifest) -> Iterator[RenderableType]:
    samples = manifest.records
    if manifest.views:
        rows = [
            (name, f"{counts.get('matched', 0) / samples:.1%}", "of the samples have a row that was known in time")
            for name, counts in manifest.views.items()
        ]
        yield _grid("Views", rows)
    rows = []
    for name, counts in manifest.labels.items():
        orphans = counts.get("orphans", 0)
        note = f"action(s) on the day, {orphans:,} of them without an impression" if orphans else "action(s) on the day"
        rows.append((name, f"{counts.get('actions', 0):,}", note))
    yield _grid("Labels", rows)
    for name, source in manifest.inputs.items():
        if source.get("malformed"):
            yield Text(f"  {source['malformed']:,} of {source['lines']:,} lines of {name} are malformed and were skipped.")
        if source["missing_days"]:
            yield Text(f"  {name} had no data for {', '.join(source['missing_days'])}.")
    if not manifest.label_mature:
        yield Text("  The label windows had not all closed: run the day again later for its final labels.", style="yellow")


def _next(manifest: Manifest, storage: Storage) -> RenderableType:
    where = storage.locate(day_directory(manifest.day))
    place = _short(storage.url)
    return Text.assemble(
        ("\nThe samples are in\n", "bold"),
        f"  {_short(where)}\n",
        ("Next\n", "bold"),
        f"  ctr-samples show {place}        the first examples as a table\n",
        f"  ctr-samples verify {place}      every byte against the manifest\n",
        f"  ctr-samples paths {place}       the files of a split, for any reader",
    )


def _short(place: str) -> str:
    """A path relative to where the user stands, when it lies below."""
    from pathlib import Path

    path = Path(place)
    return str(path.relative_to(Path.cwd())) if path.is_absolute() and path.is_relative_to(Path.cwd()) else place


def _grid(title: str, rows: list[tuple[str, str, str]]) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(min_width=14)
    table.add_column(justify="right", min_width=8)
    table.add_column(style="dim")
    for row in rows:
        table.add_row(*row)
    return Group(Text(title, style="bold"), Padding(table, (0, 0, 0, 2)))
