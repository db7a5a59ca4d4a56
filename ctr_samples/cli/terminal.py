"""Terminal output. Names and values are data, and are never interpreted as markup or control codes."""

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
"""Table width when writing to a file or a pipe."""

_WHOLE_WORD = 32
"""Maximum width of a word that is never broken. Longer words are paths or values."""

_NARROW = 16
"""Minimum width of a cell with several words, unless its text is shorter."""


def visible(text: str) -> str:
    """Escape each character that a terminal would interpret or hide, as in ``\\x1b`` or ``\\u202e``.

    These are control characters, marks that change the direction of text, and characters without a glyph. Line feeds
    are escaped too: a value must not look like separate lines.
    """
    return text if text.isprintable() else "".join(map(_visible, text))


def _visible(character: str) -> str:
    if character.isprintable() or unicodedata.category(character) == "Zs":
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def visible_lines(text: str) -> str:
    """Like :func:`visible`, for text with several lines."""
    return "\n".join("\t".join(map(visible, line.split("\t"))) for line in text.split("\n"))


class Terminal(Console):
    """A console that prints text literally: markup and emoji codes only on request, control characters never.

    Tables are never truncated. A table that is too wide gets narrower gaps and multi-line cells, or else becomes one
    paragraph per row.
    """

    def __init__(self, **how: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **how)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render segments with control characters made visible, except rich's own control codes."""
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
    if table.box is not None:  # without lines only the padding separates the columns
        narrow.padding = 0
    texts = [[*([column.header] if table.show_header else []), *column.cells] for column in table.columns]
    if not all(isinstance(text, str | Text) for column in texts for text in column):
        return table  # a progress display, which handles its own width
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
    """Return the minimum width of a column at which no word is broken."""
    if column.no_wrap:
        return most
    words = [min(cell_len(word), _WHOLE_WORD) for cell in cells for word in cell.split()]
    return max([min(most, _NARROW), column.min_width or 0, *words])


def _paragraphs(table: Table) -> Iterable[Text]:
    """Format each row as its first cell, followed by the titles and values of the remaining cells."""
    titles = [_plain(column.header) if table.show_header else "" for column in table.columns]
    for row in zip_longest(*(column.cells for column in table.columns), fillvalue=""):
        first, *others = zip(titles, map(_plain, row), strict=True)
        said = ", ".join(f"{title} {cell}".strip() for title, cell in others if cell)
        yield Text(f"{first[1]}: {said}" if first[1] and said else first[1] or said, no_wrap=False, overflow="fold")


def _plain(cell: RenderableType) -> str:
    return cell.plain if isinstance(cell, Text) else str(cell)


def stderr_console() -> Terminal:
    """Return the console for progress, summaries and errors. stdout is for output that other programs read."""
    terminal = None if sys.stderr.isatty() else _terminal_behind_spark_submit()
    if terminal is not None:
        return Terminal(file=open(terminal, "w"))  # open as long as the console
    return Terminal(stderr=True)


def stdout_console() -> Terminal:
    """Return the console for tables that a user requested."""
    return Terminal(width=None if sys.stdout.isatty() else PIPE_WIDTH)


def say(text: object, end: str = "\n") -> None:
    """Print a result on stdout: unchanged if piped, with control characters made visible on a terminal."""
    typer.echo((visible_lines(str(text)) if sys.stdout.isatty() else str(text)) + end, nl=False)


def _terminal_behind_spark_submit() -> str | None:
    """Return the path of the terminal behind spark-submit's own stderr, or None.

    spark-submit runs Python as its child and copies both of the child's outputs to stdout, so Python sees no terminal.
    Without /proc, as on macOS, a run under spark-submit is quiet until its summary.
    """
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return None
    try:
        target = os.readlink(f"/proc/{os.getppid()}/fd/2")
    except OSError:
        return None
    return target if target.startswith(("/dev/pts/", "/dev/tty")) and os.access(target, os.W_OK) else None
