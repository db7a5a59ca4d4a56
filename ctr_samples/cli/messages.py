"""Error messages, exit codes, and options shared by all commands."""

from __future__ import annotations

import errno
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from ctr_samples.cli.terminal import stderr_console
from ctr_samples.config.masking import masked, masking
from ctr_samples.errors import NO_TENSORFLOW, CtrSamplesError

Debug = Annotated[bool, typer.Option("--debug", help="Show the stack trace of an error.")]


@contextmanager
def errors_in_words(debug: bool, console: Console | None = None) -> Iterator[Console]:
    """Turn an expected error into a sentence and an exit code. For an unexpected error, say how to see the details.

    Yields the console for progress, summaries and errors, by default that on stderr. Configuration values from the
    environment are masked, even in a stack trace.
    """
    console = console or stderr_console()
    with masking():
        try:
            yield console
        except CtrSamplesError as error:
            print_error(console, error, debug)
            raise typer.Exit(error.exit_code) from None
        except KeyboardInterrupt:
            console.print("Stopped. Published samples are unaffected; run the command again to continue.")
            raise typer.Exit(130) from None
        except typer.Exit:
            raise
        except Exception as error:
            print_error(console, error, debug)
            raise typer.Exit(1) from None


def print_error(console: Console, error: Exception, debug: bool, subject: str = "") -> None:
    """Print an error as a sentence that starts with its subject, or with a stack trace if ``debug``.

    For an unexpected error, say how to see the details.
    """
    if debug:
        trace = "".join(traceback.format_exception(error))
        console.print(masked(f"{subject}{trace}"), markup=False, end="", soft_wrap=True)
        return
    expected = str(error) if isinstance(error, CtrSamplesError) else cause_of(error)
    # Mask before truncating, since a value may have several lines.
    first_line = (masked(str(error)).strip().splitlines() or [""])[0]
    console.print(Text("error:", style="bold red"), end=" ")
    console.print(
        masked(f"{subject}{expected or f'{type(error).__name__}: {first_line}'}"), markup=False, soft_wrap=True
    )
    if expected is None:
        console.print("This error was not expected. Run again with --debug to see where it happened.")


def cause_of(error: Exception) -> str | None:
    """Return advice for an error with an external cause, such as a missing program or a full disk."""
    if isinstance(error, ImportError) and (error.name or "").partition(".")[0] in ("tensorflow", "keras"):
        return f"{NO_TENSORFLOW}."
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        which = f" that holds {error.filename}" if error.filename else ""
        return f"The disk{which} is full; free some space, or point TMPDIR and `spark.local.dir` to a larger disk."
    if isinstance(error, ConnectionRefusedError | ConnectionResetError) or type(error).__name__ == "Py4JNetworkError":
        return (
            "Spark's JVM has died, most likely out of memory: a value or a partition is very large. Drop or shorten that "
            "column, or give Spark more memory, as in SPARK_DRIVER_MEMORY=8g."
        )
    if isinstance(error, MemoryError):
        return "Out of memory; use a machine with more, or read less at once."
    return None
