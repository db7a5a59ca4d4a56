"""An archive of Spark's loaded classes, which cuts the startup time of a local command by a third.

The JVM writes the archive at the end of the first run (HotSpot's application class-data sharing). It ignores an archive
of a different JVM or different jars and then starts normally. The file takes about 190 MB. Its contents are executed,
so it is stored where nobody else can write (``private_directory.py``).
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
"""Environment variable. ``off`` disables the archive."""

_WHOLE = (0xF00BABA8).to_bytes(4, "little")
"""First bytes of a complete file, written last by the JVM. An incomplete file would crash the JVM."""

_FORGOTTEN_S = 30 * 86400
_QUIET = "-Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off -XX:+IgnoreUnrecognizedVMOptions"


def java_options(java: str, *, record: bool) -> str:
    """Return JVM options to load the archive, if it exists, or else, with ``record``, to write it at exit.

    ``java`` is the path of the executable. Empty if no archive exists and none can be stored.
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
    """Return the archive of a key, if complete. Renames a newly written archive, and deletes old archives."""
    # The name contains the size, so that a truncated file is never used.
    for file in _files(place, f"classes-{key}-*.jsa"):
        if file.name == f"classes-{key}-{file.stat().st_size}.jsa":
            return file
        file.unlink()
    for written in _files(place, f"classes-{key}.*"):
        with written.open("rb") as content:
            if content.read(len(_WHOLE)) != _WHOLE:
                continue  # still being written, or abandoned
            os.fsync(content.fileno())
        return written.rename(place / f"classes-{key}-{written.stat().st_size}.jsa")
    for file in _files(place, "classes-*"):
        if file.stat().st_mtime < time.time() - _FORGOTTEN_S:
            file.unlink()
    return place / f"classes-{key}.jsa"


def _files(place: Path, pattern: str) -> Iterator[Path]:
    """Yield the files that no other user could have written. Tolerates concurrent removal."""
    for path in sorted(place.glob(pattern)):
        with contextlib.suppress(FileNotFoundError):
            status = path.lstat()
            if stat.S_ISREG(status.st_mode) and exposure(status) is None:
                yield path


def _key(java: str) -> str:
    """Return a cache key that changes with the JVM or Spark's jars."""
    program = Path(os.path.realpath(java))
    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    changed = [path.stat().st_mtime_ns for path in (program, home / "jars")]
    return hashlib.sha256(repr((program, home, pyspark.__version__, changed)).encode()).hexdigest()[:16]
