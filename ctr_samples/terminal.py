"""Output to a terminal. Names and values come from data, and none of it may act as markup or as a control code."""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from copy import copy
from itertools import zip_longest
from typing import Any

import typer
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

PIPE_WIDTH = 160
"""Columns of a table that goes to a file or a pipe."""

_WHOLE_WORD = 32
"""Columns of the longest word that a table never breaks; what is longer is a path or a value."""

_NARROW = 16
"""Columns that are left to a cell of several words, if it has as many."""


def visible(text: str) -> str:
    """The text with an escape such as ``\\x1b`` or ``\\u202e`` for each character that a terminal would obey or hide.

    Those are control characters, marks that change the direction of text, and what has no form at all. Line feeds are too:
    a value must not look like lines of its own.
    """
    return text if text.isprintable() else "".join(map(_visible, text))


def _visible(character: str) -> str:
    if character.isprintable() or unicodedata.category(character) == "Zs":
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def visible_lines(text: str) -> str:
    """As :func:`visible`, for text of several lines."""
    return "\n".join("\t".join(map(visible, line.split("\t"))) for line in text.split("\n"))


class Terminal(Console):
    """A console that prints text as it is: markup and emoji codes only where a call asks for them, control characters never.

    It never cuts a table: one that is too wide gets narrower gaps and cells of several lines, or else becomes a paragraph for
    each row.
    """

    def __init__(self, **how: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **how)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Segments in which all but rich's own control codes is visible."""
        if isinstance(renderable, Table):
            renderable = _fitted(renderable, self, options or self.options)
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible_lines(segment.text))


def _fitted(table: Table, console: Console, options: ConsoleOptions) -> RenderableType:
    endless = options.update_width(1 << 20)
    if Measurement.get(console, endless, table).maximum <= options.max_width:
        return table
    narrow = copy(table)
    narrow.columns = [copy(column) for column in table.columns]
    if table.box is not None:  # without lines the padding is all that parts the columns
        narrow.padding = 0
    texts = [[*([column.header] if table.show_header else []), *column.cells] for column in table.columns]
    if not all(isinstance(text, str | Text) for column in texts for text in column):
        return table  # the lines of a progress, which are of its own making
    cells = [[_plain(text) for text in column] for column in texts]
    most = [max([column.min_width or 0, *map(cell_len, of)]) for column, of in zip(table.columns, cells, strict=True)]
    least = [_least(*one) for one in zip(table.columns, cells, most, strict=True)]
    gaps = Measurement.get(console, endless, narrow).maximum - sum(most)
    if sum(least) + gaps > options.max_width:
        return Group(*_paragraphs(table))
    widths = list(most)
    while sum(widths) + gaps > options.max_width:
        widest = max((i for i in range(len(widths)) if widths[i] > least[i]), key=lambda i: widths[i])
        widths[widest] -= 1
    for column, width in zip(narrow.columns, widths, strict=True):
        column.width, column.overflow = width, "fold"
    return narrow


def _least(column: Column, cells: Sequence[str], most: int) -> int:
    """The fewest columns in which no word of the cells is broken."""
    if column.no_wrap:
        return most
    words = [min(cell_len(word), _WHOLE_WORD) for cell in cells for word in cell.split()]
    return max([min(most, _NARROW), column.min_width or 0, *words])


def _paragraphs(table: Table) -> Iterable[Text]:
    """Each row as its first cell, and what the others are called and hold."""
    titles = [_plain(column.header) if table.show_header else "" for column in table.columns]
    for row in zip_longest(*(column.cells for column in table.columns), fillvalue=""):
        first, *others = zip(titles, map(_plain, row), strict=True)
        said = ", ".join(f"{title} {cell}".strip() for title, cell in others if cell)
        yield Text(f"{first[1]}: {said}" if first[1] and said else first[1] or said, no_wrap=False, overflow="fold")


def _plain(cell: RenderableType) -> str:
    return cell.plain if isinstance(cell, Text) else str(cell)


def stderr_console() -> Terminal:
    """Where progress, summaries and errors go; stdout is for output that other programs read."""
    terminal = None if sys.stderr.isatty() else _terminal_behind_spark_submit()
    if terminal is not None:
        return Terminal(file=open(terminal, "w"))  # lives as long as the console
    return Terminal(stderr=True)


def stdout_console() -> Terminal:
    """Where tables that a person asked for go."""
    return Terminal(width=None if sys.stdout.isatty() else PIPE_WIDTH)


def say(text: object, end: str = "\n") -> None:
    """Print a result on stdout: as it is for programs, and visible for people."""
    typer.echo((visible_lines(str(text)) if sys.stdout.isatty() else str(text)) + end, nl=False)


def _terminal_behind_spark_submit() -> str | None:
    """The terminal that spark-submit's own stderr is, if it is one.

    spark-submit runs Python as its child and copies both of its outputs to stdout, so that Python sees no terminal. Where
    there is no /proc, as on macOS, a run under spark-submit is quiet until its summary.
    """
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return None
    try:
        target = os.readlink(f"/proc/{os.getppid()}/fd/2")
    except OSError:
        return None
    return target if target.startswith(("/dev/pts/", "/dev/tty")) and os.access(target, os.W_OK) else None
