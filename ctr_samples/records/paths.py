"""Paths as users write them: a root directory, a fixed part below it, and a pattern for globs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache

from ctr_samples.addresses import check_address
from ctr_samples.errors import CtrSamplesError, InputError, StorageError, UsageError
from ctr_samples.shards import Storage, open_storage
from ctr_samples.shards.naming import day_of

_GLOB = re.compile(r"[*?\[{]")


@dataclass(frozen=True, slots=True)
class FilePattern:
    """``root`` is a directory or URL; a file belongs to the place if it is below ``fixed`` and matches ``pattern``.

    ``fixed`` and ``pattern`` are relative to the root. Partition columns are parsed from the path below the root.
    """

    root: str
    fixed: str = ""
    pattern: str | None = None

    def __str__(self) -> str:
        return "/".join(part for part in (self.root.rstrip("/"), self.pattern or self.fixed) if part)

    def roots(self) -> Iterator[tuple[str, str]]:
        """Yield the root and each ancestor reached through names like ``country=US`` or of a period, with the path from
        there to the root.
        """
        root, between = self.root, ""
        yield root, between
        while True:
            parent, slash, name = root.rpartition("/")
            if parent.endswith(":/") or not ("=" in name or day_of(name)):  # a bucket is no directory in another one
                return
            root, between = parent or slash or ".", f"{name}/{between}" if between else name
            yield root, between

    def below(self, prefix: str) -> FilePattern:
        """Return the same place relative to an ancestor of the root: ``prefix`` is the path between the two."""
        if not prefix:
            return self
        joined = "/".join(part for part in (prefix, self.fixed) if part)
        return replace(self, fixed=joined, pattern=f"{prefix}/{self.pattern}" if self.pattern else None)

    def in_full(self, path: str) -> str:
        """Return the path of a file below the root, with the root's own name before it."""
        return f"{self.root.rpartition('/')[2]}/{path}"

    def has(self, path: str, *, partly: bool = False) -> bool:
        """Whether a file belongs to the place or, with ``partly``, whether a directory may contain such files."""
        if partly and self.fixed.startswith(f"{path}/"):
            return True
        if self.fixed and path != self.fixed and not path.startswith(f"{self.fixed}/"):
            return False
        if self.pattern is None:
            return True
        pattern = "/".join(self.pattern.split("/")[: path.count("/") + 1]) if partly else self.pattern
        return regex_of(pattern).match(path) is not None


def existing_place(path: str, base: str | None = None) -> FilePattern:
    """Like :func:`place_of`, but an existing file or directory with exactly this name is not a glob."""
    place = place_of(path, base)
    if place.pattern is None:
        return place
    parent, slash, name = path.rstrip("/").rpartition("/")
    with suppress(CtrSamplesError):
        if name in open_storage(parent or slash or ".").names(""):
            return place_of(path, base, literal=True)
    return place


def place_of(path: str, base: str | None = None, *, literal: bool = False) -> FilePattern:
    """Parse a path given to ``load``; ``base`` is the directory below which partition columns start."""
    check_address(path)
    text = path.rstrip("/") or "/"
    glob = None if literal else _GLOB.search(text)
    # A glob is fixed up to the last slash before its first special character.
    fixed = text[: glob.start()].rpartition("/")[0] if glob else text
    root = (base or fixed).rstrip("/") or "/"
    if glob and not fixed and not text.startswith("/"):
        root = base or "."
    inside = _inside(root, text if glob else fixed)
    if inside is None:
        raise UsageError(
            f"The option basePath is {base}, which does not contain {path}; expected a directory above it."
        )
    if not glob:
        return FilePattern(root, inside)
    return FilePattern(root, _GLOB.split(inside)[0].rpartition("/")[0], inside)


def _inside(root: str, text: str) -> str | None:
    """Return the part of ``text`` below ``root``, or None if it is not below the root."""
    if text == root:
        return ""
    if root == "." and not text.startswith("/"):
        return text
    prefix = root if root.endswith("/") else f"{root}/"
    return text[len(prefix) :] if text.startswith(prefix) else None


@cache
def regex_of(pattern: str) -> re.Pattern[str]:
    """Compile a Hadoop glob: ``*``, ``?``, ``[ab]``, ``[^a]`` and ``{a,b}``. A matched directory includes its files."""
    out, depth, i = "", 0, 0
    while i < len(pattern):
        char = pattern[i]
        if char in "*?":
            out += "[^/]*" if char == "*" else "[^/]"
        elif char == "[" and (end := pattern.find("]", i + 2)) > 0:
            inside = pattern[i + 1 : end].replace("\\", r"\\")
            out += f"[{'^' + inside[1:] if inside[0] in '!^' else inside}]"
            i = end
        elif char == "{" or (char in ",}" and depth):
            depth += {"{": 1, "}": -1}.get(char, 0)
            out += {"{": "(?:", ",": "|", "}": ")"}[char]
        else:
            out += re.escape(char)
        i += 1
    try:
        return re.compile(f"{out}(?:/.*)?\\Z")
    except re.error as error:
        raise UsageError(f"The path pattern {pattern!r} is malformed ({error}); correct its brackets.") from None


def is_hidden(path: str) -> bool:
    """Whether Spark skips the path because one of its components is a hidden name."""
    return any(
        part[:1] == "." or (part[:1] == "_" and "=" not in part) or part.endswith("._COPYING_")
        for part in path.split("/")
    )


def single_file(storage: Storage, place: FilePattern) -> tuple[Storage, FilePattern, dict[str, int]]:
    """Treat the path as a single file or an empty directory. Raises InputError if it is neither."""
    if not place.fixed:
        parent, slash, path = place.root.rpartition("/")
        place = FilePattern(parent or slash or ".", path, place.pattern)
        storage = open_storage(place.root)
    missing = InputError(f"{place} does not exist; expected a directory, a file or a glob that matches some.")
    if place.pattern is not None:
        raise missing
    try:
        storage.open(place.fixed).close()
    except FileNotFoundError:
        raise missing from None
    except StorageError as error:
        if not _is_directory(error):
            raise
        return storage, place, {}
    return storage, place, {place.fixed: storage.size(place.fixed)}


def _is_directory(error: BaseException | None) -> bool:
    return error is not None and (isinstance(error, IsADirectoryError) or _is_directory(error.__cause__))
