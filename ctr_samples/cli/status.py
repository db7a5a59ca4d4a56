"""``ctr-samples status``, ``features``, ``trends`` and ``partials``: the state of a sample set, day by day."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ctr_samples.cli.generate import FirstDay, LastDay, Overrides, spark_for
from ctr_samples.cli.messages import Debug, errors_in_words
from ctr_samples.cli.outputs import chosen, opened, period_or_none
from ctr_samples.cli.report import SampleSet, open_page, written
from ctr_samples.cli.terminal import say, stdout_console
from ctr_samples.config import LoadedConfig, load_config
from ctr_samples.config.units import format_size
from ctr_samples.errors import InputError, UsageError

if TYPE_CHECKING:
    from datetime import date

    from ctr_samples.job.day_status import DayStatus
    from ctr_samples.shards import Storage
    from ctr_samples.shards.partials import KeptDay


def status(
    output: SampleSet,
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", help="Also tell which days a run would publish again; starts Spark."),
    ] = None,
    first: FirstDay = None,
    last: LastDay = None,
    set_: Overrides = None,
    debug: Debug = False,
) -> None:
    """List the days of a sample set: what is published, refused, not final, due, stale or missing."""
    with errors_in_words(debug) as console:
        from ctr_samples.job.day_status import DayStatus, config_of_newest, is_due, statuses
        from ctr_samples.job.summary import DayLine, days_table
        from ctr_samples.periods import newest_complete

        begin, end = map(period_or_none, (first, last))
        if config is None and set_:
            raise UsageError("--set changes a configuration; give it with --config.")
        storage, loaded = opened(output), None if config is None else load_config(config, set_ or ())
        days = list(statuses(storage, begin, end))
        known = config_of_newest(days) if loaded is None else loaded.config
        if known is not None:
            now = datetime.now(UTC)
            newest = newest_complete(known.grain, known.timezone, now)
            if loaded is not None and end is None and str(newest) > str(days[-1].day):
                days.append(DayStatus(newest))
            days = [replace(day, due=is_due(day, known, now)) for day in days]
        if loaded is not None:
            days = _compared(loaded, days, console)
        stdout_console().print(days_table([DayLine(day.day, day.manifest, day.sentence) for day in days]))


def _compared(loaded: LoadedConfig, days: list[DayStatus], console: Console) -> list[DayStatus]:
    """Add the changes since publication to each published day."""
    with spark_for(loaded.config, f"ctr-samples status {loaded.config.name}", console) as (spark, progress):
        from ctr_samples.job.planning import why_stale

        compared = []
        for day in days:
            progress.stage(f"comparing {day.day}")
            stale = () if day.manifest is None else why_stale(spark, loaded, day.manifest)
            compared.append(replace(day, stale=stale))
        return compared


def features(
    output: SampleSet,
    date: Annotated[
        str | None, typer.Option("--date", "-d", help="The day whose features are listed; default: the newest.")
    ] = None,
    debug: Debug = False,
) -> None:
    """List the features of a sample set: since when, bytes, coverage, drift, and what each is made from.

    Example: ctr-samples features samples/feed
    """
    with errors_in_words(debug):
        from ctr_samples.job.published import listed_features
        from ctr_samples.quality.report.wording import MISSING, share

        table = Table(box=box.SIMPLE_HEAD)
        for title in ("feature", "since", "as now since", "bytes", "coverage", "drift"):
            right = title in ("bytes", "coverage", "drift")
            table.add_column(title, justify="right" if right else "left", no_wrap=True)
        table.add_column("joined", no_wrap=True)
        table.add_column("made from", no_wrap=True, overflow="ellipsis")
        for one in listed_features(*chosen(output, date)):
            shares = (MISSING if value is None else share(value) for value in (one.share, one.coverage))
            drift = MISSING if one.drift is None else f"{one.drift:.3f}"
            table.add_row(
                one.name, one.since, one.same_since, *shares, drift, ", ".join(one.joined), escape(one.made_from)
            )
        stdout_console().print(table)


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
    with errors_in_words(debug) as console:
        from ctr_samples.job.day_status import trends_page, write_page

        storage = opened(output)
        begin, end = map(period_or_none, (first, last))
        if file is None:
            place = write_page(storage, trends_page(storage, begin, end, days))
        else:
            place = written(file, trends_page(storage, begin, end, days, root=_root_of(storage)))
        say(place)
        if open_:
            open_page(console, place)


def _root_of(storage: Storage) -> str:
    """Return the address of a sample set, for links from pages in other directories."""
    root = storage.locate("dt=").removesuffix("dt=")
    return f"{Path(root).absolute().as_uri()}/" if Path(root).is_dir() else root


def partials(
    directory: Annotated[str, typer.Argument(help="The `partials.path` of a configuration.")],
    debug: Debug = False,
) -> None:
    """List what is kept of finished days: for which views and days, and how large it is."""
    with errors_in_words(debug):
        from ctr_samples.shards.partials import kept_days

        storage = opened(directory)
        days = kept_days(storage)
        if not days:
            raise InputError(
                f"{storage.url} holds no partial results; expected the `partials.path` of a configuration."
            )
        stdout_console().print(_table(days))


def _table(days: Sequence[KeptDay]) -> Table:
    """Build a table with one row per view definition. A changed view has several definitions, and runs use the last."""
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
    """Yield the gaps between the first and the last day, as days or ranges."""
    for one, following in pairwise(days):
        first, last = one + timedelta(days=1), following - timedelta(days=1)
        if first == last:
            yield str(first)
        elif first < last:
            yield f"{first} to {last}"
