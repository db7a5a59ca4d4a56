"""``ctr-samples generate`` and ``ctr-samples config``: commands for a configuration file."""

from __future__ import annotations

import glob
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from zoneinfo import ZoneInfo

import typer
from rich.console import Console
from rich.table import Table

from ctr_samples.cli.messages import Debug, errors_in_words, print_error
from ctr_samples.cli.outputs import opened, period_or_none
from ctr_samples.cli.terminal import say, stdout_console
from ctr_samples.config import CatalogSource, FileSource, JobConfig, LoadedConfig, explain, load_config
from ctr_samples.day_paths import DayPath
from ctr_samples.errors import ConfigError, StorageError, UsageError
from ctr_samples.job.progress import RunProgress
from ctr_samples.periods import WHOLE, Period, check_period, parse_period, periods_between
from ctr_samples.quality.checks import CHECKS

if TYPE_CHECKING:
    from ctr_samples.job.many_days import Backfill, DayOutcome
    from ctr_samples.sparksql.observations import Reporter
    from ctr_samples.telemetry import Listener, Listeners

ConfigPath = Annotated[Path, typer.Option("--config", "-c", help="The YAML file of the sample set.")]
Overrides = Annotated[list[str] | None, typer.Option("--set", help="Change one key, as in output.path=/tmp/x.")]
FirstDay = Annotated[str | None, typer.Option("--from", help="The first of several days or hours.")]
LastDay = Annotated[str | None, typer.Option("--to", help="The last of them.")]
Day = Annotated[str, typer.Option("--date", "-d", help="A day as in 2019-11-26, an hour as in 2019-11-26T07, or all.")]

_FEW_BYTES = 16 << 20
"""Size of little data, over which the quick compiler wins."""
_LEAST_OF_A_FILE = 4096
"""Bytes that a file counts at least, so that few are looked at."""


@contextmanager
def spark_for(
    config: JobConfig, name: str, console: Console, *, whole_run: bool = False
) -> Iterator[tuple[Any, RunProgress]]:
    """Open a session for the sources of a configuration, with a progress display."""
    with RunProgress(console) as progress:
        from ctr_samples.samples.executors import compile_in_background
        from ctr_samples.sparksql.session import session_of_command

        compile_in_background()  # while Spark starts
        tables = any(isinstance(source, CatalogSource) for source in config.sources.values())
        with session_of_command(name, hive=tables, whole_run=whole_run, quick=reads_little(config)) as spark:
            progress.follow(spark)
            yield spark, progress


def reads_little(config: JobConfig) -> bool:
    """Whether all sources are local files, and the files of all their days have at most 16 MiB together.

    False if that takes more than a look at 4,096 files, or if a source has no file here: it may be on HDFS.
    """
    left = _FEW_BYTES
    for source in config.sources.values():
        found = False
        for size in _sizes_here(source.days) if isinstance(source, FileSource) else ():
            found = True
            left -= max(size, _LEAST_OF_A_FILE)
            if left < 0:
                return False
        if not found:
            return False
    return True


def _sizes_here(days: DayPath) -> Iterator[int]:
    """Yield the sizes of the local files of all days; of none on other storages, or if only Hadoop's globs match."""
    for place in map(Path, glob.iglob(DayPath(days.glob("date")).glob("hour").removeprefix("file:"))):
        for file in chain([place], place.rglob("*")):
            with suppress(OSError):  # it has just been replaced, or may not be read
                if file.is_file():
                    yield file.stat().st_size


def instant(option: str, text: str, zone: ZoneInfo) -> datetime:
    """Convert a command-line time to UTC. A time without an offset is local time."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"`{option}` is {text!r}; expected a time such as '2019-06-05 10:00:00'.") from None
    return (time if time.tzinfo else time.replace(tzinfo=zone)).astimezone(UTC)


def generate(
    config: ConfigPath,
    date: Annotated[
        str | None,
        typer.Option("--date", "-d", help="A day as in 2019-11-26, an hour as in 2019-11-26T07, or all."),
    ] = None,
    first: FirstDay = None,
    last: LastDay = None,
    due: Annotated[
        bool,
        typer.Option(
            "--due",
            help="The newest day that is over, and the days whose label windows have closed since they were made.",
        ),
    ] = False,
    set_: Overrides = None,
    force: Annotated[bool, typer.Option("--force", help="Run even if the same samples are already published.")] = False,
    accept: Annotated[
        list[str] | None,
        typer.Option("--accept", help=f"Publish even if this check of the quality gate fails: {', '.join(CHECKS)}."),
    ] = None,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Go on after a day that failed or was refused.")
    ] = False,
    parallel: Annotated[int, typer.Option("--parallel", min=1, help="How many of the days to make at once.")] = 1,
    known_by: Annotated[
        str | None,
        typer.Option(
            "--known-by", help="The samples as of this time, as if the job had run then: '2019-06-06 02:00:00'."
        ),
    ] = None,
    as_of_generation: Annotated[
        int | None,
        typer.Option("--as-of-generation", help="Read the inputs that this generation of the day was made from."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what each day would read back, make and leave out, and why.")
    ] = False,
    log_json: Annotated[
        bool, typer.Option("--log-json", help="Print a line of JSON for each day on stderr, instead of a summary.")
    ] = False,
    prometheus: Annotated[
        Path | None, typer.Option("--prometheus", help="Write gauges of the last day to this text file.")
    ] = None,
    lineage: Annotated[
        bool, typer.Option("--lineage", help="Send OpenLineage events, to where OPENLINEAGE_URL or its file says.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Make and publish the samples of a day, or of several days. Prints the path of each manifest.

    Example: ctr-samples generate --config samples.yaml --date 2019-11-26
    """
    with errors_in_words(debug) as console:
        from ctr_samples.job.gate import check_accepted

        loaded = load_config(config, set_ or ())
        check_accepted(accept or ())
        told = listeners(loaded.config, console, log_json=log_json, prometheus=prometheus, lineage=lineage)
        summary = Console(quiet=True) if log_json else console
        if due and any(other is not None for other in (date, first, last, known_by, as_of_generation)):
            raise UsageError("`--due` chooses the days by the clock; give it without another day, time or generation.")
        days = _due(loaded.config) if due else _periods(loaded.config, date, first, last)
        if not days:
            console.print("Nothing is due.")
            return
        known = None if known_by is None else instant("--known-by", known_by, ZoneInfo(loaded.config.timezone))
        if first is not None and as_of_generation is not None:
            raise UsageError("`--as-of-generation` is for one `--date`: each day has generations of its own.")
        if dry_run:
            if force or accept or known or as_of_generation:
                raise UsageError(
                    "`--dry-run` is of a plain run; give it without --force, --accept, times and generations."
                )
            _foresee(loaded, days, console)
            return
        from ctr_samples.job.many_days import Backfill

        backfill = partial(
            Backfill,
            loaded=loaded,
            days=days,
            force=force,
            accept=accept or (),
            keep_going=keep_going or due,
            parallel=parallel,
            known_by=known,
            as_of_generation=as_of_generation,
        )
        nights = _Nights(loaded.config, days, backfill, told, summary)
        try:
            if first is None and not due:
                nights.make_one()
            else:
                nights.make_many(debug)
        finally:
            told.done()


def listeners(
    config: JobConfig, console: Console, *, log_json: bool, prometheus: Path | None, lineage: bool
) -> Listeners:
    """Create the listeners of the command. Raise UsageError if the directory of the Prometheus file does not exist."""
    from ctr_samples.telemetry import Gauges, JsonLines, Listeners, TrendsPage

    told: list[Listener] = []
    warn = lambda text: console.print(f"warning: {text}", soft_wrap=True)  # noqa: E731
    if config.trends is not None:
        told.append(TrendsPage(config.output.path, config.trends, warn))
    if log_json:
        told.append(JsonLines(config, lambda line: console.print(line, soft_wrap=True)))
    if prometheus is not None:
        if not prometheus.parent.is_dir():
            raise UsageError(f"`--prometheus` is {prometheus}, but {prometheus.parent} is not a directory.")
        told.append(Gauges(config, prometheus))
    if lineage:
        from ctr_samples.telemetry.lineage import Lineage

        told.append(Lineage.of(config))
    return Listeners(told, warn)


def _periods(config: JobConfig, date: str | None, first: str | None, last: str | None) -> Sequence[Period]:
    """Return the requested periods from ``--date``, or from ``--from`` and ``--to``. A whole log needs no option."""
    if first is None and last is None and (date is not None or config.grain == "all"):
        periods: list[Period] = [WHOLE if date is None else parse_period(date)]
    elif date is None and first is not None and last is not None:
        periods = periods_between(parse_period(first), parse_period(last), config.timezone)
    else:
        raise UsageError("Give `--date DAY`, or `--from DAY` and `--to DAY`, or `--due`.")
    for period in periods:
        check_period(period, config.grain, config.timezone)
    return periods


def _due(config: JobConfig) -> Sequence[Period]:
    from ctr_samples.job.day_status import due_days

    return due_days(opened(config.output.path), config, datetime.now(UTC))


@dataclass(frozen=True, slots=True)
class _Nights:
    """The days that the command makes, and what makes them with a session and the reporter of each day."""

    config: JobConfig
    days: Sequence[Period]
    backfill: Callable[..., Backfill]
    told: Listeners
    console: Console

    def make_one(self) -> None:
        """Make a single day and print its summary. Raises its error."""
        from ctr_samples.job.many_days import DayOutcome
        from ctr_samples.job.summary import run_summary

        [day], config, started = self.days, self.config, time.monotonic()
        name = f"ctr-samples {config.name} {day}"
        self.told.begins(day)
        try:
            with spark_for(config, name, self.console, whole_run=True) as (spark, progress):
                of_day = lambda _: nullcontext(progress)  # noqa: E731
                [outcome] = self.backfill(spark=spark, reporter_of=of_day).outcomes()
        except Exception as error:  # Spark did not start
            outcome = DayOutcome.of_error(day, error, started)
        self.told.ended(outcome)
        if outcome.manifest is None:
            assert outcome.error is not None
            raise outcome.error
        storage = opened(config.output.path)
        summary = run_summary(outcome.manifest, storage, published=outcome.became == "published")
        self.console.print(summary, soft_wrap=True)
        self._say_paths([outcome])

    def make_many(self, debug: bool) -> None:
        """Make the days and print a table of them, even if interrupted. Exits with the worst exit code of any day."""
        from ctr_samples.job.many_days import worst_exit_code
        from ctr_samples.job.summary import DayLine, days_table

        outcomes: list[DayOutcome] = []
        name = f"ctr-samples {self.config.name} {self.days[0]} to {self.days[-1]}"
        try:
            with spark_for(self.config, name, self.console) as (spark, progress):

                @contextmanager
                def of_day(day: Period) -> Iterator[Reporter]:
                    self.told.begins(day)
                    with progress.of_day(day) as reporter:
                        yield reporter

                progress.stage(f"0 of {len(self.days)} days")
                for outcome in self.backfill(spark=spark, reporter_of=of_day).outcomes():
                    outcomes.append(outcome)
                    self.told.ended(outcome)
                    progress.stage(f"{len(outcomes)} of {len(self.days)} days")
                    if outcome.error is not None:
                        print_error(self.console, outcome.error, debug, f"{outcome.day}: ")
        finally:
            if outcomes:
                self.console.print(days_table([DayLine.of(outcome) for outcome in outcomes]))
            self._say_paths(outcomes)
        if code := worst_exit_code(outcomes):
            raise typer.Exit(code)

    def _say_paths(self, outcomes: Iterable[DayOutcome]) -> None:
        from ctr_samples.shards.naming import manifest_path

        for manifest in (outcome.manifest for outcome in outcomes):
            if manifest is not None:
                storage = opened(self.config.output.path)
                say(storage.locate(manifest_path(manifest.day, manifest.generation)))


def _foresee(loaded: LoadedConfig, days: Sequence[Period], console: Console) -> None:
    from ctr_samples.config.units import format_size
    from ctr_samples.quality.report.wording import span

    table = Table("day", "a run", "read back", "made", "views joined", "reads", "runs like it took", box=None)
    told: dict[str, None] = {}
    with spark_for(loaded.config, f"ctr-samples {loaded.config.name}", console) as (spark, progress):
        from ctr_samples.job.foreseen import foreseen

        for day in days:
            progress.stage(f"looking at {day}")
            one = foreseen(spark, loaded, day, progress)
            took = "not known" if one.seconds is None else span(one.seconds)
            counts = (str(len(one.taken)), str(len(one.made)), ", ".join(one.joined))
            table.add_row(str(day), one.what, *counts, format_size(one.reads), took)
            if one.why:
                told[f"Nothing is read back: {one.why}."] = None
            else:
                told |= {f"features.{name} is made: {', '.join(why)}.": None for name, why in one.made.items()}
            told |= {f"features.{name} is left out.": None for name in one.dropped}
    stdout_console().print(table)
    for sentence in told:
        say(loaded.masked(sentence))


def config_command(
    context: typer.Context,
    config: Annotated[Path | None, typer.Option("--config", "-c", help="The YAML file of the sample set.")] = None,
    date: Annotated[
        str | None, typer.Option("--date", "-d", help="Also list the days that a run on this date reads.")
    ] = None,
    set_: Overrides = None,
    explain_: Annotated[
        bool, typer.Option("--explain", help="Describe what a run would do, and what a day of its size needs.")
    ] = False,
    impressions: Annotated[
        int | None,
        typer.Option(min=1, help="With --explain: the size of the day, else that of the last one published."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Also compare it with the schemas of the inputs; reads no rows.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Check a configuration file; with --check against its inputs, and with --explain print its plan."""
    if context.invoked_subcommand is not None:
        return
    with errors_in_words(debug) as console:
        if config is None:
            raise UsageError("Give the file to check as `--config FILE`, or two to compare: `config diff OLD NEW`.")
        run_date = period_or_none(date)
        loaded = load_config(config, set_ or ())
        loaded.refuse_secrets()
        if check:
            _check_inputs(loaded, run_date, console)
        if not explain_:
            what = (
                "fits its inputs" if check else "is valid by itself; `--check` also looks at its expressions and inputs"
            )
            say(f"{config} {what}.")
            return
        if merged := loaded.text_with_origins():
            say(f"{merged}\n")
        say(loaded.masked(explain(loaded.config, run_date)))
        if loaded.config.views:
            from ctr_samples.samples.views.as_of.planning import described, plan_joins
            from ctr_samples.samples.views.joiner import declared_facts

            say("\nThe views are joined in these steps; a run broadcasts small ones instead, once it knows their size")
            steps = plan_joins(declared_facts(loaded.config))
            say(loaded.masked("\n".join(f"  {line}" for line in described(steps))))
        _say_needs(loaded, impressions)


def config_diff(
    old: Annotated[Path, typer.Argument(help="The older YAML file.")],
    new: Annotated[Path, typer.Argument(help="The newer one.")],
    debug: Debug = False,
) -> None:
    """Say which labels, features and other parts of the samples differ between two configuration files.

    `generate --dry-run` says for each day what a run would read back, join and make, and what that costs.
    """
    with errors_in_words(debug):
        from ctr_samples.job.foreseen import changes

        say("\n".join(changes(load_config(old), load_config(new))) or "All parts of the samples are the same.")


def _say_needs(loaded: LoadedConfig, impressions: int | None) -> None:
    """Print what a day needs, from the last day published if it can be read."""
    from ctr_samples.job.sizing import described, last_size

    last = None
    with suppress(StorageError):  # to describe a configuration needs no access to its output
        last = last_size(opened(loaded.config.output.path))
    say("\n" + loaded.masked("\n".join(described(loaded.config, last, impressions))))


def _check_inputs(loaded: LoadedConfig, run_date: Period | None, console: Console) -> None:
    """Raise ConfigError if the inputs do not match the configuration, with one line per mismatch."""
    with spark_for(loaded.config, f"ctr-samples config {loaded.config.name}", console) as (spark, progress):
        from ctr_samples.job.checking import problems

        progress.stage("reading the schemas of the inputs")
        found = problems(spark, loaded, run_date)
    if found:
        raise ConfigError("\n".join(found))
