"""A table of days: what readers see of each, and what became of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table

from ctr_samples.job.summary import is_binary
from ctr_samples.periods import Period
from ctr_samples.shards import Manifest

if TYPE_CHECKING:
    from ctr_samples.job.many_days import DayOutcome


@dataclass(frozen=True, slots=True)
class DayLine:
    """One line: ``manifest`` is what readers see, if anything, and ``note`` what is to be said of the day."""

    day: Period
    manifest: Manifest | None
    note: str
    seconds: float | None = None

    @classmethod
    def of(cls, outcome: DayOutcome) -> DayLine:
        """The line of a day that was just made, or was not."""
        return cls(outcome.day, outcome.manifest, outcome.became, outcome.seconds or None)


def days_table(lines: Sequence[DayLine]) -> Table:
    """A line for each day; with the rate of each label that is 0 or 1, or the total of the first where none is."""
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
