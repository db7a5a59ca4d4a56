"""Errors as sentences and exit codes, and the options that every command has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console

from ctr_samples.errors import CtrSamplesError

Debug = Annotated[bool, typer.Option("--debug", help="Show the stack trace of an error.")]


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
