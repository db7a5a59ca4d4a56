"""Commands for output directories on any storage: verify, show, paths, history, clean, rollback."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich import box
from rich.measure import Measurement
from rich.table import Column, Table
from rich.text import Text

from ctr_samples.cli.messages import Debug, errors_in_words
from ctr_samples.cli.terminal import say, stdout_console, visible
from ctr_samples.config.units import format_size, parse_duration
from ctr_samples.errors import DamagedFile, InputError, UsageError
from ctr_samples.job.progress import bytes_progress
from ctr_samples.periods import Period, parse_period

if TYPE_CHECKING:
    from ctr_samples.records.foreign import ForeignRecords
    from ctr_samples.shards import Manifest, Storage

T = TypeVar("T")

OutputPath = Annotated[str, typer.Argument(help="The output directory of a sample set, or a table.")]
RecordsPath = Annotated[
    str,
    typer.Argument(
        metavar="PATH", help="The output directory of a sample set, a table, or any TFRecord file, directory or glob."
    ),
]
LatestDay = Annotated[str | None, typer.Option("--date", "-d", help="A day; default: the latest published day.")]
EveryDay = Annotated[str | None, typer.Option("--date", "-d", help="A day; default: all published days.")]
DayArgument = Annotated[str | None, typer.Argument(metavar="[DAY]", help="The same as `--date`.", show_default=False)]
SplitName = Annotated[str | None, typer.Option("--split", help="train or eval; default: all.")]

_WIDEST = 1_000_000
"""Console width that exceeds any table, used to measure the natural width of a table."""

_MOST_LINES = 1000
"""Maximum number of features in a table, since the layout of a larger table takes minutes."""

_LONGEST = 1000
"""Maximum number of displayed characters of a text, enough for any id."""


def verify(output: RecordsPath, day: DayArgument = None, date: LatestDay = None, debug: Debug = False) -> None:
    """Check every byte of a day against the manifest, and the manifest against itself: sizes, checksums, counts.

    Of TFRecord files without a manifest, the checksums of every record.
    """
    with errors_in_words(debug) as console:
        storage, published = open_records(output, one_day(day, date))
        from ctr_samples.records.foreign import ForeignRecords
        from ctr_samples.records.read import damage_of

        size = sum(shard.bytes for shard in published.shards)
        foreign = isinstance(published, ForeignRecords)
        with bytes_progress(console, "verifying", size) as advance:
            if foreign:
                published = published.verified(advance)
                damage = published.damage
            else:
                damage = list(damage_of(storage, published.shards, advance))
        if damage:
            raise DamagedFile("\n".join(damage))
        records = sum(shard.records for shard in published.shards)
        files = f"{len(published.shards):,} {'file' if foreign else 'shard'}(s)"
        console.print(
            Text.assemble(
                ("Intact", "green"),
                f": {published.title}: {files}, {records:,} records, {size:,} bytes.",
            )
        )
        if foreign:
            console.print("No manifest lists these files, so a file that is missing cannot be noticed.")
        elif not published.sealed:
            console.print(
                "The manifest has no checksum of its own because an older release wrote it; the shards match it."
            )


def show(
    output: RecordsPath,
    day: DayArgument = None,
    date: LatestDay = None,
    split: SplitName = None,
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=10_000, help="How many examples.")] = 5,
    debug: Debug = False,
) -> None:
    """Show the first examples: as a table with a column for each, or one below the other if that is too wide."""
    with errors_in_words(debug) as console:
        storage, published = open_records(output, one_day(day, date))
        from ctr_samples.contract import ExampleContract
        from ctr_samples.records.foreign import ForeignRecords
        from ctr_samples.records.read import first_examples

        shards = published.of_split(split)
        if isinstance(published, ForeignRecords):
            rows = published.first_examples(count)
        else:
            rows = first_examples(storage, shards, ExampleContract.from_dict(dict(published.contract)), count)
        if rows:
            print_examples(rows)
        else:
            console.print(
                f"{visible(published.title)} has no records{f' of {split}' if split else ''}.", soft_wrap=True
            )


def print_examples(rows: list[dict[str, Any]], sources: Mapping[str, str] = MappingProxyType({})) -> None:
    """Print examples as a table with a row per feature, or one below the other if the table is too wide.

    ``sources`` maps features to the origins of their values.
    """
    console = stdout_console()
    if not any(rows):
        console.print(f"{len(rows):,} record(s) without a feature.")
        return
    if len(rows[0]) <= _MOST_LINES:
        table = _examples_table(rows, sources)
        if Measurement.get(console, console.options.update_width(_WIDEST), table).maximum <= console.width:
            console.print(table)
            return
    for text in _examples_below_each_other(rows, sources):
        console.print(text, soft_wrap=True)


def paths(
    output: RecordsPath, day: DayArgument = None, date: LatestDay = None, split: SplitName = None, debug: Debug = False
) -> None:
    """Print the paths of a day's shards, one per line, for any reader."""
    with errors_in_words(debug):
        storage, published = open_records(output, one_day(day, date))
        for shard in published.of_split(split):
            say(storage.locate(shard.path))


def history(output: OutputPath, day: DayArgument = None, date: LatestDay = None, debug: Debug = False) -> None:
    """List the generations of a day, or of a table, oldest first."""
    with errors_in_words(debug):
        from ctr_samples.shards.generation_history import generations_of

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for title in ("generation", "published", "run"):
            table.add_column(title, no_wrap=True)
        for title in ("records", "shards", "size"):
            table.add_column(title, justify="right", no_wrap=True)
        table.add_column("", no_wrap=True)
        for row in generations_of(opened(output), period_or_none(one_day(day, date))):
            records, shards = ("" if count is None else f"{count:,}" for count in (row.records, row.shards))
            size = format_size(row.bytes) if row.bytes is not None else ""
            table.add_row(str(row.generation), row.published, row.run_id, records, shards, size, row.note)
        stdout_console().print(table)


def clean(
    output: OutputPath,
    day: DayArgument = None,
    date: EveryDay = None,
    keep: Annotated[int, typer.Option("--keep", min=1, help="How many generations of a day to keep.")] = 3,
    longest_run: Annotated[
        str, typer.Option("--longest-run", help="Keep everything younger; set it longer than any run or training job.")
    ] = "24h",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be removed.")] = False,
    debug: Debug = False,
) -> None:
    """Remove the leftovers of killed runs and the shards of generations replaced long ago. Manifests stay.

    A damaged day is told and left as it is, the others are cleaned, and the command ends with an error.
    """
    with errors_in_words(debug) as console:
        from ctr_samples.shards.clean import Retention, carry_out, cleanups_of

        storage = opened(output)
        try:
            retention = Retention(keep, parse_duration(longest_run))
        except ValueError as error:
            raise UsageError(f"--longest-run is {longest_run!r}; {error}.") from None
        count = freed = damaged = 0
        for cleanup in cleanups_of(storage, period_or_none(one_day(day, date)), retention):
            if cleanup.damage:
                damaged += 1
                console.print(f"warning: {cleanup.damage}", markup=False, soft_wrap=True)
            for path in (*cleanup.directories, *cleanup.files):
                say(storage.locate(path))
            if not dry_run:
                carry_out(storage, cleanup)
            count += len(cleanup.directories) + len(cleanup.files)
            freed += cleanup.bytes
        verb = "Would remove" if dry_run else "Removed"
        console.print(f"{verb} {count:,} run(s) and file(s), {format_size(freed)}.")
        if damaged:
            raise DamagedFile(
                f"{damaged:,} day(s) of {storage.url} were left as they are; mend what is told above and run the command again."
            )


def rollback(
    output: OutputPath,
    to: Annotated[int, typer.Option("--to", min=1, help="The generation to go back to, as `history` lists it.")],
    day: DayArgument = None,
    date: Annotated[str | None, typer.Option("--date", "-d", help="The day, as in 2019-11-26.")] = None,
    debug: Debug = False,
) -> None:
    """Publish an earlier generation of a day as its next one. Prints the path of the manifest; nothing is removed."""
    with errors_in_words(debug) as console:
        from ctr_samples.shards.generation_history import rollback as publish_earlier
        from ctr_samples.shards.naming import manifest_path

        if (wanted := one_day(day, date)) is None:
            raise UsageError("Give the day to roll back, as in `--date 2019-11-26`.")
        storage = opened(output)
        made = publish_earlier(storage, parse_period(wanted), to, datetime.now(UTC), secrets.token_hex(4))
        console.print(
            f"Published generation {made.generation} of {made.run_date} with the samples of generation {to}: "
            f"{len(made.shards):,} shard(s), {made.records:,} records.",
            soft_wrap=True,
        )
        typer.echo(storage.locate(manifest_path(made.day, made.generation)))


def open_records(path: str, date: str | None) -> tuple[Any, Any]:
    """Open the samples published at a path, or else its files without a manifest. Raise InputError if there are none."""
    from ctr_samples.records.foreign import ForeignRecords
    from ctr_samples.shards.published import find

    def published() -> tuple[Any, Any]:
        storage = opened(path)
        return storage, find(storage, period_or_none(date))

    found = published() if date is not None else published_or_foreign(path, published)
    return (found.storage, found) if isinstance(found, ForeignRecords) else found


def published_or_foreign(path: str, published: Callable[[], T]) -> T | ForeignRecords:
    """Return the ``published`` samples at a path, or the files there if it has no manifest.

    Raises InputError if the path has neither.
    """
    from ctr_samples.records.foreign import find_foreign
    from ctr_samples.records.paths import existing_place

    if existing_place(path).pattern is None:
        try:
            return published()
        except InputError:
            if (foreign := find_foreign(path)) is None:
                raise
    elif (foreign := find_foreign(path)) is None:
        raise InputError(f"{visible(path)} matches no file; expected TFRecord files.")
    return foreign


def one_day(argument: str | None, option: str | None) -> str | None:
    """Return the day from an argument or ``--date``. Raise UsageError if they differ."""
    if argument is not None and option is not None and argument != option:
        raise UsageError(f"Two days are given, {argument} and `--date {option}`; give one of them.")
    return option if argument is None else argument


def period_or_none(text: str | None) -> Period | None:
    """Return the day, hour or whole log that an option names, or None without the option."""
    return None if text is None else parse_period(text)


def opened(path: str) -> Storage:
    """Open an output directory or another one. Storages take long to import, so only a command that needs one does it."""
    from ctr_samples.shards import open_storage

    return open_storage(path)


def chosen(output: str, day: str | None, generation: int | None = None) -> tuple[Storage, Manifest]:
    """Open a sample set and load a generation of a day. The default is the newest generation of the last day."""
    from ctr_samples.shards.published import chosen_manifest

    storage = opened(output)
    return storage, chosen_manifest(storage, period_or_none(day), generation)


def _examples_table(rows: list[dict[str, Any]], sources: Mapping[str, str]) -> Table:
    table = Table(Column("feature", no_wrap=True), *(["from"] if sources else []), *[f"#{i}" for i in range(len(rows))])
    for name in rows[0] if rows else ():
        source = [visible(sources.get(name, ""))] if sources else []
        table.add_row(visible(name), *source, *[_cell(row[name]) for row in rows])
    return table


def _examples_below_each_other(rows: list[dict[str, Any]], sources: Mapping[str, str]) -> Iterator[Text]:
    """Format each example as a block with one line per value, regardless of width."""
    for i, row in enumerate(rows):
        width = max(map(len, row), default=0)
        given = {name: f"  ({visible(sources[name])})" for name in row if sources.get(name)}
        lines = (f"  {visible(name):<{width}}  {_cell(value)}{given.get(name, '')}" for name, value in row.items())
        yield Text.assemble((f"#{i}", "bold"), "\n", "\n".join(lines))


def _cell(value: Any) -> str:
    if isinstance(value, list):
        first = ", ".join(_cell(item) for item in value[:4])
        return f"[{first}, … {len(value)} values]" if len(value) > 4 else f"[{first}]"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, bytes):
        return _text(value)
    return "null" if value is None else visible(str(value))


def _text(value: bytes) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        start = value[:16].hex(" ")
        return f"{len(value):,} bytes: {start} …" if len(value) > 16 else f"{len(value):,} bytes: {start}"
    return visible(text) if len(text) <= _LONGEST else f"{visible(text[:_LONGEST])} … {len(text):,} characters"
