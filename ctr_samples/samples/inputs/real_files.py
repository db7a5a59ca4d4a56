"""Finds each real file below local directories once, regardless of symbolic links. Runs on the driver, without Spark.

::

    day/part-0                   read
    day/part-1 -> /bulk/part-1   read and reported
    day/again -> part-0          skipped, since part-0 is read by its own name; reported
    day/loop -> ..               skipped, since it leads to a directory above; reported
    day/gone -> nowhere          skipped; reported
    day/pipe                     a FIFO, a socket or a device: skipped; reported
    day/_x, day/.x               never read

A hard link counts as a separate file, like a copy.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

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
    """Find each real file below the roots once. Visits names without links first, so a link never hides a file's own
    name.

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
