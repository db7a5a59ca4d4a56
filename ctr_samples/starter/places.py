"""Input locations: files, directories of files, and paths that contain the day."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path

from ctr_samples.errors import InputError, UsageError
from ctr_samples.starter.tables import Column, Options, Table, plain_name

_DAY = re.compile(
    r"(?<!\d)(\d{4})(\D?)(\d\d)(\D?)(\d\d)(?!\d)|(?<==)(\d{4})(/\w+=)(\d{1,2})(/\w+=)(\d{1,2})(?!\d)", re.ASCII
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
    files = _files_below(root)
    if not files:
        raise InputError(f"{path} is empty; name an input that has rows.")
    is_day = _template([root], root.parent) is not None
    around = root.parent if is_day or root.is_file() else root
    if template := _template(_files_below(around) if is_day and root.is_dir() else files, around):
        return [_dated(template)]
    if len(files) == 1 and _kind(files[0], files[0].parent) != "part":
        return [InputPath(str(files[0]), tuple(files))]
    if root.is_file() or len({_kind(file, root) for file in files}) == 1:
        return [InputPath(path, tuple(files))]
    places: dict[str, InputPath] = {}
    for child in filter(_is_data, sorted(root.iterdir())):
        with suppress(InputError):  # of an empty one
            places |= {place.path: place for place in find_places(str(child))}
    return list(places.values())  # each file of a dated set yields the whole set


def _is_data(path: Path) -> bool:
    return not path.name.startswith(("_", ".")) and path.suffix.lower() not in _DOCUMENTS


def _files_below(root: Path) -> list[Path]:
    """Return the files with data, in order."""
    if root.is_file():
        return [root] if root.stat().st_size else []
    return sorted(file for child in root.iterdir() if _is_data(child) for file in _files_below(child))


def _template(files: Sequence[Path], root: Path) -> str | None:
    """Return the path of all files up to the day, with the day as a template, or None if they have no such path."""
    found = [_day_of("/".join(file.parts[len(root.parts) :])) for file in files]
    short = any(len(part) == 1 for one in found if one for part in (one[3], one[5]))
    templates = set()
    for one in found:
        if one is None:
            return None
        before, _, by, _, then, _, rest = one
        m, d = ("%-m", "%-d") if short else ("%m", "%d")
        day = f"{{date:%Y{by}{m}{then}{d}}}" if by != "-" else "{date}"
        if f"{by}{then}".strip("-/_."):
            day = f"{{date:%Y}}{by}{{date:{m}}}{then}{{date:{d}}}"
        templates.add(str(root / f"{before}{day}{rest.partition('/')[0]}"))
    return templates.pop() if len(templates) == 1 else None


def _day_of(below: str) -> tuple[str, ...] | None:
    """Split a path at the first day in it: what is before, the year, the month and the day with what parts them, the rest."""
    for found in _DAY.finditer(below):
        year, by, month, then, day = filter(lambda part: part is not None, found.groups())
        with suppress(ValueError):
            date(int(year), int(month), int(day))
            return below[: found.start()], year, by, month, then, day, below[found.end() :]
    return None


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
    below = _files_below(root) if root.is_dir() else []
    files = {file: day for file in below if (day := _day_in(path, file))}
    if not files:
        such = _TEMPLATE.sub(lambda form: f"{date(2019, 6, 5):{form[1] or '%Y-%m-%d'}}", path)
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
