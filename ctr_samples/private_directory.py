"""A directory that no other user can write to, since it holds code to be executed.

The directory is checked once, through the descriptor that is then used to access its files, so that nothing can be
swapped in between. Symbolic links are not followed, neither to the directory nor to a file in it.
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
except ModuleNotFoundError:  # Windows has no directory descriptors either: no directory is ever opened
    fcntl = None  # type: ignore[assignment]


def user_cache() -> Path:
    """Return ``$CTR_SAMPLES_CACHE_DIR``, else ``ctr-samples`` in ``$XDG_CACHE_HOME``, by default ``~/.cache``."""
    if chosen := os.environ.get("CTR_SAMPLES_CACHE_DIR"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "ctr-samples"


class NotPrivate(Exception):
    """Raised if other users may have written to the directory. The message has the reason."""


class PrivateDirectory:
    """A handle to an open private directory. Reads only regular files directly in the directory, and follows no links."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def read(self, name: str) -> bytes | None:
        """Read a file, or return None if it is missing, not a regular file, or may have been written by other users."""
        with contextlib.suppress(OSError), os.fdopen(self._open(name, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            status = os.fstat(file.fileno())
            if stat.S_ISREG(status.st_mode) and exposure(status) is None:
                return file.read()
        return None

    def replace(self, name: str, data: bytes) -> None:
        """Write a file atomically. Raises OSError."""
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
        """Hold a lock shared by the processes of this host. Raises OSError if the directory is not writable."""
        # Neither truncated nor written: the file exists only to be locked.
        lock = self._open(name, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            with contextlib.suppress(OSError):  # without locks, several processes may compile, which is merely slow
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def is_locked(self, name: str) -> bool:
        """Whether any process on this host holds the lock now. Raises OSError if the lock file does not exist."""
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
    """Open the directory at ``path``. With ``create``, create it for this user alone if it is missing.

    Raises NotPrivate if other users could have written to the directory, and OSError if it cannot be opened.
    """
    if fcntl is None:
        raise OSError("this system cannot open directories")
    if create:
        _make(path)
    if path.is_symlink():
        raise NotPrivate("it is a symbolic link")
    # If the link is created only now, this raises OSError.
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        reason = exposure(os.fstat(handle))
        if reason is not None:
            raise NotPrivate(reason)
        yield PrivateDirectory(handle)
    finally:
        os.close(handle)


def exposure(status: os.stat_result) -> str | None:
    """Return how another user could write to a file, or None if only its owner can and is this user or root."""
    if status.st_uid not in (os.geteuid(), 0):
        return f"it belongs to user {status.st_uid}"
    return "others can write to it" if status.st_mode & 0o022 else None


def _make(path: Path) -> None:
    if not path.parent.exists():
        _make(path.parent)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
