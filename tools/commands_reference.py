"""Prints docs/commands.md from the functions of the command line: `make docs` writes it, a test keeps it true."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from typer import Context
from typer.models import ArgumentInfo, ParameterInfo

from ctr_samples.cli.app import GROUPS

HEAD = """# Commands

`ctr-samples COMMAND --help` prints the same, and `ctr-samples --install-completion` adds completion to the shell. The exit
codes are [those of a run](operations.md#exit-codes).
"""

KINDS: dict[Any, str] = {str: "TEXT", int: "NUMBER", float: "NUMBER", Path: "PATH", datetime: "TIME"}


def page() -> Iterator[str]:
    """The lines of the page."""
    yield HEAD
    for group, commands in GROUPS.items():
        yield f"## {group}\n"
        for name, function in commands.items():
            yield from of_command(name, function)


def of_command(name: str, function: Callable[..., None]) -> Iterator[str]:
    """What a command does, how it is called, and its options."""
    parameters = [one for one in parameters_of(function) if not one.info.hidden]
    arguments = [one.called for one in parameters if one.is_argument]
    yield f"### {name}\n"
    yield f"{inspect.cleandoc(function.__doc__ or '')}\n"
    yield f"    {' '.join(['ctr-samples', name, *arguments, '[OPTIONS]'])}\n"
    yield "| argument or option | meaning |"
    yield "|---|---|"
    for one in parameters:
        yield f"| `{one.called}` | {one.said} |"
    yield ""


@dataclass(frozen=True)
class Parameter:
    """An argument or an option of a command."""

    names: tuple[str, ...]
    info: ParameterInfo
    kind: Any
    default: Any

    @property
    def is_argument(self) -> bool:
        """Whether it has its place, and no name."""
        return isinstance(self.info, ArgumentInfo)

    @property
    def called(self) -> str:
        """``DIRECTORY``, ``--date, -d TEXT`` or ``--force``."""
        if self.is_argument:
            return (self.info.metavar or self.names[0]).upper()
        kinds = [self.kind, *get_args(self.kind), *(inner for one in get_args(self.kind) for inner in get_args(one))]
        choices = [str(value) for kind in kinds if get_origin(kind) is Literal for value in get_args(kind)]
        value = self.info.metavar or "/".join(choices) or next((KINDS[kind] for kind in kinds if kind in KINDS), "")
        return " ".join(filter(None, [", ".join(self.names), value]))

    @property
    def said(self) -> str:
        """Its help, and its default."""
        needed = " Required." if self.default is inspect.Parameter.empty and not self.is_argument else ""
        has_default = self.default not in (None, False, "", inspect.Parameter.empty)
        told = "efault:" in (self.info.help or "")
        return f"{self.info.help or ''}{needed}{f' Default: `{self.default}`.' if has_default and not told else ''}"


def parameters_of(function: Callable[..., None]) -> Iterator[Parameter]:
    """All of a command, in order."""
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        if hints[name] is Context:
            continue
        kind, *more = get_args(hints[name])
        info = next(one for one in more if isinstance(one, ParameterInfo))
        # In Annotated[...] the first name takes the place of the default.
        given = [*([info.default] if isinstance(info.default, str) else []), *(info.param_decls or ())]
        own = name.upper() if isinstance(info, ArgumentInfo) else f"--{name.rstrip('_').replace('_', '-')}"
        yield Parameter(tuple(given or [own]), info, kind, parameter.default)


if __name__ == "__main__":
    print("\n".join(page()).rstrip())  # noqa: T201
