"""Page about TFRecord files that no manifest lists: damage, sizes, features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ctr_samples.quality.feature_facts import FeatureFacts
from ctr_samples.quality.html import ROWS, Part, Section, alerts, left_out, page, paragraph, table
from ctr_samples.quality.metrics import Shards, Spread
from ctr_samples.quality.report import features
from ctr_samples.quality.report.contents import sizes_of
from ctr_samples.quality.report.wording import clipped, count, plural, shown, size


class File(Protocol):
    """A checked TFRecord file."""

    @property
    def path(self) -> str:
        """Path relative to the directory of the page."""

    @property
    def records(self) -> int:
        """Number of records before any damage."""

    @property
    def bytes(self) -> int:
        """Size in bytes."""

    @property
    def damage(self) -> str:
        """A description of the damage, or an empty string for an intact file."""


@dataclass(frozen=True, slots=True)
class Contents:
    """Measures of ``looked_at`` records of intact files. ``unknown`` explains the absence of features."""

    looked_at: int = 0
    features: Mapping[str, FeatureFacts] = field(default_factory=dict)
    unknown: str = ""


def render_files(title: str, files: Sequence[File], contents: Contents) -> str:
    """Render the HTML page about files: a single file that loads nothing from the network."""
    damage = [file.damage for file in files if file.damage]
    tone, heading = ("refused", "Damaged") if damage else ("passed", "Intact")
    if contents.unknown:
        found = Section("features", "Features", [paragraph("caution", clipped(contents.unknown))])
    else:
        measured = _measured(sum(file.records for file in files if not file.damage), contents)
        listed = "ctr-samples infer --statistics"
        found = features.section_of(contents.features, {}, {}, {}, positives=False, measured=measured, listed=listed)
    sections = (
        Section("verdict", "Damage", _verdict(files, damage), heading, tone=tone),
        found,
        Section("files", "Files", _files(files)),
    )
    tiles = (
        ("records", count(sum(file.records for file in files)), ""),
        ("features", count(len(contents.features)), ""),
        (f"in {plural(len(files), 'file')}", size(sum(file.bytes for file in files)), ""),
    )
    return page(
        "Report of TFRecord files", shown(title, 200), ("no manifest lists these files",), sections, tiles=tiles
    )


def _verdict(files: Sequence[File], damage: Sequence[str]) -> Iterator[Part]:
    checked = f"The checksums of {plural(sum(file.records for file in files), 'record')} were compared."
    if damage:
        damaged = f"{count(len(damage))} of {plural(len(files), 'file')} cannot be read to the end."
        yield paragraph("summary", f"{damaged} {checked}")
    else:
        yield paragraph("summary", f"{checked} A file that is missing cannot be noticed.")
    yield alerts(("blocks", paragraph("said", clipped(sentence))) for sentence in damage[:ROWS])
    yield left_out(len(damage) - ROWS, "ctr-samples verify")


def _files(files: Sequence[File]) -> Iterator[Part]:
    spread = Shards(len(files), Spread.of([file.bytes for file in files]), Spread.of([file.records for file in files]))
    yield sizes_of(spread, "file")
    rows = (
        (shown(file.path, 200), f"{count(file.records)}{' before the damage' * bool(file.damage)}", size(file.bytes))
        for file in files
    )
    yield table("Files", "<file | records | size", rows).styled("", "ctr-samples paths")


def _measured(sound: int, contents: Contents) -> str:
    some = contents.looked_at < sound
    of = f"{count(contents.looked_at)} of {plural(sound, 'record')}" if some else plural(sound, "record")
    return f"Measured of {of} in sound files{': the first ones of some; with --all, of all' if some else ''}."
