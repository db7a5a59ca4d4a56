"""``ctr-samples init``: draft a configuration for the user's logs."""

from __future__ import annotations

import hashlib
import shlex
import sys
import textwrap
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ctr_samples.cli.messages import Debug, errors_in_words
from ctr_samples.cli.terminal import say
from ctr_samples.config import load_config
from ctr_samples.errors import CtrSamplesError, InputError, UsageError

if TYPE_CHECKING:
    from ctr_samples.starter import Candidate, Draft, Question

_SAMPLED = 20_000
"""Maximum number of rows read from a catalog table."""

_OPTIONS = ("log", "actions", "item", "user", "request", "time", "label", "zone", "encoding", "kinds")
"""Options that answer the questions of a draft."""

_QUESTION = "Where are the logs and the tables around them? Files, directories, paths with {date}, or tables as db.name"


def init(
    context: typer.Context,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(help="Files, directories, paths with {date}, or tables of the catalog as db.name."),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The configuration to write.")] = Path("samples.yaml"),
    log: Annotated[str | None, typer.Option(help="The input that is the log of what was shown, by its name.")] = None,
    actions: Annotated[
        list[str] | None, typer.Option(help="An input that is a log of clicks or other actions; may be repeated.")
    ] = None,
    item: Annotated[str | None, typer.Option(help="The column of the log that names what was shown.")] = None,
    user: Annotated[str | None, typer.Option(help="The column of the log that names the user.")] = None,
    request: Annotated[str | None, typer.Option(help="The column of the log that names the request.")] = None,
    time: Annotated[str | None, typer.Option(help="The column of the log that says when.")] = None,
    label: Annotated[str | None, typer.Option(help="The column of the log that says what was clicked.")] = None,
    zone: Annotated[
        str | None, typer.Option(help="The time zone of days and of local times, such as Europe/Berlin.")
    ] = None,
    encoding: Annotated[
        str | None, typer.Option(help="The encoding of text that is not UTF-8, such as windows-1250.")
    ] = None,
    kinds: Annotated[
        str | None, typer.Option(help="The column with the kind of an action, as in events.type; each kind is a label.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Take the first answer to each open question.")] = False,
    debug: Debug = False,
) -> None:
    """Look at a sample of some logs and write a first configuration, with the evidence for each choice. Prints its path.

    What the values of the inputs leave open is asked on a terminal, or answered by the options. A file is written in any case:
    what is open stands in it with all answers, and the command ends with an error that names it. Run it again with an option
    that decides: it replaces a file that is not complete, unless somebody edited it, and no other.

    Example: ctr-samples init logs/{date}.jsonl articles.parquet --output samples.yaml
    """
    with errors_in_words(debug) as console:
        _check_free(output)
        if not output.parent.is_dir():
            raise UsageError(f"There is no directory {output.parent} for {output}; make it first.")
        from ctr_samples.starter import Answers, as_yaml, draft, look_at

        told = {option: said for option in _OPTIONS if (said := context.params[option])}
        told = {option: (said,) if isinstance(said, str) else tuple(said) for option, said in told.items()}
        ask = _first if yes else partial(_asked, console) if sys.stdin.isatty() else None
        answers = Answers(told, ask)
        made = draft(look_at(inputs or _ask(), _rows_of_table, answers), answers)
        text = _HEAD + as_yaml(made.entries)
        _check_free(output)  # again: the user may write the file while the inputs are read
        output.write_text(text, encoding="utf-8")
        if lack := made.missing or _problems(output) or _undecided(made):
            output.write_bytes(_sealed(_commented(f"NOT COMPLETE: {lack}") + text))
        _report(console, made, output, lack)
        say(output)
        if lack:
            raise InputError(f"{output} is not complete. {lack}")


_HEAD = """\
# Written by `ctr-samples init` from samples of the inputs: each guess has its reason, and TODO marks what no sample can
# tell, with a safe default. Every key is described in docs/configuration.md.

"""


_SEAL = b"\n# `ctr-samples init` replaces this file unless somebody edits it, which it sees by the hash of all above: "


def _sealed(text: str) -> bytes:
    """Return an incomplete draft with a checksum as its last line, to detect later edits."""
    above = text.encode()
    return above + _SEAL + hashlib.sha256(above).hexdigest()[:32].encode() + b"\n"


def _check_free(output: Path) -> None:
    """Raise UsageError if the output exists, unless it is an incomplete, unedited draft."""
    if output.is_file():
        content = output.read_bytes()
        above, seal, _ = content.rpartition(_SEAL)
        if seal and content == _sealed(above.decode(errors="replace")):
            return
    if output.exists():
        raise UsageError(f"{output} exists already; name another file with `--output`, or remove it.")


def _ask() -> list[str]:
    if not sys.stdin.isatty():
        raise UsageError("Name the logs: `ctr-samples init PATH ...`; there is no terminal to ask on.")
    return shlex.split(typer.prompt(_QUESTION, err=True))


def _first(question: Question) -> Candidate[Any] | None:
    return question.candidates[0]


def _asked(console: Console, question: Question) -> Candidate[Any] | None:
    """Ask a question on the terminal. Its answers are numbered, the first is the default, and 0 is none of them."""
    console.print(f"\n{question.asks}", style="bold")
    for number, candidate in enumerate(question.candidates, 1):
        console.print(Text(f"  {number}  {candidate.name}: {candidate.evidence}"), soft_wrap=True)
    least = 0 if question.may_be_none else 1
    if question.may_be_none:
        console.print("  0  none of these")
    most = len(question.candidates)
    while not least <= (chosen := typer.prompt("Number", default=1, type=int, err=True)) <= most:
        console.print(f"There is no {chosen}; expected a number from {least} to {most}.")
    return question.candidates[chosen - 1] if chosen else None


def _undecided(made: Draft) -> str:
    """Return the open questions in a sentence, or an empty string."""
    if not made.open:
        return ""
    asked = " ".join(question.in_words for question in made.open)
    return f"Nobody was there to answer, so the first answers stand in it. {asked} `--yes` takes the first of each."


def _problems(output: Path) -> str:
    """Return the error in a configuration file, or an empty string if the file is valid."""
    try:
        load_config(output)
    except CtrSamplesError as error:
        return str(error)
    return ""


def _commented(text: str) -> str:
    return "".join(f"# {line}\n" for part in text.splitlines() for line in textwrap.wrap(part, 118)) + "\n"


def _rows_of_table(name: str) -> Any:
    """Read sample rows of a table in the Spark catalog."""
    from ctr_samples.sparksql.failures import input_errors
    from ctr_samples.sparksql.session import session_of_command

    with (
        session_of_command(f"ctr-samples init {name}", hive=True) as spark,
        input_errors(f"the table {name} cannot be read"),
    ):
        return spark.read.table(name).limit(_SAMPLED).toArrow()


def _report(console: Console, made: Draft, output: Path, lack: str) -> None:
    """Print the inputs with their roles, the open decisions, and the next commands."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("input", "format", "rows seen", "columns", "taken for"):
        table.add_column(title, justify="right" if title in ("rows seen", "columns") else "left")
    for one in made.tables:
        form = str(one.options["format"][0])
        path = str(one.options.get("path", (one.name,))[0])
        name = one.name if one.name in path.lower() else f"{one.name} ({Path(path).name})"
        table.add_row(name, form, f"{one.rows:,}", f"{len(one.columns)}", made.roles.get(one.name, ""))
    console.print(table)
    console.print("To decide, marked TODO in the file, where a safe default stands")
    _print_list(console, made.todos)
    if made.notes:
        console.print("\nTo know")
        _print_list(console, made.notes)
    if lack:
        return
    config, date = f"--config {shlex.quote(str(output))}", f"--date {made.day}" if made.dated else ""
    console.print("\nNext")
    for parts in (
        ("ctr-samples config", config, "--check"),
        ("ctr-samples preview", config, date or "--date all"),
        ("ctr-samples generate", config, date),
    ):
        console.print(_to_copy(parts, console.width), soft_wrap=True)


def _to_copy(parts: Sequence[str], width: int) -> str:
    """Format a shell command, wrapped with continuation lines if it is too long. Never splits a part."""
    lines = ["  " + parts[0]]
    for part in filter(None, parts[1:]):
        if len(f"{lines[-1]} {part} \\") <= width:
            lines[-1] += f" {part}"
        else:
            lines.append(f"    {part}")
    return " \\\n".join(lines)


def _print_list(console: Console, lines: Sequence[str]) -> None:
    for line in lines:
        # Keep a path that is longer than a line unbroken, so that it can be copied.
        wrapped = textwrap.fill(line, console.width, initial_indent="  ", subsequent_indent="    ", break_long_words=False,
                                break_on_hyphens=False)  # fmt: skip
        console.print(Text(wrapped), soft_wrap=True)
