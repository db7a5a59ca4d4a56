"""What may have the name of a manifest and is none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

STRANGE: dict[str, Callable[[Path], object]] = {
    "an empty directory": Path.mkdir,
    "a directory with a file": lambda path: (path.mkdir(), (path / "file").write_bytes(b"{}")),
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to a directory": lambda path: path.symlink_to(".."),
    "an empty file": Path.touch,
    "bytes": lambda path: path.write_bytes(bytes(range(256))),
    "another document": lambda path: path.write_bytes(b"[]"),
    "a deep document": lambda path: path.write_bytes(b"[" * 100_000),
}


def replace_by(kind: str, path: Path) -> None:
    """Put what is strange in place of a manifest."""
    path.unlink(missing_ok=True)
    STRANGE[kind](path)
