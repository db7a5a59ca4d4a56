"""The command line. Each command imports what it needs, so that ``ctr-samples --help`` starts no Spark and no TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table

from ctr_samples.config import explain, load_config
from ctr_samples.errors import CtrSamplesError, DamagedFile, InputError
from ctr_samples.progress import RunProgress, bytes_progress, stderr_console

app = typer.Typer(
    help="Training-ready TFRecord shards from impression and click logs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

ConfigPath = Annotated[Path, typer.Option("--config", "-c", help="The YAML file of the sample set.")]
Overrides = Annotated[list[str] | None, typer.Option("--set", help="Change one key, as in output.path=/tmp/x.")]
Day = Annotated[str, typer.Option("--date", "-d", help="The run date, as in 2019-11-26.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the stack trace of an error.")]
OutputPath = Annotated[str, typer.Argument(help="The output directory of a sample set.")]
LatestDay = Annotated[str | None, typer.Option("--date", "-d", help="A day; default: the latest that is published.")]
SplitName = Annotated[str | None, typer.Option("--split", help="train or eval; default: all.")]


@app.command()
def generate(
    config: ConfigPath,
    date: Day,
    set_: Overrides = None,
    force: Annotated[bool, typer.Option("--force", help="Run even if the same is already published.")] = False,
    debug: Debug = False,
) -> None:
    """Make and publish the samples of one day. Prints the path of the manifest."""
    console = stderr_console()
    with errors_in_words(console, debug):
        run_date = _parse_day(date)
        loaded = load_config(config, set_ or ())
        with RunProgress(console) as progress:
            from ctr_samples import pipeline
            from ctr_samples.spark.session import session_of_command

            tables = any(source.format == "table" for source in loaded.config.sources.values())
            with session_of_command(f"ctr-samples {loaded.config.name} {run_date}", hive=tables) as spark:
                progress.follow(spark)
                result = pipeline.run(spark, loaded, run_date, force=force, reporter=progress)

        from ctr_samples.shards import open_storage
        from ctr_samples.shards.naming import manifest_path
        from ctr_samples.summary import run_summary

        storage = open_storage(loaded.config.output.path)
        console.print(run_summary(result.manifest, storage, published=result.published), soft_wrap=True)
        typer.echo(storage.locate(manifest_path(run_date, result.manifest.generation)))


@app.command(name="config")
def config_command(
    config: ConfigPath,
    date: Annotated[str | None, typer.Option("--date", "-d", help="Name the days that this run date reads.")] = None,
    set_: Overrides = None,
    explain_: Annotated[bool, typer.Option("--explain", help="Say in words what a run would do.")] = False,
    debug: Debug = False,
) -> None:
    """Check a configuration file; with --explain, print its plan."""
    with errors_in_words(stderr_console(), debug):
        run_date = _parse_day(date) if date is not None else None
        loaded = load_config(config, set_ or ())
        typer.echo(explain(loaded.config, run_date) if explain_ else f"{config} is valid.")


@app.command()
def verify(output: OutputPath, date: LatestDay = None, debug: Debug = False) -> None:
    """Read every byte of a day and compare it with the manifest: sizes, checksums, record counts."""
    console = stderr_console()
    with errors_in_words(console, debug):
        storage, manifest = _open(output, date)
        from ctr_samples.reading import damage_of

        with bytes_progress(console, "verifying", manifest.bytes) as advance:
            found = list(damage_of(storage, manifest, advance))
        if found:
            raise DamagedFile("\n".join(found))
        console.print(
            f"[green]Intact[/green]: {manifest.name} {manifest.run_date}, generation {manifest.generation}: "
            f"{len(manifest.shards):,} shard(s), {manifest.records:,} records, {manifest.bytes:,} bytes."
        )


@app.command()
def show(
    output: OutputPath,
    date: LatestDay = None,
    split: SplitName = None,
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=10_000, help="How many examples.")] = 5,
    debug: Debug = False,
) -> None:
    """Show the first examples as a table, one column for each example."""
    with errors_in_words(stderr_console(), debug):
        storage, manifest = _open(output, date)
        from ctr_samples.reading import first_examples

        rows = first_examples(storage, manifest, _known_split(manifest, split), count)
        Console(highlight=False).print(_examples_table(rows))


@app.command()
def paths(output: OutputPath, date: LatestDay = None, split: SplitName = None, debug: Debug = False) -> None:
    """Print the shards of a day, one path on each line, for any reader."""
    with errors_in_words(stderr_console(), debug):
        storage, manifest = _open(output, date)
        for shard in manifest.of_split(_known_split(manifest, split)):
            typer.echo(storage.locate(shard.path))


def _open(output: str, date: str | None) -> tuple[Any, Any]:
    from ctr_samples.shards import open_storage, published_days, require_manifest

    storage = open_storage(output)
    if date is not None:
        return storage, require_manifest(storage, _parse_day(date))
    days = published_days(storage)
    if not days:
        raise InputError(
            f"{output} holds no published samples; expected an output directory of `ctr-samples generate`."
        )
    return storage, require_manifest(storage, days[-1])


def _known_split(manifest: Any, split: str | None) -> str | None:
    if split is not None and split not in manifest.splits:
        raise InputError(f"There is no split {split!r} on {manifest.run_date}; there is {', '.join(manifest.splits)}.")
    return split


def _examples_table(rows: list[dict[str, Any]]) -> Table:
    table = Table(Column("feature", no_wrap=True), *[f"#{i}" for i in range(len(rows))])
    for name in rows[0] if rows else ():
        table.add_row(name, *[_cell(row[name]) for row in rows])
    return table


def _cell(value: Any) -> str:
    if isinstance(value, list):
        shown = ", ".join(_cell(item) for item in value[:4])
        return f"[{shown}, … {len(value)} values]" if len(value) > 4 else f"[{shown}]"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, bytes):
        return value[:40].decode("utf-8", "replace")
    return "" if value is None else str(value)


def _parse_day(text: str) -> Any:
    from ctr_samples.shards.naming import parse_day

    return parse_day(text)


@contextmanager
def errors_in_words(console: Console, debug: bool) -> Iterator[None]:
    """An expected error becomes its sentence and its exit code; any other one says how to see more."""
    try:
        yield
    except CtrSamplesError as error:
        if debug:
            raise
        console.print("[bold red]error:[/bold red]", end=" ")
        console.print(str(error), markup=False, soft_wrap=True)
        raise typer.Exit(error.exit_code) from None
    except KeyboardInterrupt:
        console.print("Stopped. What is published stays; run it again to go on.")
        raise typer.Exit(130) from None
    except typer.Exit:
        raise
    except Exception as error:
        if debug:
            raise
        first_line = (str(error).strip().splitlines() or [""])[0]
        console.print("[bold red]error:[/bold red]", end=" ")
        console.print(f"{type(error).__name__}: {first_line}", markup=False, soft_wrap=True)
        console.print("This was not expected. Run again with --debug to see where it happened.")
        raise typer.Exit(1) from None


def main() -> None:
    """Entry point of ``ctr-samples``."""
    app(prog_name="ctr-samples")


if __name__ == "__main__":
    main()
