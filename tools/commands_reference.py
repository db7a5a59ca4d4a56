"""Prints docs/commands.md from the functions of the command line: `make docs` writes it, a test keeps it true."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from typer import Context
from typer.models import ArgumentInfo, ParameterInfo

from ctr_samples.cli.app import GROUPS

HEAD = """# Commands

`ctr-samples COMMAND --help` prints the same, and `ctr-samples --install-completion` adds completion to the shell. The exit
codes are [those of a run](operations.md#exit-codes). What is in **bold** is required.

Where a command has them, these mean the same:
"""

KINDS: dict[Any, str] = {str: "TEXT", int: "NUMBER", float: "NUMBER", Path: "PATH", datetime: "TIME"}


def page() -> Iterator[str]:
    """The lines of the page. What at least three commands have is told once."""
    everything = [one for commands in GROUPS.values() for function in commands.values() for one in shown(function)]
    times = Counter((one.called, one.line) for one in everything)
    most = {called: line for (called, line), number in reversed(times.most_common()) if number >= 3}
    common = sorted((line for called, line in times if most.get(called) == line), key=lambda line: "`--" in line)
    yield HEAD
    yield from common
    for group, commands in GROUPS.items():
        yield f"\n## {group}"
        for name, function in commands.items():
            yield from of_command(name, function, common)


def of_command(name: str, function: Callable[..., None], common: Collection[str]) -> Iterator[str]:
    """What a command does, how it is called, and its own options."""
    parameters = shown(function)
    called = [one.called for one in parameters if one.is_argument]
    called += [one.used for one in parameters if one.line in common and not one.is_argument and one.used != "[--debug]"]
    own = [one.line for one in parameters if one.line not in common]
    yield f"\n### {name}\n"
    yield f"{inspect.cleandoc(function.__doc__ or '')}\n"
    yield f"    {' '.join(['ctr-samples', name, *called, *(['[OPTIONS]'] if own else [])])}"
    if own:
        yield ""
        yield from own


def shown(function: Callable[..., None]) -> list[Parameter]:
    """The parameters of a command that are not hidden, in order."""
    return [one for one in parameters_of(function) if not one.info.hidden]


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
        return " ".join(filter(None, [", ".join(self.names), self.value]))

    @property
    def value(self) -> str:
        """What follows the name of an option: ``TEXT``, the choices, or nothing."""
        kinds = [self.kind, *get_args(self.kind), *(inner for one in get_args(self.kind) for inner in get_args(one))]
        choices = [str(value) for kind in kinds if get_origin(kind) is Literal for value in get_args(kind)]
        return self.info.metavar or "/".join(choices) or next((KINDS[kind] for kind in kinds if kind in KINDS), "")

    @property
    def is_required(self) -> bool:
        """Whether it is an option that must be given."""
        return self.default is inspect.Parameter.empty and not self.is_argument

    @property
    def used(self) -> str:
        """``--config PATH`` or ``[--set TEXT]``, for the line that shows how a command is called."""
        used = " ".join(filter(None, [self.names[0], self.value]))
        return used if self.is_required else f"[{used}]"

    @property
    def line(self) -> str:
        """Its line in a list: what it is called, its help and its default."""
        has_default = self.default not in (None, False, "", inspect.Parameter.empty)
        told = "efault:" in (self.info.help or "")
        default = f" Default: `{self.default}`." if has_default and not told else ""
        called = f"**`{self.called}`**" if self.is_required else f"`{self.called}`"
        return f"- {called}: {self.info.help or ''}{default}"


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
