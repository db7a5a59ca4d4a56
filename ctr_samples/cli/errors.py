"""Errors as sentences and exit codes, and the options that every command has."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console

from ctr_samples.config.masking import masked, masking
from ctr_samples.errors import CtrSamplesError

Debug = Annotated[bool, typer.Option("--debug", help="Show the stack trace of an error.")]


@contextmanager
def errors_in_words(console: Console, debug: bool) -> Iterator[None]:
    """An expected error becomes its sentence and its exit code; any other one says how to see more.

    Of what a configuration was filled with from the environment nothing is told, not even in a stack trace.
    """
    with masking():
        try:
            yield
        except CtrSamplesError as error:
            if debug:
                _print_trace(console, error)
            else:
                _print_error(console, str(error))
            raise typer.Exit(error.exit_code) from None
        except KeyboardInterrupt:
            console.print("Stopped. What is published stays; run it again to go on.")
            raise typer.Exit(130) from None
        except typer.Exit:
            raise
        except Exception as error:
            if debug:
                _print_trace(console, error)
            else:
                # Masked before it is cut: a value may have several lines.
                first_line = (masked(str(error)).strip().splitlines() or [""])[0]
                _print_error(console, f"{type(error).__name__}: {first_line}")
                console.print("This was not expected. Run again with --debug to see where it happened.")
            raise typer.Exit(1) from None


def _print_error(console: Console, message: str) -> None:
    console.print("[bold red]error:[/bold red]", end=" ")
    console.print(masked(message), markup=False, soft_wrap=True)


def _print_trace(console: Console, error: Exception) -> None:
    console.print(masked("".join(traceback.format_exception(error))), markup=False, soft_wrap=True, end="")
