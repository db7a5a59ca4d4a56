"""Files shipped with the package: jobs for spark-submit, configurations, and the data of the demo.

They are in the directories ``jobs``, ``conf`` and ``data`` of the repository; a wheel has them inside the package.
"""

from __future__ import annotations

from pathlib import Path

from ctr_samples.errors import UsageError

_DIRECTORIES = ("conf", "data", "jobs")


def shipped(name: str) -> Path:
    """Path of a shipped file or directory, such as ``conf/toutiao.yaml``. Raises UsageError if it is not shipped."""
    path = _root() / name
    if name.split("/", maxsplit=1)[0] not in _DIRECTORIES or ".." in path.parts or not path.exists():
        raise UsageError(f"{name!r} does not come with ctr-samples; `ctr-samples where` lists what does.")
    return path


def shipped_files() -> list[str]:
    """Sorted names of all files shipped with the package."""
    root = _root()
    files = [file for name in _DIRECTORIES for file in (root / name).rglob("*") if file.is_file()]
    return sorted(str(file.relative_to(root)) for file in files if "__pycache__" not in file.parts)


def _root() -> Path:
    package = Path(__file__).parent
    return package if (package / "conf").is_dir() else package.parent
