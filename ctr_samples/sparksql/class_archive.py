"""Archive of Spark's loaded classes: with it, a local command starts in two thirds of the time.

The JVM writes the file itself when the first run ends (HotSpot's application class-data sharing). It ignores a file
made by a different JVM or for different jars, and then starts as without one. The file takes about 190 MB. Its contents
will be executed, so it lies where nobody else can write (``private_directory.py``).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pyspark

from ctr_samples.private_directory import NotPrivate, exposure, private_directory, user_cache

SWITCH = "CTR_SAMPLES_CLASS_ARCHIVE"
"""Environment variable; ``off`` keeps the JVM from writing or reading the file."""

_WHOLE = (0xF00BABA8).to_bytes(4, "little")
"""First bytes of a complete file: the JVM writes them last. A file that is otherwise incomplete crashes it."""

_FORGOTTEN_S = 30 * 86400
_QUIET = "-Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off -XX:+IgnoreUnrecognizedVMOptions"


def java_options(java: str, *, record: bool) -> str:
    """JVM options to start from the archive, if it exists; else, with ``record``, to write one at exit.

    ``java`` is the path of the program. Empty if there is no file and none can be kept.
    """
    place = user_cache()
    if os.environ.get(SWITCH) == "off" or '"' in str(place):
        return ""
    try:
        with private_directory(place, create=record):
            archive = _archive(place, _key(java))
    except (NotPrivate, OSError):
        return ""
    if archive.exists():
        os.utime(archive)
        return f'-XX:SharedArchiveFile="{archive}" {_QUIET}'
    return f'-XX:ArchiveClassesAtExit="{place}/{archive.stem}.{uuid.uuid4().hex}" {_QUIET}' if record else ""


def _archive(place: Path, key: str) -> Path:
    """Return the file of a key, once complete. Renames a file written since the last command, and deletes old ones."""
    # The name holds the size, since a truncated file must not be used.
    for file in _files(place, f"classes-{key}-*.jsa"):
        if file.name == f"classes-{key}-{file.stat().st_size}.jsa":
            return file
        file.unlink()
    for written in _files(place, f"classes-{key}.*"):
        with written.open("rb") as content:
            if content.read(len(_WHOLE)) != _WHOLE:
                continue  # still being written, or never to be
            os.fsync(content.fileno())
        return written.rename(place / f"classes-{key}-{written.stat().st_size}.jsa")
    for file in _files(place, "classes-*"):
        if file.stat().st_mtime < time.time() - _FORGOTTEN_S:
            file.unlink()
    return place / f"classes-{key}.jsa"


def _files(place: Path, pattern: str) -> Iterator[Path]:
    """Yield files that nobody else can have written; a concurrent JVM may remove files at any time."""
    for path in sorted(place.glob(pattern)):
        with contextlib.suppress(FileNotFoundError):
            status = path.lstat()
            if stat.S_ISREG(status.st_mode) and exposure(status) is None:
                yield path


def _key(java: str) -> str:
    """Key that changes whenever the JVM or Spark's jars do."""
    program = Path(os.path.realpath(java))
    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    changed = [path.stat().st_mtime_ns for path in (program, home / "jars")]
    return hashlib.sha256(repr((program, home, pyspark.__version__, changed)).encode()).hexdigest()[:16]
