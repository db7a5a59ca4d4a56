"""``ctr-samples generate`` and ``ctr-samples config``: what starts from a configuration file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from ctr_samples.cli.messages import Debug, errors_in_words
from ctr_samples.config import CatalogSource, JobConfig, explain, load_config
from ctr_samples.job.progress import RunProgress
from ctr_samples.terminal import say, stderr_console

ConfigPath = Annotated[Path, typer.Option("--config", "-c", help="The YAML file of the sample set.")]
Overrides = Annotated[list[str] | None, typer.Option("--set", help="Change one key, as in output.path=/tmp/x.")]
Day = Annotated[str, typer.Option("--date", "-d", help="The run date, as in 2019-11-26.")]


@contextmanager
def spark_for(config: JobConfig, name: str, console: Console) -> Iterator[tuple[Any, RunProgress]]:
    """A session for what a configuration reads, and the progress that shows what it does."""
    with RunProgress(console) as progress:
        from ctr_samples.sparksql.session import session_of_command

        tables = any(isinstance(source, CatalogSource) for source in config.sources.values())
        with session_of_command(name, hive=tables) as spark:
            progress.follow(spark)
            yield spark, progress


def generate(
    config: ConfigPath,
    date: Day,
    set_: Overrides = None,
    force: Annotated[bool, typer.Option("--force", help="Run even if the same samples are already published.")] = False,
    accept: Annotated[
        list[str] | None, typer.Option("--accept", help="Publish even if this check of the quality gate fails.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Make and publish the samples of one day. Prints the path of the manifest."""
    console = stderr_console()
    with errors_in_words(console, debug):
        from ctr_samples.shards.naming import parse_day

        run_date = parse_day(date)
        loaded = load_config(config, set_ or ())
        with spark_for(loaded.config, f"ctr-samples {loaded.config.name} {run_date}", console) as (spark, progress):
            from ctr_samples.job import run as job

            result = job.run(spark, loaded, run_date, force=force, accept=accept or (), reporter=progress)

        from ctr_samples.job.summary import run_summary
        from ctr_samples.shards import open_storage
        from ctr_samples.shards.naming import manifest_path

        storage = open_storage(loaded.config.output.path)
        console.print(run_summary(result.manifest, storage, published=result.published), soft_wrap=True)
        say(storage.locate(manifest_path(run_date, result.manifest.generation)))


def config_command(
    config: ConfigPath,
    date: Annotated[
        str | None, typer.Option("--date", "-d", help="Also list the days that a run on this date reads.")
    ] = None,
    set_: Overrides = None,
    explain_: Annotated[bool, typer.Option("--explain", help="Describe what a run would do.")] = False,
    debug: Debug = False,
) -> None:
    """Check a configuration file; with --explain, print its plan."""
    with errors_in_words(stderr_console(), debug):
        from ctr_samples.shards.naming import parse_day

        run_date = parse_day(date) if date is not None else None
        loaded = load_config(config, set_ or ())
        loaded.refuse_secrets()
        if not explain_:
            say(f"{config} is valid.")
            return
        say(loaded.masked(explain(loaded.config, run_date)))
        if loaded.config.views:
            from ctr_samples.samples.views.as_of import described, plan_joins
            from ctr_samples.samples.views.joiner import declared_facts

            say("\nThe views are joined in these steps; a run broadcasts small ones instead, once it knows their size")
            steps = plan_joins(declared_facts(loaded.config))
            say(loaded.masked("\n".join(f"  {line}" for line in described(steps))))
