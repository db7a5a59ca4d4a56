"""Page about TFRecord files that no manifest lists: damage, sizes, features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ctr_samples.quality.feature_facts import FeatureFacts
from ctr_samples.quality.html import filled
from ctr_samples.quality.metrics import Shards, Spread
from ctr_samples.quality.report import features, shards
from ctr_samples.quality.report.manifest_view import ShardView
from ctr_samples.quality.report.page import Fact, Room, fitting
from ctr_samples.quality.report.wording import Table, clipped, count, plural, shown, size, table

_SENTENCE = 600


class File(ShardView, Protocol):
    """A checked TFRecord file."""

    @property
    def path(self) -> str:
        """Path relative to the directory of the page."""

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
    """Render the HTML page about files: a single file under 2 MB that loads nothing from the network."""
    return fitting(lambda room: _page(title, files, contents, room))


def _page(title: str, files: Sequence[File], contents: Contents, room: Room) -> str:
    damage = [clipped(file.damage, _SENTENCE) for file in files if file.damage]
    spread = Shards(len(files), Spread.of([file.bytes for file in files]), Spread.of([file.records for file in files]))
    return filled(
        "files.html.j2",
        ("page.css",),
        ("page.js",),
        {
            "title": shown(title, 200),
            "subtitle": ("no manifest lists these files",),
            "tone": "refused" if damage else "passed",
            "heading": "Damaged" if damage else "Intact",
            "summary": _summary(files, len(damage)),
            "damage": damage[: room.rows],
            "hidden": len(damage[room.rows :]),
            "facts": tuple(_facts(files, contents)),
            "sizes": shards.shards_of(spread, files, room.rows, "file"),
            "files": _listed(files, room.rows),
            "compared": "",
            "unknown": clipped(contents.unknown, _SENTENCE),
            "measured": _measured(sum(file.records for file in files if not file.damage), contents),
            "features": features.features_of(
                contents.features, {}, {}, {}, positives=False, drawn=room.drawn, rows=room.rows
            ),
            "listed": "ctr-samples infer --statistics",
        },
    )


def _summary(files: Sequence[File], damaged: int) -> str:
    checked = f"The checksums of {plural(sum(file.records for file in files), 'record')} were compared."
    if damaged:
        return f"{count(damaged)} of {plural(len(files), 'file')} cannot be read to the end. {checked}"
    return f"{checked} A file that is missing cannot be noticed."


def _facts(files: Sequence[File], contents: Contents) -> Iterator[Fact]:
    yield Fact("records", count(sum(file.records for file in files)))
    yield Fact("features", count(len(contents.features)))
    yield Fact(f"in {plural(len(files), 'file')}", size(sum(file.bytes for file in files)))


def _listed(files: Sequence[File], limit: int) -> Table:
    rows = (
        (shown(file.path, 200), f"{count(file.records)}{' before the damage' * bool(file.damage)}", size(file.bytes))
        for file in files
    )
    return table("Files", "<file | records | size", rows, limit)


def _measured(sound: int, contents: Contents) -> str:
    some = contents.looked_at < sound
    of = f"{count(contents.looked_at)} of {plural(sound, 'record')}" if some else plural(sound, "record")
    return f"Measured of {of} in sound files{': the first ones of some; with --all, of all' if some else ''}."
