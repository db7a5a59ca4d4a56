"""``ctr-samples partials``: the partial results that runs keep of finished days."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.table import Table

from ctr_samples.cli.messages import Debug, errors_in_words
from ctr_samples.config.units import format_size
from ctr_samples.errors import InputError
from ctr_samples.terminal import stderr_console, stdout_console

if TYPE_CHECKING:
    from datetime import date

    from ctr_samples.shards.partials import KeptDay


def partials(
    directory: Annotated[str, typer.Argument(help="The `partials.path` of a configuration.")],
    debug: Debug = False,
) -> None:
    """List what is kept of finished days: for which views and days, and how large it is."""
    with errors_in_words(stderr_console(), debug):
        from ctr_samples.shards import open_storage
        from ctr_samples.shards.partials import kept_days

        storage = open_storage(directory)
        days = kept_days(storage)
        if not days:
            raise InputError(
                f"{storage.url} holds no partial results; expected the `partials.path` of a configuration."
            )
        stdout_console().print(_table(days))


def _table(days: Sequence[KeptDay]) -> Table:
    """A line for each view and definition: a view whose expressions changed has several, of which runs use the last one."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("view", "definition", "first day", "last day"):
        table.add_column(title, no_wrap=True)
    for title in ("days", "files", "size", "a day"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("without")
    for (view, definition), group in groupby(days, key=lambda day: (day.view, day.definition)):
        some = list(group)
        done, size = [day.day for day in some if day.complete], sum(day.bytes for day in some)
        span = [str(done[0]), str(done[-1])] if done else ["", ""]
        files = sum(len(day.files) for day in some)
        counts = [f"{len(done):,}", f"{files:,}", format_size(size), format_size(size // max(1, len(done)))]
        table.add_row(view, definition, *span, *counts, ", ".join(_gaps(done)))
    return table


def _gaps(days: Sequence[date]) -> Iterator[str]:
    """The days between the first and the last that are missing, as spans."""
    for one, following in pairwise(days):
        first, last = one + timedelta(days=1), following - timedelta(days=1)
        if first == last:
            yield str(first)
        elif first < last:
            yield f"{first} to {last}"
