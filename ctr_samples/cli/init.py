"""``ctr-samples init``: a first configuration for the logs of a person."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ctr_samples.cli.messages import Debug, errors_in_words
from ctr_samples.config import load_config
from ctr_samples.errors import CtrSamplesError, UsageError
from ctr_samples.terminal import say, stderr_console

if TYPE_CHECKING:
    from ctr_samples.starter import Draft

_SAMPLED = 20_000
"""Rows of a table of the catalog that are looked at."""

_QUESTION = "Where are the logs and the tables around them? Files, directories, paths with {date}, or tables as db.name"


def init(
    inputs: Annotated[
        list[str] | None,
        typer.Argument(help="Files, directories, paths with {date}, or tables of the catalog as db.name."),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The configuration to write.")] = Path("samples.yaml"),
    debug: Debug = False,
) -> None:
    """Look at a sample of some logs and write a first configuration, with a reason for each guess. Prints its path."""
    console = stderr_console()
    with errors_in_words(console, debug):
        if output.exists():
            raise UsageError(f"{output} exists already; name another file with `--output`, or remove it.")
        if not output.parent.is_dir():
            raise UsageError(f"There is no directory {output.parent} for {output}; make it first.")
        from ctr_samples.starter import as_yaml, draft, look_at

        made = draft(look_at(inputs or _ask(), _rows_of_table))
        _write(output, _HEAD + as_yaml(made.entries))
        _report(console, made, output)
        say(output)


_HEAD = """\
# Written by `ctr-samples init` from samples of the inputs: each guess has its reason, and TODO marks what no sample can
# tell, with a safe default. Every key is described in docs/configuration.md.

"""


def _ask() -> list[str]:
    if not sys.stdin.isatty():
        raise UsageError("Name the logs: `ctr-samples init PATH ...`; there is no terminal to ask on.")
    return shlex.split(typer.prompt(_QUESTION, err=True))


def _write(output: Path, text: str) -> None:
    """Write the file, and remove it again if it is no valid configuration."""
    output.write_text(text, encoding="utf-8")
    try:
        load_config(output)
    except CtrSamplesError:
        output.unlink()
        raise


def _rows_of_table(name: str) -> Any:
    """Some rows of a table that only the catalog of Spark knows."""
    from ctr_samples.sparksql.failures import input_errors
    from ctr_samples.sparksql.session import session_of_command

    with (
        session_of_command(f"ctr-samples init {name}", hive=True) as spark,
        input_errors(f"the table {name} cannot be read"),
    ):
        return spark.read.table(name).limit(_SAMPLED).toArrow()


def _report(console: Console, made: Draft, output: Path) -> None:
    """What was found, what must be decided, and the commands that come next."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("input", "format", "rows seen", "columns", "taken for"):
        table.add_column(title, justify="right" if title in ("rows seen", "columns") else "left")
    for one in made.tables:
        form = str(one.options["format"][0])
        table.add_row(one.name, form, f"{one.rows:,}", f"{len(one.columns)}", made.roles.get(one.name, ""))
    console.print(table)
    console.print("To decide, marked TODO in the file, where a safe default stands")
    _print_list(console, made.todos)
    if made.notes:
        console.print("\nTo know")
        _print_list(console, made.notes)
    date = f" --date {made.day}" if made.dated else ""
    console.print(
        f"\nNext\n  ctr-samples config --config {output} --check\n"
        f"  ctr-samples preview --config {output}{date or ' --date all'}\n"
        f"  ctr-samples generate --config {output}{date}",
        soft_wrap=True,
    )


def _print_list(console: Console, lines: Sequence[str]) -> None:
    for line in lines:
        console.print(Text(f"  {line}"), soft_wrap=True)
