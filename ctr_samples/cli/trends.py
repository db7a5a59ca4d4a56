"""``ctr-samples trends``: one page over many days. No Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ctr_samples.cli.generate import FirstDay, LastDay
from ctr_samples.cli.messages import Debug, errors_in_words
from ctr_samples.cli.report import SampleSet, open_page, written
from ctr_samples.terminal import say, stderr_console

if TYPE_CHECKING:
    from ctr_samples.shards import Storage


def trends(
    output: SampleSet,
    first: FirstDay = None,
    last: LastDay = None,
    days: Annotated[int, typer.Option("--days", min=1, max=2000, help="Show at most the newest of them.")] = 400,
    file: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Where to write the page; default: _trends.html in the sample set."),
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open it in a browser.")] = False,
    debug: Debug = False,
) -> None:
    """Write one page about many days: volume, rates, views, drift of each feature, verdicts and runs. Prints its path."""
    console = stderr_console()
    with errors_in_words(console, debug):
        from ctr_samples.job.trends import trends_page, write_page
        from ctr_samples.periods import parse_period
        from ctr_samples.shards import open_storage

        storage = open_storage(output)
        begin, end = (None if text is None else parse_period(text) for text in (first, last))
        if file is None:
            place = write_page(storage, trends_page(storage, begin, end, days))
        else:
            place = written(file, trends_page(storage, begin, end, days, root=_root_of(storage)))
        say(place)
        if open_:
            open_page(console, place)


def _root_of(storage: Storage) -> str:
    """The address of a sample set for a page that lies elsewhere."""
    root = storage.locate("dt=").removesuffix("dt=")
    return f"{Path(root).absolute().as_uri()}/" if Path(root).is_dir() else root
