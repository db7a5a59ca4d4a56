"""Output to a terminal. Names and values come from data, and none of it may act as markup or as a control code."""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Iterable
from typing import Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

PIPE_WIDTH = 160
"""Columns of a table that goes to a file or a pipe."""


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
    """A console that prints text as it is: markup and emoji codes only where a call asks for them, control characters never."""

    def __init__(self, **how: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **how)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Segments in which all but rich's own control codes is visible."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible_lines(segment.text))


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
