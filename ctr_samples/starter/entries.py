"""Configuration entries with reasons, written as commented YAML."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_WIDTH = 120
_BARE = re.compile(r"[A-Za-z_/.$][\w ./()=$*+%<>-]*|\d+(ms|[smhd])", re.ASCII)
_WORDS = {"true", "false", "null"}


@dataclass(frozen=True, slots=True)
class Entry:
    """A configuration key with its value, a reason, and an open question for the user.

    The value is a scalar, a mapping or list written on one line, or a tuple of nested entries.
    """

    key: str
    value: Any
    why: str = ""
    todo: str = ""
    off: bool = False
    """Whether to write the entry as a comment. Without a key, only the reason is written."""


def as_yaml(entries: Sequence[Entry], indent: int = 0) -> str:
    """Format the entries as YAML, with their reasons as comments."""
    return "".join(f"{line}\n" for entry in entries for line in (_off if entry.off else _lines)(entry, indent))


def _off(entry: Entry, indent: int) -> Iterator[str]:
    space = " " * indent
    if not entry.key:
        yield from _comment(entry.why, space)
        return
    for line in _lines(entry, indent):
        own = line[indent:]
        yield f"{space}{own}" if own.startswith("# ") else f"{space}# {own}"


def todos_of(entries: Sequence[Entry], path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the open decisions for the user, each with its key."""
    for entry in entries:
        here = f"{path}.{entry.key}" if path else entry.key
        if entry.todo:
            yield here, entry.todo
        if isinstance(entry.value, tuple):
            yield from todos_of(entry.value, here)


def _lines(entry: Entry, indent: int) -> Iterator[str]:
    space, todo = " " * indent, f"TODO: {entry.todo}" if entry.todo else ""
    why, value = re.sub(r"\s+", " ", entry.why), entry.value
    line = f"{space}{_key(entry.key)}: {'' if isinstance(value, tuple) else _flow(value)}"
    if isinstance(value, Mapping) and len(line) > _WIDTH:
        value = tuple(Entry(key, one) for key, one in value.items())
    beside = not isinstance(value, tuple) and why and len(line) + len(why) + 4 <= _WIDTH
    for said in ("" if beside else why, todo):
        yield from _comment(said, space)
    if isinstance(value, tuple):
        yield f"{space}{_key(entry.key)}:"
        yield from as_yaml(value, indent + 2).splitlines()
    elif isinstance(value, str) and len(line) > _WIDTH and not re.search(r"\s\s|^\s|\s$", value):
        yield f"{space}{_key(entry.key)}: >-"
        lines = textwrap.wrap(value, _WIDTH - indent - 2, break_long_words=False, break_on_hyphens=False)
        yield from (f"{space}  {part}" for part in lines)
    else:
        yield f"{line}  # {why}" if beside else line


def _comment(said: str, space: str) -> Iterator[str]:
    yield from (f"{space}# {line}" for line in textwrap.wrap(said, _WIDTH - len(space) - 2, break_long_words=False))


def _key(key: str) -> str:
    return (
        key
        if re.fullmatch(r"\w+", key, re.ASCII) and key.lower() not in _WORDS
        else json.dumps(key, ensure_ascii=False)
    )


def _flow(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(key)}: {_flow(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return json.dumps(value) if isinstance(value, int | float) else _text(str(value))


def _text(text: str) -> str:
    bare = _BARE.fullmatch(text) and text.lower() not in _WORDS and text == text.strip()
    # JSON is a subset of YAML.
    return text if bare and "  " not in text else json.dumps(text, ensure_ascii=False)
