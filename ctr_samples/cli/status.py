"""``ctr-samples status``: how each day of a sample set stands."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from ctr_samples.cli.generate import FirstDay, LastDay, Overrides, spark_for
from ctr_samples.cli.messages import Debug, errors_in_words
from ctr_samples.cli.report import SampleSet
from ctr_samples.config import LoadedConfig, load_config
from ctr_samples.errors import UsageError
from ctr_samples.terminal import stderr_console, stdout_console

if TYPE_CHECKING:
    from ctr_samples.job.day_status import DayStatus


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
    console = stderr_console()
    with errors_in_words(console, debug):
        from ctr_samples.job.day_status import DayStatus, config_of_newest, is_due, statuses
        from ctr_samples.job.summary import DayLine, days_table
        from ctr_samples.periods import newest_complete, parse_period
        from ctr_samples.shards import open_storage

        begin, end = (None if text is None else parse_period(text) for text in (first, last))
        if config is None and set_:
            raise UsageError("--set changes a configuration; give it with --config.")
        storage, loaded = open_storage(output), None if config is None else load_config(config, set_ or ())
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
    """The same days, with what changed since each was published."""
    with spark_for(loaded.config, f"ctr-samples status {loaded.config.name}", console) as (spark, progress):
        from ctr_samples.job.planning import why_stale

        compared = []
        for day in days:
            progress.stage(f"comparing {day.day}")
            stale = () if day.manifest is None else why_stale(spark, loaded, day.manifest)
            compared.append(replace(day, stale=stale))
        return compared
