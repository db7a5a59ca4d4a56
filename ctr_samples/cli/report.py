"""Commands that show the measurements of published samples: report and compare. No Spark."""

from __future__ import annotations

import webbrowser
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from ctr_samples.cli.messages import Debug, errors_in_words
from ctr_samples.cli.outputs import DayArgument, LatestDay, RecordsPath, one_day, published_or_foreign
from ctr_samples.errors import DamagedFile, InputError, UsageError
from ctr_samples.terminal import say, stderr_console

if TYPE_CHECKING:
    from ctr_samples.periods import Period
    from ctr_samples.quality.metrics import Metrics
    from ctr_samples.records.foreign import ForeignRecords
    from ctr_samples.shards import Manifest, Storage

SampleSet = Annotated[str, typer.Argument(help="The output directory of a sample set.")]
PageFile = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write the report to this file; of a day, a copy.")
]
GenerationNumber = Annotated[int | None, typer.Option("--generation", min=1, help="Default: the one that readers see.")]


def report(
    output: RecordsPath,
    day: DayArgument = None,
    date: LatestDay = None,
    generation: GenerationNumber = None,
    file: PageFile = None,
    every: Annotated[
        bool, typer.Option("--all", help="Of files without a manifest, measure all records, not a sample.")
    ] = False,
    open_: Annotated[bool, typer.Option("--open", help="Open it in a browser.")] = False,
    metrics: Annotated[bool, typer.Option("--metrics", help="Print metrics.json instead.")] = False,
    prometheus: Annotated[bool, typer.Option("--prometheus", help="Print the metrics for Prometheus.")] = False,
    debug: Debug = False,
) -> None:
    """Print the path of a day's report, by default of the last published day. Also names later runs that were refused.

    Of TFRecord files without a manifest, write a report to --output: their damage, their sizes, and their features, which
    are measured of a sample of the records.
    """
    console = stderr_console()
    with errors_in_words(console, debug):
        if open_ + metrics + prometheus > 1:
            raise UsageError("--open, --metrics and --prometheus are mutually exclusive; give only one.")
        from ctr_samples.records.foreign import ForeignRecords

        date = one_day(day, date)
        of_a_day = date is not None or generation is not None
        if prometheus and not of_a_day:
            typer.echo(for_prometheus(output), nl=False)
            return
        if metrics or prometheus:
            from ctr_samples.quality.prometheus import prometheus_text

            of_day = _manifest(output, date, generation)
            say(_metrics_text(*of_day) if metrics else prometheus_text(_metrics(*of_day)), end="")
            return
        found: tuple[Storage, Manifest] | ForeignRecords = (
            _manifest(output, date, generation)
            if of_a_day
            else published_or_foreign(output, lambda: _manifest(output, None, None))
        )
        if isinstance(found, ForeignRecords):
            page = _write_page_about(found, file, console, every=every)
            say(page)
        elif every:
            raise UsageError(f"--all is for files without a manifest; the report of {output} is of all samples.")
        else:
            page = _page_of_day(*found, file)
            say(page)
            for later, refused in () if generation is not None else _later(*found, of_its_day=date is not None):
                console.print(f"A later run of {later} was not published; its report is {refused}", soft_wrap=True)
        if open_:
            open_page(console, page)


def compare(
    output: SampleSet,
    days: Annotated[
        list[str] | None,
        typer.Argument(metavar="DAY_A DAY_B", help="The day to compare with, and the day it is about."),
    ] = None,
    dates: Annotated[
        list[str] | None, typer.Option("--date", "-d", help="Instead of an argument; twice, in the same order.")
    ] = None,
    generation_a: Annotated[int | None, typer.Option("--generation-a", min=1, help="The generation of DAY_A.")] = None,
    generation_b: Annotated[int | None, typer.Option("--generation-b", min=1, help="The generation of DAY_B.")] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Where to write it; default: a file in the sample set, named after both days."
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """Write a report on DAY_B compared with DAY_A; both may be generations of the same day. Prints its path."""
    with errors_in_words(stderr_console(), debug):
        from ctr_samples.job.trends import write_page

        both = [*(days or ()), *(dates or ())]
        if len(both) != 2:
            raise UsageError(f"Give two days to compare, as in `2019-11-25 2019-11-26`; found {len(both)}.")
        day_a, day_b = both
        storage, a = _manifest(output, day_a, generation_a)
        _, b = _manifest(output, day_b, generation_b)
        if (a.day, a.generation) == (b.day, b.generation):
            raise UsageError(
                f"Both are generation {a.generation} of {a.run_date}; expected two different ones. Give another day, or "
                "--generation-a."
            )
        page = _compared(_metrics(storage, a), storage, b)
        name = f"_compare-{a.run_date}-g{a.generation}-{b.run_date}-g{b.generation}.html"
        say(write_page(storage, page, name) if file is None else written(file, page))


def _page_of_day(storage: Storage, manifest: Manifest, file: Path | None) -> str:
    """Address of the report that a run wrote, or of its copy in a file."""
    from ctr_samples.shards.naming import REPORT

    page = _address_of(storage, manifest, REPORT)
    if file is None:
        return page
    return written(file, storage.read(_path(manifest.day, manifest.made_by, REPORT)).decode())


def _write_page_about(foreign: ForeignRecords, file: Path | None, console: Console, *, every: bool) -> str:
    """Write the report of files without a manifest, and return its path. Reads every byte."""
    from ctr_samples.cli.infer import page_about
    from ctr_samples.job.progress import bytes_progress
    from ctr_samples.records.foreign import SAMPLE

    if file is None:
        raise InputError(
            f"{foreign.title} holds no published day; expected an output directory of `ctr-samples generate`, or TFRecord "
            "files and where to write a report of them, as in --output report.html."
        )
    with bytes_progress(console, "verifying", sum(shard.bytes for shard in foreign.shards)) as advance:
        checked = foreign.verified(advance)
    if checked.damage:
        console.print(f"{len(checked.damage):,} of {len(checked.shards):,} file(s) are damaged; the report names them.")
    return written(file, page_about(checked, None if every else SAMPLE))


def written(file: Path, page: str) -> str:
    """Write a page to a file, and return its path; UsageError if that fails."""
    try:
        file.write_text(page, "utf-8")
    except OSError as error:
        raise UsageError(f"Cannot write {file}: {error.strerror}. Give another --output.") from None
    return str(file)


def for_prometheus(output: str) -> str:
    """Return the metrics of the last published day, and the newest refused day.

    The refused day is later than the published one, or any if none is published.
    """
    from ctr_samples.quality.prometheus import prometheus_text, refused_text
    from ctr_samples.shards import open_storage, published_days

    storage = open_storage(output)
    if not published_days(storage) and (days := _last_refused_day(storage)):
        return refused_text(_name_of_refused(storage, days[-1]), days[-1])
    storage, manifest = _manifest(output, None, None)
    refused = [day for day, _ in _later(storage, manifest, of_its_day=False)]
    return prometheus_text(_metrics(storage, manifest)) + (refused_text(manifest.name, refused[-1]) if refused else "")


def _name_of_refused(storage: Storage, day: Period) -> str:
    """Sample set of the newest refused run; empty if its metrics cannot be read."""
    from ctr_samples.job.gate import metrics_of_run
    from ctr_samples.shards.published import refused_run

    try:
        return metrics_of_run(storage, day, refused_run(storage, day, "") or "").name
    except (FileNotFoundError, DamagedFile):
        return ""


def _compared(a: Metrics, storage: Storage, manifest: Manifest) -> str:
    """Page about a manifest, compared with ``a``; its own run may have compared it with another day."""
    from ctr_samples.quality.drift import drifts
    from ctr_samples.quality.report import render

    b = _metrics(storage, manifest)
    same_day = a.run_date == b.run_date
    names = [f"generation {day.generation}" if same_day else day.run_date for day in (a, b)]
    title = f"{b.name} {b.run_date + ', ' if same_day else ''}{names[1]} compared with {names[0]}"
    return render(replace(b, drift=drifts(b, a)), manifest, a, title=title)


def _manifest(output: str, day: str | None, generation: int | None) -> tuple[Storage, Manifest]:
    """Manifest of a generation; if it does not exist, InputError names those that do."""
    from ctr_samples.periods import parse_period
    from ctr_samples.shards import latest_manifest, open_storage, published_days, read_manifest, require_manifest
    from ctr_samples.shards.generations import numbers
    from ctr_samples.shards.naming import manifests_directory

    storage = open_storage(output)
    days = [parse_period(day)] if day is not None else published_days(storage) or _last_refused_day(storage)
    if not days:
        raise InputError(
            f"{storage.url} holds no published day; expected an output directory of `ctr-samples generate`."
        )
    wanted = days[-1]
    if generation is not None and (existing := numbers(storage, manifests_directory(wanted))):
        if generation not in existing:
            choice = "only generation 1" if existing == [1] else f"generations {existing[0]} to {existing[-1]}"
            raise InputError(f"There is no generation {generation} of {wanted} in {storage.url}; it has {choice}.")
        return storage, read_manifest(storage, wanted, generation)
    newest = latest_manifest(storage, wanted)
    if newest is None and (refused := _unpublished(storage, wanted, "")):
        raise InputError(f"{storage.url} has no samples of {wanted}: a run was not published; its report is {refused}")
    return storage, newest or require_manifest(storage, wanted)


def _address_of(storage: Storage, manifest: Manifest, name: str) -> str:
    """Address of a file of a run; InputError if it does not exist."""
    path = _path(manifest.day, manifest.made_by, name)
    try:
        storage.size(path)
    except FileNotFoundError:
        raise _absent(storage, manifest, name) from None
    return storage.locate(path)


def _metrics_text(storage: Storage, manifest: Manifest) -> str:
    """Raw ``metrics.json``, whatever its format."""
    from ctr_samples.shards.naming import METRICS

    path = _path(manifest.day, manifest.made_by, METRICS)
    try:
        return storage.read(path).decode()
    except FileNotFoundError:
        raise _absent(storage, manifest, METRICS) from None
    except UnicodeDecodeError:
        raise DamagedFile(f"{storage.locate(path)} is not text; run the day again with --force.") from None


def _metrics(storage: Storage, manifest: Manifest) -> Metrics:
    from ctr_samples.job.gate import read_metrics
    from ctr_samples.shards.naming import METRICS

    try:
        return read_metrics(storage, manifest)
    except FileNotFoundError:
        raise _absent(storage, manifest, METRICS) from None


def _absent(storage: Storage, manifest: Manifest, name: str) -> InputError:
    address = storage.locate(_path(manifest.day, manifest.made_by, name))
    return InputError(
        f"Generation {manifest.generation} of {manifest.run_date} has no {name} ({address}): it was removed, or the release "
        "that wrote the day did not make one. Run the day again with --force."
    )


def _path(day: Period, run_id: str, name: str) -> str:
    from ctr_samples.shards.naming import run_directory

    return f"{run_directory(day, run_id)}/{name}"


def _last_refused_day(storage: Storage) -> list[Period]:
    """Newest day with a refused run, if any."""
    from ctr_samples.shards import days_of

    return next(([day] for day in reversed(days_of(storage)) if _unpublished(storage, day, "")), [])


def _later(storage: Storage, manifest: Manifest, *, of_its_day: bool) -> Iterator[tuple[Period, str]]:
    """Days and reports of later runs that the gate refused."""
    from ctr_samples.shards import days_of

    for day in [manifest.day] if of_its_day else [day for day in days_of(storage) if str(day) >= str(manifest.day)]:
        if refused := _unpublished(storage, day, manifest.run_id if day == manifest.day else ""):
            yield day, refused


def _unpublished(storage: Storage, day: Period, after: str) -> str | None:
    """Report of the newest run that began after ``after`` and has one: a refused run."""
    from ctr_samples.shards.naming import REPORT
    from ctr_samples.shards.published import refused_run

    run = refused_run(storage, day, after)
    return run and storage.locate(_path(day, run, REPORT))


def open_page(console: Console, page: str) -> None:
    """Open a page in a browser; UsageError unless it is a local file."""
    if not Path(page).is_file():
        raise UsageError(f"--open needs a local file; {page} is not one. Copy it here, then open it.")
    if not webbrowser.open(Path(page).absolute().as_uri()):
        console.print("No browser could be opened here; open the file above yourself.")
