"""Tables as values; templates/parts.html.j2 draws them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

Kind = Literal["text", "long", "number", "bar"]


@dataclass(frozen=True, slots=True)
class Column:
    """Column head; the title of a column of bars is for screen readers."""

    title: str
    kind: Kind = "number"


@dataclass(frozen=True, slots=True)
class Table:
    """``rows`` hold cells of text or drawings; the first cell is the row head. ``hidden`` rows were left out."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    hidden: int = 0

    def __bool__(self) -> bool:
        return bool(self.rows)


def table(caption: str, titles: str, rows: Iterable[Sequence[str]], limit: int = 200) -> Table:
    """Build a table from titles such as ``<view | matched | =share``: ``<`` marks text, ``~`` sentences, ``=`` bars.

    At most ``limit`` rows are kept.
    """
    kinds: dict[str, Kind] = {"<": "text", "~": "long", "=": "bar"}
    columns = [
        Column(title.lstrip("<~="), kinds.get(title[:1], "number")) for title in map(str.strip, titles.split("|"))
    ]
    remaining = iter(rows)
    kept = tuple(tuple(row) for row in islice(remaining, limit))
    return Table(caption, tuple(columns), kept, hidden=sum(1 for _ in remaining))
