"""Summary of a run for people: location and number of samples, dropped impressions, and next steps."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ctr_samples.config.units import format_size
from ctr_samples.periods import Period, in_ranges, in_zone, zone_of
from ctr_samples.quality.report.day import kinds_of_empty
from ctr_samples.shards import Manifest, Storage
from ctr_samples.shards.naming import day_directory

if TYPE_CHECKING:
    from ctr_samples.job.many_days import DayOutcome


_REASONS = {
    "no_time": "had no readable time",
    "no_article": "had no article",
    "repeated": "repeated an earlier one",
    "skip_above": "were below the last click of their list",
    "down_sampled": "were left out of train by `sampling`",
    "forgotten": "were of users to be forgotten",
}

_OF_A_TASK, _TOO_MUCH = 3 << 29, 1 << 32
"""Bytes that a task should write, and bytes above which the summary shows a hint."""


def run_summary(manifest: Manifest, storage: Storage, *, published: bool) -> RenderableType:
    """Return the summary of a published generation."""
    facts = _fact_lines(manifest)
    return Group(
        "", _headline(manifest, published), _splits(manifest), _accounting(manifest), *facts, *_next(manifest, storage)
    )


def _headline(manifest: Manifest, published: bool) -> RenderableType:
    name = (f"{manifest.name} {manifest.run_date}", "bold")
    if published:
        warnings = len(manifest.quality.get("found", ()))
        suffix = f", with {warnings} warning{'s' * (warnings > 1)}" if warnings else ""
        return Text.assemble(
            ("Published ", "bold green"),
            name,
            f", generation {manifest.generation}, in {manifest.seconds:.0f} s",
            (suffix, "yellow"),
            "\n",
        )
    return Text.assemble(
        ("Already published ", "bold green"),
        name,
        f", generation {manifest.generation},\nfrom the same inputs, configuration and release; --force runs it again\n",
    )


def _splits(manifest: Manifest) -> RenderableType:
    splits: list[str | None] = [*manifest.splits, None]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for split in splits:
        table.add_column(split or "all", justify="right")
    shards = [manifest.of_split(split) for split in splits]
    table.add_row("samples", *[f"{sum(s.records for s in some):,}" for some in shards])
    table.add_row("shards", *[f"{len(some):,}" for some in shards])
    table.add_row("size", *[format_size(sum(s.bytes for s in some)) for some in shards])
    for label in manifest.labels:
        table.add_row(label, *[_label_cell(manifest, label, split) for split in splits])
    return table


def _label_cell(manifest: Manifest, label: str, split: str | None) -> str:
    total = manifest.label_sum(label, split)
    if not is_binary(manifest, label):
        return f"{total:,.0f}"
    samples = sum(s.records for s in manifest.of_split(split))
    return f"{total:,.0f} ({total / samples:.2%})" if samples else "0"


def is_binary(manifest: Manifest, label: str) -> bool:
    """Return whether a label is 0 or 1, so that its mean is a rate."""
    return any(f["name"] == label and f["dtype"] == "int64" for f in manifest.contract["features"])


def _accounting(manifest: Manifest) -> RenderableType:
    counts = dict(manifest.accounting)
    impressions, samples = counts.pop("impressions"), counts.pop("samples")
    lines = [("impressions", impressions, ""), ("= samples", samples, "")]
    lines += [("+ dropped", count, _REASONS.get(reason, reason)) for reason, count in counts.items() if count]
    lines += _other_days(manifest)
    return _grid("Every impression is accounted for", [(name, f"{count:,}", note) for name, count, note in lines])


def _other_days(manifest: Manifest) -> Iterator[tuple[str, int, str]]:
    """Yield the rows that lie in the directory of another day than their own."""
    source = manifest.inputs.get(manifest.config.get("impressions", {}).get("source", ""), {})
    counts = source.get("other_days", {}).get("impressions.time", {})
    if count := counts.get("of_other_days"):
        yield "of other days", count, "rows in the directory of the day, not counted here"
    if count := counts.get("from_other_days"):
        yield "from other days", count, "of the impressions lie in directories of other days"


def _fact_lines(manifest: Manifest) -> Iterator[RenderableType]:
    if manifest.views:
        rows = [
            (
                name,
                f"{counts.get('matched', 0) / max(manifest.records, 1):.1%}",
                "of the samples match a row known in time",
            )
            for name, counts in manifest.views.items()
        ]
        yield _grid("Views", rows)
    rows = []
    for name, counts in manifest.labels.items():
        orphans, without = counts.get("orphans", 0), counts.get("without_value", 0)
        if "actions" in counts:
            note = "actions on the day" + (f", {orphans:,} without an impression" if orphans else "")
            rows.append((name, f"{counts['actions']:,}", note))
        elif without:
            rows.append((name, f"{without:,}", "impressions without a value in their own row"))
        rows += _flips(counts.get("flips"))
    if rows:
        yield _grid("Labels", rows)
    for name, source in manifest.inputs.items():
        if source.get("malformed"):
            yield Text(
                f"  {source['malformed']:,} of {source.get('lines', 0):,} lines of {name} are malformed and were skipped."
            )
        if source.get("repeated"):
            yield Text(
                f"  {source['repeated']:,} of {source.get('lines', 0):,} rows of {name} repeat others and do not count."
            )
        for what, days in kinds_of_empty(source).items():
            yield Text(f"  {name} {what} for {in_ranges(days)}.")
    if manifest.features_from:
        yield Text(f"  The {manifest.features_from.described}.")
    if manifest.known_by:
        known_by = in_zone(manifest.known_by, zone_of(manifest.config))
        yield Text(f"  All is as of {known_by}: what became known later is left out.")
    yield from _crowded(manifest)
    if not manifest.label_mature:
        sentence = (
            "The labels are not final: a label window is open, or reaches into a day without data, or with a cut log."
        )
        yield Text(f"  {sentence}", style="yellow")


def _crowded(manifest: Manifest) -> Iterator[Text]:
    """Suggest a setting if each task writes so much that it sorts on disk."""
    tasks = len({shard.partition for shard in manifest.shards})
    if tasks and manifest.bytes > _TOO_MUCH * tasks:
        each, more = format_size(manifest.bytes // tasks), -(-manifest.bytes // _OF_A_TASK)
        yield Text(
            f"  {tasks:,} tasks wrote {each} each; set `output.partitions: {more}` for smaller tasks.", style="yellow"
        )


def _flips(flips: Mapping[str, Any] | None) -> Iterator[tuple[str, str, str]]:
    """Yield the label changes since the previous generation."""
    if flips is None:
        return
    since = f"since generation {flips['against']}"
    if "not_compared" in flips:
        yield "", "", f"not compared with generation {flips['against']}: {flips['not_compared']}"
        return
    count = {name: flips.get(name, 0) for name in ("flipped_to_1", "flipped_to_0", "changed", "new", "gone")}
    changed = f", {count['changed']:,} changed value" if count["changed"] else ""
    others = f"; {count['new']:,} samples are new, {count['gone']:,} gone" if count["new"] or count["gone"] else ""
    flipped = count["flipped_to_1"] + count["flipped_to_0"]
    to = f": {count['flipped_to_1']:,} to 1, {count['flipped_to_0']:,} to 0" if flipped else ""
    yield "", f"{flipped:,}", f"flipped {since}{to}{changed}{others}"


def _next(manifest: Manifest, storage: Storage) -> Iterator[RenderableType]:
    output = _short(storage.url)
    yield Text("\nThe samples are in", style="bold")
    yield _line(f"  {_short(storage.locate(day_directory(manifest.day)))}")
    yield Text("Next", style="bold")
    for command, comment in (
        ("report", "print the path of the day's report"),
        ("show", "print the first examples"),
        ("verify", "check every byte against the manifest"),
        ("paths", "print the paths of the shards, for any reader"),
    ):
        yield _line(f"  {_program()} {command + ' ' + output:<{len(output) + 7}}  # {comment}")


def _line(text: str) -> Text:
    """Return a line that the user can copy, never wrapped."""
    return Text(text, no_wrap=True, overflow="ignore")


def _program() -> str:
    """Return the command to run this program: its name in an active virtual environment, else its path."""
    beside = Path(sys.executable).with_name("ctr-samples")
    if "VIRTUAL_ENV" in os.environ or not beside.exists():
        return "ctr-samples"
    return _short(str(beside))


def _short(address: str) -> str:
    """Shorten an address below the working directory to a relative path. Other addresses stay unchanged."""
    path = Path(address)
    return str(path.relative_to(Path.cwd())) if path.is_absolute() and path.is_relative_to(Path.cwd()) else address


def _grid(title: str, rows: list[tuple[str, str, str]]) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(min_width=14)
    table.add_column(justify="right", min_width=8)
    table.add_column(style="dim")
    for row in rows:
        table.add_row(*row)
    return Group(Text(title, style="bold"), Padding(table, (0, 0, 0, 2), expand=False))


@dataclass(frozen=True, slots=True)
class DayLine:
    """A row of the table. ``manifest`` is the published manifest, if any, and ``note`` is a remark on the day."""

    day: Period
    manifest: Manifest | None
    note: str
    seconds: float | None = None

    @classmethod
    def of(cls, outcome: DayOutcome) -> DayLine:
        """Return the row for a day that just succeeded or failed."""
        is_open = outcome.manifest is not None and not outcome.manifest.label_mature
        note = f"{outcome.became}, labels not final" if is_open else outcome.became
        return cls(outcome.day, outcome.manifest, note, outcome.seconds or None)


def days_table(lines: Sequence[DayLine]) -> Table:
    """Return a table with a row per day, and the rate of each 0/1 label or, if there is none, the total of the first
    label.
    """
    manifests = [line.manifest for line in lines if line.manifest is not None]
    labels = _labels(manifests)
    timed = any(line.seconds is not None for line in lines)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("day", no_wrap=True)
    for title in ("generation", "samples", *labels):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    if timed:
        table.add_column("seconds", justify="right", no_wrap=True)
    table.add_column("")
    for line in lines:
        seconds = [] if not timed else ["" if line.seconds is None else f"{line.seconds:.1f}"]
        table.add_row(line.day.isoformat(), *_of_manifest(line.manifest, labels), *seconds, line.note)
    return table


def _labels(manifests: Iterable[Manifest]) -> list[str]:
    names = dict.fromkeys((name, is_binary(manifest, name)) for manifest in manifests for name in manifest.labels)
    rates = [name for name, binary in names if binary]
    return rates or [name for name, _ in list(names)[:1]]


def _of_manifest(manifest: Manifest | None, labels: Sequence[str]) -> list[str]:
    if manifest is None:
        return ["", "", *("" for _ in labels), ""]
    rates = [_label(manifest, label) if label in manifest.labels else "" for label in labels]
    return [str(manifest.generation), f"{manifest.records:,}", *rates, str(manifest.quality.get("verdict", ""))]


def _label(manifest: Manifest, label: str) -> str:
    total = manifest.label_sum(label)
    if not is_binary(manifest, label):
        return f"{total:,.0f}"
    return f"{total / manifest.records:.2%}" if manifest.records else ""
