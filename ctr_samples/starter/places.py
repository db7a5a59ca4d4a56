"""Where inputs lie: files, directories of files, and paths that name the day."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from ctr_samples.errors import InputError, UsageError
from ctr_samples.starter.tables import plain_name

_DAY = re.compile(r"(?<!\d)\d{4}-\d\d-\d\d(?!\d)")
ENDINGS = re.compile(r"(\.(csv|tsv|txt|json|jsonl|ndjson|log|parquet|orc|snappy|zstd|zst|gz|bz2))+$", re.IGNORECASE)
_DOCUMENTS = {".md", ".yaml", ".yml", ".py", ".html", ".pdf", ".rst"}


@dataclass(frozen=True, slots=True)
class Place:
    """One input as a path of the configuration, the files under it, and the days that the path names."""

    path: str
    files: tuple[Path, ...]
    days: tuple[date, ...] = ()

    @property
    def name(self) -> str:
        """What the input may be called: the last part of the path that says something."""
        parts = [ENDINGS.sub("", part) for part in self.path.split("/") if "={date}" not in part]
        words = [word for part in parts if (word := re.sub(r"\W+", "_", part.replace("{date}", "")).strip("_"))]
        name = plain_name(words[-1]).lower() if words else ""
        return (name if name[:1].isalpha() else f"log_{name}".rstrip("_"))[:40]

    def day_of(self, file: Path) -> date | None:
        """The day that the path of one of its files names."""
        found = _DAY.search(str(file)[len(self.path.partition("{date}")[0]) :]) if self.days else None
        return date.fromisoformat(found[0]) if found else None

    @property
    def days_said(self) -> str:
        """Which days are there, in words; empty where the path names none."""
        return f"{len(self.days)} day(s) are there, {min(self.days)} to {max(self.days)}" if self.days else ""

    @property
    def day_column(self) -> str | None:
        """``dt`` of ``users/dt={date}``."""
        match = re.search(r"(?:^|/)([A-Za-z_]\w*)=\{date\}(?:/|$)", self.path)
        return match[1] if match else None


def find_places(path: str) -> list[Place]:
    """The inputs under a path: one, or each file and directory below it where these are of several kinds.

    UsageError for a path that does not exist or names hours, InputError for one without any file that has bytes.
    """
    if "{hour}" in path:
        days = path[: path.index("{hour}")].rpartition("/")[0]
        raise UsageError(
            f"{path} names hours; name the days, as in {days}: what lies below a day is read with it. A run makes an hour "
            "with `grain: hour` in the configuration, whose paths may name hours."
        )
    if "{date}" in path:
        return [_dated(path)]
    root = Path(path).expanduser()
    if not root.exists():
        raise UsageError(f"There is no {path}; name a file, a directory, a path with {{date}}, or a table as db.name.")
    files = [root] if root.is_file() else sorted(_files_below(root))
    if not any(file.stat().st_size for file in files):
        raise InputError(f"{path} is empty; name an input that has rows.")
    files = [file for file in files if file.stat().st_size]
    around = root.parent if _DAY.search(root.name) else root
    if around != root and root.is_dir():  # one day of several: `dt=2019-06-05`
        files = sorted(_files_below(around))
    paths = {_template(file, around) for file in files}
    if len(paths) == 1 and "{date}" in (template := next(iter(paths))):
        return [_dated(template)]
    if len(files) == 1 and _kind(files[0], files[0].parent) != "part":
        return [Place(str(files[0]), tuple(files))]
    if root.is_file() or len({_kind(file, root) for file in files}) == 1:
        return [Place(path, tuple(files))]
    below = [child for child in sorted(root.iterdir()) if _is_data(child)]
    places = [place for child in below for place in _found(child)]
    return list({place.path: place for place in places}.values())  # each of the files of several days finds them all


def _found(child: Path) -> list[Place]:
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


def _template(file: Path, root: Path) -> str:
    """The path up to the part that names the day, with ``{date}`` in place of it; without a day the file's own."""
    parts = file.parts[len(root.parts) :]
    for number, part in enumerate(parts, 1):
        if _DAY.search(part):
            named = [*parts[: number - 1], _DAY.sub("{date}", part, count=1)]
            return str(root.joinpath(*named))
    return str(file)


def _kind(file: Path, root: Path) -> str:
    """What files of one input have in common: the first name below the directory, without numbers."""
    first = file.relative_to(root).parts[0]
    if "=" in first:
        return first.partition("=")[0]
    if re.match(r"part[-_.]?\w", first):
        return "part"
    return re.sub(r"[\d_.-]+", "", ENDINGS.sub("", first))


def _dated(path: str) -> Place:
    """The files of each day that is there."""
    root = Path(path.partition("{date}")[0]).expanduser()
    base = root if path.partition("{date}")[0].endswith("/") else root.parent
    tail = str(Path(path).expanduser())[len(str(base)) :].lstrip("/")
    found = [
        (match[1], one)
        for one in sorted(base.glob(tail.replace("{date}", "*")))
        if (match := re.search(re.escape(tail).replace(r"\{date\}", r"(\d{4}-\d\d-\d\d)") + "$", str(one)))
    ]
    files = [file for _, one in found for file in (sorted(_files_below(one)) if one.is_dir() else [one])]
    files = [file for file in files if file.stat().st_size]
    if not files:
        raise InputError(
            f"{path} has no file with rows on any day; expected paths such as {path.format(date='2019-06-05')}."
        )
    return Place(path, tuple(files), tuple(date.fromisoformat(day) for day, _ in found))


def some_of(files: Sequence[Path]) -> list[Path]:
    """The first file, the one in the middle and the last."""
    return list(dict.fromkeys([files[0], files[len(files) // 2], files[-1]]))
