"""Lists the data files under the paths of a source, each once: local ones from the file system, others by one Spark job."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import date, timedelta
from itertools import dropwhile
from typing import Any, cast

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F

from ctr_samples.day_paths import DayPath
from ctr_samples.errors import InputError
from ctr_samples.periods import Period
from ctr_samples.samples.inputs.databases import TableVersion
from ctr_samples.samples.inputs.text_lines import CsvColumns
from ctr_samples.sparksql.failures import input_errors

LOG_DAY = "_log_day"
"""Column with the day in the path of a row's file. Exists only for sources whose path names the day."""
SEED = 0
"""Fixed sampling seed, so that planning a run again gives the same plan."""
_ONE_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class InputFile:
    """An input file as seen by the driver before the run."""

    path: str
    bytes: int
    modified_ms: int


@dataclass(frozen=True, slots=True)
class Listing:
    """Files under an existing path. The path may match several roots, and a root may be a file."""

    files: list[InputFile] = field(default_factory=list)
    layouts: set[tuple[str, ...]] = field(default_factory=set)
    """Names of the ``key=value`` directories between root and file: ``hour=01/host1/x.json`` -> ``("hour",)``."""
    roots: set[str] = field(default_factory=set)
    named: dict[str, list[str]] = field(default_factory=dict)
    """Files of each root as globs, if no other file under it may be read. If empty, Spark reads the path itself."""
    told: list[str] = field(default_factory=list)
    """One sentence for each kind of symbolic link or special file."""
    empty: list[str] = field(default_factory=list)
    """Files without a byte, if there are no others."""

    def to_load(self, path: str) -> list[str]:
        """Return paths that make Spark read exactly these files: the path itself, unless a link leads out of it."""
        return [name for names in self.named.values() for name in names] or [path]


def find_files(spark: SparkSession, where: str, paths: Sequence[str]) -> dict[str, Listing]:
    """List the files under each existing path or glob, as Spark reads them with ``recursiveFileLookup``.

    Skips empty files and names that start with ``_`` or ``.``. Lists each real file of a local directory once,
    regardless of links to it. Raises InputError, prefixed with ``where``, for a path that cannot be listed and for a
    file that belongs to two of the paths.
    """
    roots = _find_roots(spark, where, paths)
    listings = {path: Listing() for path in roots.values()}
    real = _real_files(where, roots)
    for path, found in real.items():
        listings[path].told.extend(f"{where}: {sentence}" for sentence in found.sentences(path))
    only_named = any(found.told for found in real.values())
    local = [file for path, found in real.items() for file in _input_files(where, path, found)]
    for file in [*local, *_list_files(spark, where, [path for path in listings if path not in real])]:
        root = _root_of(where, file.path, roots)
        listing = listings[roots[root]]
        listing.files.append(file)
        listing.roots.add(root)
        listing.layouts.add(_keys(file.path[len(root) :].strip("/").split("/")[:-1]))
        if only_named:
            listing.named.setdefault(root, []).append(glob_of(file.path))
    for path, listing in listings.items():
        if not listing.files:
            with input_errors(f"{where}: {path} cannot be listed; check the path and its permissions"):
                listing.empty.extend(_lister(spark).load(path).inputFiles())
    return listings


def _real_files(where: str, roots: dict[str, str]) -> dict[str, RealFiles]:
    """Return the real local files of each path. Raises InputError if paths of two days share a file."""
    local: dict[str, list[str]] = {}
    for root, path in roots.items():
        if root.startswith("file:/"):
            local.setdefault(path, []).append(root.removeprefix("file:"))
    found: dict[str, RealFiles] = {}
    paths: dict[str, str] = {}
    for path, names in local.items():
        with _listing_errors(where, path):
            found[path] = real_files(names)
        for real, name in found[path].names.items():
            if real in paths:
                other = paths[real]
                raise InputError(
                    f"{where}: {found[other].names[real]}, under {other}, and {name}, under {path}, are the same file by a "
                    "symbolic link; expected files of one day only. Remove the link, or copy the file if both days have it."
                )
            paths[real] = path
    return found


def _input_files(where: str, path: str, found: RealFiles) -> list[InputFile]:
    """Return the local files that Spark reads: those that have a byte, and a name that is not hidden."""
    with _listing_errors(where, path):
        stats = [(name, os.stat(name)) for name in found.names.values() if not _is_hidden(os.path.basename(name))]
    return [InputFile(f"file:{name}", of.st_size, of.st_mtime_ns // 1_000_000) for name, of in stats if of.st_size]


@contextmanager
def _listing_errors(where: str, path: str) -> Iterator[None]:
    """Raise an OSError as an InputError."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{where}: {path} cannot be listed; check the path and its permissions: {error.filename}: {error.strerror}."
        ) from None


def glob_of(name: str) -> str:
    """Return a glob that matches only the given name."""
    return re.sub(r"[\\{}\[\]*?]", r"\\\g<0>", f"file:{name}" if name.startswith("/") else name)


def days_there(spark: SparkSession, where: str, path: DayPath) -> list[date]:
    """Return the days for which the path exists, in order. Raises the errors of :func:`find_files`."""
    roots = _find_roots(spark, where, [path.glob("date")])
    return sorted({day for root in roots if (day := path.day_of(root)) is not None})


def _find_roots(spark: SparkSession, where: str, paths: Sequence[str]) -> dict[str, str]:
    """Return the files and directories that match the paths, each mapped to its path."""
    jvm = cast(Any, spark)._jvm
    settings = cast(Any, spark)._jsparkSession.sessionState().newHadoopConf()
    roots: dict[str, str] = {}
    for path in paths:
        with input_errors(f"{where}: {path} cannot be listed; check the path and its permissions"):
            pattern = jvm.org.apache.hadoop.fs.Path(path)
            filesystem = pattern.getFileSystem(settings)
            matches = jvm.org.apache.spark.deploy.SparkHadoopUtil.get().globPath(filesystem, pattern)
            # A glob may match thousands of files, so fetch all names in one call.
            names = matches.mkString("\0")
        for root in names.split("\0") if names else ():
            if root in roots:
                raise InputError(
                    f"{where}: {root} is matched by {roots[root]} and by {path}; write the path so that it matches the "
                    "files of one day only."
                )
            roots[root] = path
    return roots


def _list_files(spark: SparkSession, where: str, paths: list[str]) -> list[InputFile]:
    """List the non-empty files among or below the paths, on any file system."""
    if not paths:
        return []
    with input_errors(f"{where}: {paths[0]} cannot be listed; check the path and its permissions"):
        files = _lister(spark).load(paths)
        rows = files.select("path", "length", F.unix_millis("modificationTime")).collect()
    return [InputFile(path, length, modified) for path, length, modified in rows if length > 0]


def _lister(spark: SparkSession) -> DataFrameReader:
    """Return a reader of files whose bytes are not read."""
    lister = spark.newSession()
    # No file is opened, so file sizes must not determine the number of tasks.
    lister.conf.set("spark.sql.files.maxPartitionBytes", 2**62)
    return lister.read.format("binaryFile").option("recursiveFileLookup", True)


def _root_of(where: str, path: str, roots: dict[str, str]) -> str:
    """Return the nearest root above a path. The root of a whole file system ends with a slash."""
    parts = path.split("/")
    for length in range(len(parts), 0, -1):
        root = "/".join(parts[:length])
        if root in roots:
            return root
        if f"{root}/" in roots:
            return f"{root}/"
    raise InputError(
        f"{where}: {path} was listed but is under none of the source's paths; write the path without symbolic links."
    )


def _keys(directories: list[str]) -> tuple[str, ...]:
    """Return the keys of the directories. A plain one is ``*``, but is ignored below the last ``key=value``, as in Spark."""
    upward = dropwhile(lambda part: "=" not in part, reversed(directories))
    return tuple(part.partition("=")[0] if "=" in part else "*" for part in upward)[::-1]


_Identity = tuple[int, int]

_FOLLOWED = "symbolic links below {path} are followed"
_REPEATED = "symbolic links below {path} lead to what is read already, or to a directory above, and are left out"
_BROKEN = "symbolic links below {path} lead nowhere and are left out"
_SPECIAL = "FIFOs, sockets or devices below {path} are left out"


@dataclass(slots=True)
class RealFiles:
    """Real files below some directories or files, each with the name used to read it."""

    names: dict[str, str] = field(default_factory=dict)
    """The name of each file, by its path without links."""
    told: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Names that are not plain files or directories, grouped by the sentence that describes them."""
    _entered: set[_Identity] = field(default_factory=set)
    _above: set[_Identity] = field(default_factory=set)

    def sentences(self, path: str) -> Iterator[str]:
        """Yield one sentence for each kind of unexpected entry."""
        for what, names in self.told.items():
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            yield f"{what.format(path=path)}: {names[0]}{more}."


def real_files(roots: Sequence[str]) -> RealFiles:
    """Find each real file below the roots once. Visits names without links first, so a link never hides a file's own name.

    Raises OSError for a directory that cannot be listed.
    """
    found = RealFiles()
    for root in roots:
        found._above.update(map(_identity, _above(root)))
    links: list[str] = []
    for root in sorted(roots, key=lambda root: (os.path.islink(root), root)):
        links += _enter(found, root)
    # A link may lead to a directory with further links. `_enter` returns them to extend this list.
    for link in links:
        real = os.path.realpath(link)
        try:
            identity = _identity(real)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                raise
            found.told[_BROKEN].append(link)
            continue
        if real in found.names or identity in found._entered | found._above:
            found.told[_REPEATED].append(link)
        else:
            if os.path.isfile(real) or os.path.isdir(real):
                found.told[_FOLLOWED].append(f"{link} to {real}")
            links += _enter(found, link)
    return found


def _enter(found: RealFiles, name: str) -> list[str]:
    """Add a file, or everything below a directory, and return the symbolic links found, in order."""
    links: list[str] = []
    waiting = deque([(name, os.path.realpath(name))])
    while waiting:
        name, real = waiting.popleft()
        kind = os.stat(real)
        if not stat.S_ISDIR(kind.st_mode):
            if not stat.S_ISREG(kind.st_mode):
                found.told[_SPECIAL].append(name)
            elif found.names.setdefault(real, name) != name:
                found.told[_REPEATED].append(name)
            continue
        if (kind.st_dev, kind.st_ino) in found._entered:
            found.told[_REPEATED].append(name)
            continue
        found._entered.add((kind.st_dev, kind.st_ino))
        with os.scandir(real) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                inside = f"{name.rstrip('/')}/{entry.name}"
                if _is_hidden(entry.name):
                    continue
                if entry.is_symlink():
                    links.append(inside)
                elif entry.is_dir():
                    waiting.append((inside, entry.path))
                elif entry.is_file():
                    found.names.setdefault(entry.path, inside)
                else:
                    found.told[_SPECIAL].append(inside)
    return links


def _identity(path: str) -> _Identity:
    """Return the device and inode of a directory or file, which are the same for all its mount points."""
    found = os.stat(path)
    return found.st_dev, found.st_ino


def _above(path: str) -> Iterator[str]:
    real = os.path.realpath(path)
    while real != (real := os.path.dirname(real)):
        yield real


def _is_hidden(name: str) -> bool:
    """Whether Spark ignores a file of this name."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")


@dataclass(frozen=True, slots=True)
class FilesByDay:
    """The files of a dated source by day, with functions to restrict the source to days and to list again what the rows
    of a day are made of.

    With `unique`, these are the files of the day and of the day before it. ``lead`` are those before the first day.
    """

    files: Mapping[date, tuple[InputFile, ...]]
    only: Callable[[Collection[date]], SourceFrame]
    files_now: Callable[[date], Sequence[InputFile]]
    lead: Mapping[date, tuple[InputFile, ...]] | None = None

    def made_of(self, day: date) -> Sequence[InputFile]:
        """Return the files that decide the rows of a day."""
        if self.lead is None:
            return self.files[day]
        return (*{**self.lead, **self.files}.get(day - _ONE_DAY, ()), *self.files[day])


@dataclass(frozen=True, slots=True)
class SourceFrame:
    """A source as a lazy DataFrame, with facts about its files.

    ``rows`` has the day of each row's file in the column ``LOG_DAY``, if the path names the day. ``missing_days`` are
    the days or hours around the run without data; ``empty`` says of those that exist whether they have files, which then
    are empty. ``there`` are the periods with data. ``files`` is None for tables, whose content the driver cannot
    identify by file names. ``told`` has a sentence for each kind of link or special file. ``absent`` is the path or
    table of a missing optional source, whose frame has no rows. ``csv`` describes the columns of a CSV line.
    ``version`` is the version of a lake table. ``some_lines`` returns the rows of a share of the lines, without
    parsing the rest. ``by_day`` has the files of each day, if the path names the day.
    """

    name: str
    rows: DataFrame
    missing_days: tuple[Period, ...]
    files: tuple[InputFile, ...] | None
    absent: str | None = None
    csv: CsvColumns | None = None
    version: TableVersion | None = None
    some_lines: Callable[[float], DataFrame] | None = None
    by_day: FilesByDay | None = None
    told: tuple[str, ...] = ()
    empty: Mapping[Period, bool] = field(default_factory=dict)
    there: tuple[Period, ...] = ()

    @property
    def frame(self) -> DataFrame:
        """Rows with only the columns of the source."""
        return self.rows.drop(LOG_DAY)

    @property
    def of_days(self) -> FilesByDay:
        """Files of each day. Raises ValueError unless the path names the day."""
        if self.by_day is None:
            raise ValueError(f"the path of sources.{self.name} does not name the day")
        return self.by_day

    def sample(self, share: float) -> DataFrame:
        """Return a random share of the rows."""
        return self.rows.sample(share, SEED) if self.some_lines is None else self.some_lines(share)

    @property
    def bytes(self) -> int | None:
        """Total size of the files. None for tables."""
        return None if self.files is None else sum(file.bytes for file in self.files)

    @property
    def snapshot(self) -> dict[str, Any]:
        """Manifest entry about the input: counts, and a fingerprint of file names, sizes and times, or of a table version."""
        missing = [day.isoformat() for day in self.missing_days]
        if self.files is None:
            version = None if self.version is None else asdict(self.version)
            text = json.dumps(version, sort_keys=True)
            return {
                "files": None,
                "bytes": None,
                "fingerprint": version and hashlib.sha256(text.encode()).hexdigest()[:16],
                "missing_days": missing,
                **({"snapshot": version} if version else {}),
            }
        return {
            "files": len(self.files),
            "bytes": self.bytes,
            "fingerprint": fingerprint_of(self.files),
            "missing_days": missing,
            **({"absent": True} if self.absent is not None else {}),
        }


def fingerprint_of(files: Sequence[InputFile]) -> str:
    """Return a hash of names, sizes and modification times."""
    text = "\n".join(f"{f.path} {f.bytes} {f.modified_ms}" for f in sorted(files, key=lambda f: f.path))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
