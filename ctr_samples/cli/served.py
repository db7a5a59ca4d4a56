"""``ctr-samples compare-served``: compare what a service served with the samples of a day."""

from __future__ import annotations

import os
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from ctr_samples.cli.generate import Overrides, spark_for
from ctr_samples.cli.messages import Debug, errors_in_words
from ctr_samples.cli.outputs import chosen
from ctr_samples.cli.report import SampleSet, open_page, written
from ctr_samples.cli.terminal import say
from ctr_samples.errors import StorageError, UsageError

if TYPE_CHECKING:
    from ctr_samples.config import JobConfig
    from ctr_samples.quality.served import Served
    from ctr_samples.shards import Manifest

LIMITS_EXCEEDED = 3
"""Exit code of a comparison beyond the limits."""


def compare_served(
    samples: SampleSet,
    served: Annotated[
        str, typer.Option("--served", help="The log of the service: tf.Examples, Parquet, JSON lines or CSV.")
    ],
    date: Annotated[
        str | None, typer.Option("--date", "-d", help="The day, hour, or all. Default: the last published one.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", help="The YAML file of the samples. Default: the one in their manifest."),
    ] = None,
    set_: Overrides = None,
    causes: Annotated[
        bool, typer.Option("--causes/--no-causes", help="Read the inputs again to find out why values differ.")
    ] = True,
    propose: Annotated[
        Path | None, typer.Option("--propose", help="Write the clocks with which most would agree to this YAML file.")
    ] = None,
    file: Annotated[Path | None, typer.Option("--output", "-o", help="Write a copy of the page to this file.")] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print the comparison as JSON in place of the page's path.")
    ] = False,
    prometheus: Annotated[bool, typer.Option("--prometheus", help="Print it as gauges for Prometheus.")] = False,
    debug: Debug = False,
) -> None:
    """Compare what a service served with the samples of a day, and name the causes of differences. Exits with 3 beyond
    `served.limits`. Prints the path of a page.

    Example: ctr-samples compare-served samples/feed --date 2019-11-26 --served logs/served/2019-11-26
    """
    with errors_in_words(debug) as console:
        if json + prometheus + open_ > 1:
            raise UsageError("--json, --prometheus and --open are mutually exclusive; give only one.")
        from ctr_samples.contract import ExampleContract
        from ctr_samples.quality.report.served import page_of, prometheus_of, proposed_yaml
        from ctr_samples.served.log import ServedLog, without_biases
        from ctr_samples.served.run import Task
        from ctr_samples.served.run import compare_served as compared
        from ctr_samples.shards.naming import SERVED, SERVED_PAGE
        from ctr_samples.shards.published import file_of_run

        storage, manifest = chosen(samples, date)
        job = _config_of(manifest, config, set_)
        contract = without_biases(ExampleContract.from_dict(dict(manifest.contract)), job)
        log = ServedLog.open(served, contract, job.served)

        task = Task(storage, manifest, log, job, manifest.day, served)
        with ExitStack() as stack:
            session = cache(lambda: stack.enter_context(spark_for(job, "ctr-samples compare-served", console)))
            found = compared(task, session, causes=causes, propose=propose is not None)
        _tell(console, found)
        if propose is not None:
            written(propose, proposed_yaml(found))
        try:
            for name, text in ((SERVED, found.to_json()), (SERVED_PAGE, page_of(found))):
                with storage.new_file(file_of_run(manifest.day, manifest.made_by, name)) as out:
                    out.write(text.encode())
        except StorageError as error:  # a set that may only be read
            if file is None and not (json or prometheus):
                raise type(error)(f"{error} Or give --output, which writes the page elsewhere.") from error
            console.print(f"The comparison is not kept beside the samples: {error}", markup=False, soft_wrap=True)
        page = storage.locate(file_of_run(manifest.day, manifest.made_by, SERVED_PAGE))
        if file is not None:
            page = written(file, page_of(found))
        say(
            found.to_json() if json else prometheus_of(found) if prometheus else page,
            end="" if json or prometheus else "\n",
        )
        if open_:
            open_page(console, page)
        if found.beyond:
            raise typer.Exit(LIMITS_EXCEEDED)


def _config_of(manifest: Manifest, config: Path | None, changes: list[str] | None) -> JobConfig:
    """Return the configuration of a file, or the one that the samples were made with."""
    from ctr_samples.config import JobConfig, load_config
    from ctr_samples.config.document import filled

    if config is not None:
        return load_config(config, changes or ()).config
    if changes:
        raise UsageError("--set changes the configuration of a file; give --config, too.")

    def value_of(name: str, _: object) -> str:
        if name not in os.environ:
            raise UsageError(f"The samples were made with ${{{name}}}; set that variable, or give --config.")
        return os.environ[name]

    return JobConfig.model_validate(filled(dict(manifest.config), value_of))


def _tell(console: Console, found: Served) -> None:
    from ctr_samples.quality.report.served import coverage_rows, sentences_of, summary_of
    from ctr_samples.quality.report.wording import count, share

    console.print(summary_of(found), style="bold", soft_wrap=True)
    table = Table("what", "lines", box=None, header_style="dim")
    for what, lines in coverage_rows(found.coverage):
        table.add_row(what, lines)
    for why, lines_ in found.coverage.why_no_sample.items():
        table.add_row(f"  of these: {why}", count(lines_))
    console.print(table)
    differing = {name: one for name, one in found.features.items() if one.differ}
    if differing:
        table = Table("feature", "differ", "different", "only served", "only offline", box=None, header_style="dim")
        for name, one in sorted(differing.items(), key=lambda entry: -entry[1].share):
            table.add_row(name, share(one.share), *map(count, (one.different, one.only_served, one.only_offline)))
        console.print(table)
    for name, one in differing.items():
        for sentence in sentences_of(name, one):
            console.print(sentence, markup=False, soft_wrap=True)
    if found.not_logged:
        names = ", ".join(found.not_logged)
        console.print(f"Not compared, since the log has no such columns: {names}.", markup=False, soft_wrap=True)
    for sentence in found.beyond:
        console.print(sentence, style="red", markup=False, soft_wrap=True)
