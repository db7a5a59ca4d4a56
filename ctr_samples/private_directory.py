"""A directory that nobody else can write to: it holds code that will be executed.

It is checked once, through the descriptor with which its files are then reached, so that nothing can be exchanged in
between. No symbolic link is followed, neither to the directory nor to a file in it.
"""

from __future__ import annotations

import contextlib
import os
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ModuleNotFoundError:  # Windows, which has no descriptors of directories either: no directory is ever opened
    fcntl = None  # type: ignore[assignment]


def user_cache() -> Path:
    """Where this user keeps what can be made again: ``$CTR_SAMPLES_CACHE_DIR``, or ours among the caches of the home."""
    if chosen := os.environ.get("CTR_SAMPLES_CACHE_DIR"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "ctr-samples"


class NotPrivate(Exception):
    """Others may have written to the directory; the message says how."""


class PrivateDirectory:
    """The open directory. Its files are those that it has, owned as it is, and no links."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def read(self, name: str) -> bytes | None:
        """A file's content, or None if it is missing, is no plain file, or others may have written it."""
        with contextlib.suppress(OSError), os.fdopen(self._open(name, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            status = os.fstat(file.fileno())
            if stat.S_ISREG(status.st_mode) and exposure(status) is None:
                return file.read()
        return None

    def replace(self, name: str, data: bytes) -> None:
        """Store a file so that a reader sees all of it or nothing. Raises OSError."""
        temporary = f"{name}.{uuid.uuid4().hex}"
        try:
            with os.fdopen(self._open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "wb") as file:
                file.write(data)
            os.replace(temporary, name, src_dir_fd=self._handle, dst_dir_fd=self._handle)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=self._handle)
            raise

    @contextlib.contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Hold a lock among the processes of this host. Raises OSError where the directory cannot be written."""
        # Neither truncated nor written: the file is there to be locked.
        lock = self._open(name, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            with contextlib.suppress(OSError):  # a file system without locks: several may compile, which is only slow
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def is_locked(self, name: str) -> bool:
        """Whether a process of this host holds the lock now. Raises OSError where there never was one."""
        lock = self._open(name, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(lock)
        return False

    def _open(self, name: str, flags: int, mode: int = 0) -> int:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=self._handle)


@contextlib.contextmanager
def private_directory(path: Path, *, create: bool) -> Iterator[PrivateDirectory]:
    """The directory at ``path``; with ``create`` it is made if it is missing, for this user alone.

    Raises NotPrivate where others could have written, and OSError where it cannot be opened.
    """
    if fcntl is None:
        raise OSError("this system cannot open directories")
    if create:
        _make(path)
    if path.is_symlink():
        raise NotPrivate("it is a symbolic link")
    # Should the link be made only now, this ends with an OSError.
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        reason = exposure(os.fstat(handle))
        if reason is not None:
            raise NotPrivate(reason)
        yield PrivateDirectory(handle)
    finally:
        os.close(handle)


def exposure(status: os.stat_result) -> str | None:
    """How somebody else could have written there, or None: what we execute is ours or root's, and only its owner writes it."""
    if status.st_uid not in (os.geteuid(), 0):
        return f"it belongs to user {status.st_uid}"
    return "others can write to it" if status.st_mode & 0o022 else None


def _make(path: Path) -> None:
    if not path.parent.exists():
        _make(path.parent)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
