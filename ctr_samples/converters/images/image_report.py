"""Report on converting an image directory, for programs and for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

_SHOWN = 20
"""Maximum number of classes and of unreadable images to print."""


@dataclass(frozen=True, slots=True)
class ImageReport:
    """The result of a run. ``classes`` maps each class, in order of label ids, to its numbers of train and validation
    images.

    ``unreadable`` counts skipped files, ``first`` lists a few of them with the reason, and ``beside`` lists files
    outside the class folders.
    """

    output: str
    generation: int
    manifest: str
    classes: Mapping[str, tuple[int, int]]
    shards: int
    unreadable: int
    first: tuple[tuple[str, str], ...]
    beside: tuple[str, ...]

    @property
    def images(self) -> int:
        """Number of records in both splits."""
        return sum(map(sum, self.classes.values()))

    def render(self) -> RenderableType:
        """Render the summary for stderr."""
        headline = Text.assemble(
            ("Published ", "bold green"),
            (f"{self.images:,} images", "bold"),
            f" of {len(self.classes):,} classes in {self.shards:,} shard(s) to {self.output}, generation {self.generation}",
        )
        lines = [Text(line) for line in (*_unreadable(self.unreadable, self.first), *_beside(self.beside))]
        return Group("", headline, self._classes(), *lines)

    def _classes(self) -> Table:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for heading in ("label", "class", "train", "validation"):
            table.add_column(heading, justify="left" if heading == "class" else "right")
        for label, (name, counts) in enumerate(list(self.classes.items())[:_SHOWN]):
            table.add_row(str(label), Text(name), *(f"{count:,}" for count in counts))
        if len(self.classes) > _SHOWN:
            table.add_row("", f"… and {len(self.classes) - _SHOWN:,} more", "", "")
        train, validation = map(sum, zip(*self.classes.values(), strict=True))
        table.add_row("", "all", f"{train:,}", f"{validation:,}")
        return table


def _unreadable(count: int, first: tuple[tuple[str, str], ...]) -> list[str]:
    if not count:
        return []
    lines = [f"{count:,} file(s) cannot be read and were skipped, such as"]
    return lines + [f"  {path} {reason}" for path, reason in first[:_SHOWN]]


def _beside(names: tuple[str, ...]) -> list[str]:
    return [f"{len(names):,} file(s) are in no class folder and were skipped, such as {names[0]}"] if names else []
