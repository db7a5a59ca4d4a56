"""Select data files below a path, with their partition values, like Spark's file sources. Pure functions.

::

    load("lake")     lake/part-0          read, unless there are partitions
                     lake/k=1/part-0      read, with the column k
                     lake/k=1/sub/part-0  read, with the column k
                     lake/sub/part-0      not read
                     lake/_x, lake/.x     never read
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import unquote

from ctr_samples.errors import InputError
from ctr_samples.records.paths import FilePattern, is_hidden
from ctr_samples.tfrecord.partitions import NULL_NAME, Values


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file to read, relative to the root of its place."""

    path: str
    values: Values


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A file with the directory that matched the place (``top``), and the base of its partition columns."""

    path: str
    top: str
    base: str
    values: Values


def found_files(paths: Iterable[str], place: FilePattern, *, base_given: bool, recursive: bool) -> list[FoundFile]:
    """Select the files of a place from ``paths``, which are relative to its root.

    Without partition columns, selects only files directly in the directory. With ``recursive``, selects all files and
    ignores partition columns. Raises InputError if partition columns start at different directories, as Spark does.
    """
    tops = [(path, top) for path in paths if (top := _top(path, place)) is not None]
    if recursive:
        return [FoundFile(path, {}) for path, _ in tops]
    leaves = [_leaf(path, top, base_given) for path, top in tops]
    if not any(leaf.values for leaf in leaves):
        return [FoundFile(leaf.path, {}) for leaf in leaves if leaf.top in (leaf.path, _directory(leaf.path))]
    bases = sorted({leaf.base for leaf in leaves})
    if len(bases) > 1:
        raise InputError(
            f"{place} has partition columns (key=value directories), but they start at different levels: "
            f"{', '.join(base or '.' for base in bases[:3])}. Load these separately, set the option basePath to the directory "
            "above the partitions, or set recursiveFileLookup to read every file without partition columns."
        )
    return [FoundFile(leaf.path, leaf.values) for leaf in leaves if leaf.values]


def _top(path: str, place: FilePattern) -> str | None:
    """Return the directory or file that matches the place and contains the path. Return None for hidden and other
    files.
    """
    if not place.has(path) or is_hidden(path[len(place.fixed) :].removeprefix("/")):
        return None
    if place.pattern is None:
        return place.fixed
    return "/".join(path.split("/")[: place.pattern.count("/") + 1])


def _leaf(path: str, top: str, base_given: bool) -> _Leaf:
    directory = _directory(path)
    start = "" if base_given else _directory(top) if top == path else top
    parts = [part for part in directory[len(start) :].split("/") if part]
    end = len(parts)
    while end and "=" not in parts[end - 1]:
        end -= 1
    begin = end
    while begin and "=" in parts[begin - 1]:
        begin -= 1
    base = directory if begin == end else "/".join(part for part in (start, *parts[:begin]) if part)
    return _Leaf(path, top, base, _values(parts[begin:end], path))


def _values(parts: list[str], path: str) -> dict[str, str | None]:
    values: dict[str, str | None] = {}
    for part in parts:
        name, _, text = part.partition("=")
        if not name or not text or unquote(name).lower() in map(str.lower, values):
            problem = "is there twice" if name and text else "lacks a name or a value"
            raise InputError(f"{path}: the partition column {part!r} {problem}; rename the directory.")
        values[unquote(name)] = None if text == NULL_NAME else unquote(text)
    return values


def _directory(path: str) -> str:
    return path.rpartition("/")[0]
