"""Input locations: files, directories of files, and paths that contain the day."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path

from ctr_samples.errors import InputError, UsageError
from ctr_samples.starter.tables import Column, Options, Table, plain_name

_DAY = re.compile(
    r"(?<!\d)(\d{4})(\D?)(\d\d)(\D?)(\d\d)(?!\d)|(\w+=)(\d{4})(/\w+=)(\d{1,2})(/\w+=)(\d{1,2})(?!\d)", re.ASCII
)
"""Day in a path, either in one piece or in separate directories such as ``year=2024/month=5/day=3``."""
_TEMPLATE = re.compile(r"\{date(?::([^}]*))?\}")
_CODES = {"%Y": r"(?P<Y>\d{4})", "%m": r"(?P<m>\d\d)", "%d": r"(?P<d>\d\d)"}
_CODES |= {"%-m": r"(?P<m>\d{1,2})", "%-d": r"(?P<d>\d{1,2})"}
ENDINGS = re.compile(r"(\.(csv|tsv|txt|json|jsonl|ndjson|log|parquet|orc|snappy|zstd|zst|gz|bz2))+$", re.IGNORECASE)
_DOCUMENTS = {".md", ".yaml", ".yml", ".py", ".html", ".pdf", ".rst"}


@dataclass(frozen=True, slots=True)
class InputPath:
    """An input path for the configuration, with its files and days."""

    path: str
    files: tuple[Path, ...]
    days: tuple[date, ...] = ()

    @property
    def name(self) -> str:
        """The name of the input, derived from the last meaningful part of the path."""
        parts = [ENDINGS.sub("", part) for part in self.path.split("/") if not re.search(r"=\{date", part)]
        words = [
            word
            for part in parts
            if re.search(r"[^\W\d_]", word := re.sub(r"\W+", "_", _TEMPLATE.sub("", part)).strip("_"))
        ]
        name = plain_name(words[-1]).lower() if words else ""
        return (name if name[:1].isalpha() else f"log_{name}".rstrip("_"))[:40]

    def day_of(self, file: Path) -> date | None:
        """Return the day in the path of a file, or None if the path contains no day."""
        return _day_in(self.path, file) if self.is_dated else None

    @property
    def is_dated(self) -> bool:
        """Whether the path contains the day."""
        return _TEMPLATE.search(self.path) is not None

    @property
    def days_said(self) -> str:
        """The available days, in words. Empty for a path without a day."""
        return f"{len(self.days)} day(s) are there, {min(self.days)} to {max(self.days)}" if self.days else ""

    @property
    def day_column(self) -> str | None:
        """The partition column of the day, such as ``dt`` for ``users/dt={date}``."""
        match = re.search(r"(?:^|/)([A-Za-z_]\w*)=\{date(:[^}]*)?\}(?:/|$)", self.path)
        return match[1] if match and all(code in (match[2] or "%Y%m%d") for code in ("%Y", "m", "d")) else None

    def table(self, options: Options, columns: list[Column], row_days: Sequence[date | None]) -> Table:
        """Return the sampled table. ``row_days`` has the day of each row."""
        size = sum(file.stat().st_size for file in self.files)
        days = tuple(row_days)
        return Table(
            self.name, options, columns, len(days), size, self.days, self.is_dated, self.day_column, row_days=days
        )


def find_places(path: str) -> list[InputPath]:
    """Return the inputs under a path: the path itself, or each file and directory in it if they differ in kind.

    Raises UsageError if the path does not exist or contains hours, and InputError if all its files are empty.
    """
    if "{hour}" in path:
        days = path[: path.index("{hour}")].rpartition("/")[0]
        raise UsageError(
            f"{path} names hours; name the days, as in {days}: what lies below a day is read with it. A run makes an hour "
            "with `grain: hour` in the configuration, whose paths may name hours."
        )
    if _TEMPLATE.search(path):
        return [_dated(path)]
    root = Path(path).expanduser()
    if not root.exists():
        raise UsageError(f"There is no {path}; name a file, a directory, a path with {{date}}, or a table as db.name.")
    files = [root] if root.is_file() else sorted(_files_below(root))
    if not any(file.stat().st_size for file in files):
        raise InputError(f"{path} is empty; name an input that has rows.")
    files = [file for file in files if file.stat().st_size]
    around = root.parent if _template(root, root.parent, short=False) != str(root) else root
    if around != root and root.is_dir():  # directory of a single day: `dt=2019-06-05`
        files = sorted(_files_below(around))
    short = any(len(part) == 1 for file in files if (found := _DAY.search(str(file))) for part in found.groups("")[6:])
    paths = {_template(file, around, short=short) for file in files}
    if len(paths) == 1 and _TEMPLATE.search(template := next(iter(paths))):
        return [_dated(template)]
    if len(files) == 1 and _kind(files[0], files[0].parent) != "part":
        return [InputPath(str(files[0]), tuple(files))]
    if root.is_file() or len({_kind(file, root) for file in files}) == 1:
        return [InputPath(path, tuple(files))]
    below = [child for child in sorted(root.iterdir()) if _is_data(child)]
    places = [place for child in below for place in _found(child)]
    return list({place.path: place for place in places}.values())  # each file of a dated set yields the whole set


def _found(child: Path) -> list[InputPath]:
    try:
        return find_places(str(child))
    except InputError:
        return []


def _is_data(path: Path) -> bool:
    return not path.name.startswith(("_", ".")) and path.suffix.lower() not in _DOCUMENTS


def _files_below(root: Path) -> Iterator[Path]:
    for child in root.iterdir():
        if _is_data(child):
            yield from _files_below(child) if child.is_dir() else [child]


def _template(file: Path, root: Path, *, short: bool) -> str:
    """Return the path up to the day, with the day as a template. Without a day, return the file path.

    ``short`` means that month and day directories have no leading zeros.
    """
    below = "/".join(file.parts[len(root.parts) :])
    for found in _DAY.finditer(below):
        year, by, month, then, day, named, own_year, of_month, own_month, of_day, own_day = found.groups()
        try:
            date(int(year or own_year), int(month or own_month), int(day or own_day))
        except ValueError:
            continue
        if named:
            m, d = ("%-m", "%-d") if short else ("%m", "%d")
            template = f"{named}{{date:%Y}}{of_month}{{date:{m}}}{of_day}{{date:{d}}}"
        else:
            whole = f"{{date:%Y{by}%m{then}%d}}" if by != "-" else "{date}"
            template = f"{{date:%Y}}{by}{{date:%m}}{then}{{date:%d}}" if f"{by}{then}".strip("-/_.") else whole
        rest = below[found.end() :].partition("/")[0]
        return str(root / f"{below[: found.start()]}{template}{rest}")
    return str(file)


def _day_in(template: str, file: Path) -> date | None:
    """Return the day of a file that matches a path template, or None for any other file."""
    found = _pattern(str(Path(template).expanduser())).match(str(file))
    try:
        return date(*(int(found[code]) for code in "Ymd")) if found else None
    except ValueError:
        return None


@cache
def _pattern(template: str) -> re.Pattern[str]:
    pattern, end = "", 0
    for found in _TEMPLATE.finditer(template):
        form = re.split(r"(%-?\w)", found[1] or "%Y-%m-%d")
        pattern += re.escape(template[end : found.start()])
        pattern += "".join(_CODES.get(part, re.escape(part)) for part in form)
        end = found.end()
    return re.compile(pattern + re.escape(template[end:]) + r"(?:/|$)")


def _kind(file: Path, root: Path) -> str:
    """Return the name that files of one input share: the first name below the directory, without numbers."""
    first = file.relative_to(root).parts[0]
    if "=" in first:
        return first.partition("=")[0]
    if re.match(r"part[-_.]?\w|\d+_\d+$", first):
        return "part"
    return re.sub(r"[\d_.-]+", "", ENDINGS.sub("", first))


def _dated(path: str) -> InputPath:
    """Return the input with the files of each existing day."""
    root = Path(path[: path.index("{date")].rpartition("/")[0] or ("/" if path.startswith("/") else ".")).expanduser()
    below = sorted(_files_below(root)) if root.is_dir() else []
    files = {file: day for file in below if (day := _day_in(path, file)) and file.stat().st_size}
    if not files:
        such = re.sub(r"%-?(\w)", lambda code: {"Y": "2019", "m": "06", "d": "05"}.get(code[1], ""), _TEMPLATE.sub(
            lambda one: one[1] or "%Y-%m-%d", path))  # fmt: skip
        raise InputError(f"{path} has no file with rows on any day; expected paths such as {such}.")
    return InputPath(path, tuple(files), tuple(sorted({*files.values()})))


LITTLE = 9 << 20
"""Bytes of an input that are read as a whole."""
_MOST_FILES = 1000


def some_of(files: Sequence[Path]) -> list[Path]:
    """Return all files of a small input, or else the first, the middle and the last file."""
    if len(files) <= _MOST_FILES and sum(file.stat().st_size for file in files) <= LITTLE:
        return list(files)
    return list(dict.fromkeys([files[0], files[len(files) // 2], files[-1]]))
