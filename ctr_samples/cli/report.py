"""Commands for reports on published samples: report, compare and flips. They do not use Spark."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from ctr_samples.cli.messages import Debug, errors_in_words
from ctr_samples.cli.outputs import DayArgument, LatestDay, RecordsPath, chosen, one_day, opened, published_or_foreign
from ctr_samples.cli.terminal import say, stdout_console
from ctr_samples.errors import InputError, UsageError

if TYPE_CHECKING:
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
    with errors_in_words(debug) as console:
        if open_ + metrics + prometheus > 1:
            raise UsageError("--open, --metrics and --prometheus are mutually exclusive; give only one.")
        from ctr_samples.records.foreign import ForeignRecords

        date = one_day(day, date)
        of_a_day = date is not None or generation is not None
        if prometheus and not of_a_day:
            from ctr_samples.job.published import for_prometheus

            typer.echo(for_prometheus(opened(output)), nl=False)
            return
        if metrics or prometheus:
            from ctr_samples.job.published import metrics_of, metrics_text
            from ctr_samples.quality.prometheus import prometheus_text

            of_day = chosen(output, date, generation)
            say(metrics_text(*of_day) if metrics else prometheus_text(metrics_of(*of_day)), end="")
            return
        from ctr_samples.shards.published import refused_after

        found: tuple[Storage, Manifest] | ForeignRecords = (
            chosen(output, date, generation) if of_a_day else published_or_foreign(output, lambda: chosen(output, None))
        )
        if isinstance(found, ForeignRecords):
            page = _write_page_about(found, file, console, every=every)
            say(page)
        elif every:
            raise UsageError(f"--all is for files without a manifest; the report of {output} is of all samples.")
        else:
            page = _page_of_day(*found, file)
            say(page)
            for later, refused in () if generation is not None else refused_after(*found, of_its_day=date is not None):
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
    with errors_in_words(debug):
        from ctr_samples.job.day_status import write_page
        from ctr_samples.job.published import compared, metrics_of

        both = [*(days or ()), *(dates or ())]
        if len(both) != 2:
            raise UsageError(f"Give two days to compare, as in `2019-11-25 2019-11-26`; found {len(both)}.")
        day_a, day_b = both
        storage, a = chosen(output, day_a, generation_a)
        _, b = chosen(output, day_b, generation_b)
        if (a.day, a.generation) == (b.day, b.generation):
            raise UsageError(
                f"Both are generation {a.generation} of {a.run_date}; expected two different ones. Give another day, or "
                "--generation-a."
            )
        page = compared(metrics_of(storage, a), storage, b)
        name = f"_compare-{a.run_date}-g{a.generation}-{b.run_date}-g{b.generation}.html"
        say(write_page(storage, page, name) if file is None else written(file, page))


def flips(
    output: SampleSet,
    day: Annotated[str, typer.Argument(metavar="DAY", help="The day or hour.")],
    before: Annotated[
        int | None, typer.Option(min=1, help="The earlier generation; default: the one before the newest.")
    ] = None,
    generation: Annotated[int | None, typer.Option(min=1, help="The later one; default: the newest.")] = None,
    debug: Debug = False,
) -> None:
    """Count the labels of a day that changed between two generations: late positives, and positives that are gone."""
    with errors_in_words(debug):
        from ctr_samples.contract import ExampleContract
        from ctr_samples.job.manifest_facts import flips_since

        storage, now = chosen(output, day, generation)
        _, then = chosen(output, day, before or max(1, now.generation - 1))
        if then.generation == now.generation:
            raise UsageError(
                f"{day} has only generation {now.generation}; expected two to compare. A run after the label windows have "
                "closed publishes another one."
            )
        found = flips_since(then, storage, now.shards, ExampleContract.from_dict(dict(now.contract)))
        if not found:
            raise InputError(f"Generations {then.generation} and {now.generation} of {day} have different labels.")
        names = ["to 1", "to 0", "other value", "new samples", "samples gone"]
        table = Table("label", *names, box=None, header_style="dim")
        for name, counts in found.items():
            if "not_compared" in counts:
                raise InputError(f"{day} cannot be compared: {counts['not_compared']}")
            keys = ("flipped_to_1", "flipped_to_0", "changed", "new", "gone")
            table.add_row(name, *("" if counts.get(key) is None else f"{counts[key]:,}" for key in keys))
        stdout_console().print(table)


def _page_of_day(storage: Storage, manifest: Manifest, file: Path | None) -> str:
    """Return the address of a run's report, or of a copy written to ``file``."""
    from ctr_samples.shards.naming import REPORT
    from ctr_samples.shards.published import address_of, file_of_run

    page = address_of(storage, manifest, REPORT)
    if file is None:
        return page
    return written(file, storage.read(file_of_run(manifest.day, manifest.made_by, REPORT)).decode())


def _write_page_about(foreign: ForeignRecords, file: Path | None, console: Console, *, every: bool) -> str:
    """Write a report on files without a manifest and return its path. Reads every byte."""
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
    """Write a page to a file and return its path. Raise UsageError if writing fails."""
    try:
        file.write_text(page, "utf-8")
    except OSError as error:
        raise UsageError(f"Cannot write {file}: {error.strerror}. Give another --output.") from None
    return str(file)


def open_page(console: Console, page: str) -> None:
    """Open a page in a browser. Raise UsageError unless it is a local file."""
    if not Path(page).is_file():
        raise UsageError(f"--open needs a local file; {page} is not one. Copy it here, then open it.")
    if not webbrowser.open(Path(page).absolute().as_uri()):
        console.print("No browser could be opened here; open the file above yourself.")
