"""A mounted file system that fails when told to. Needs Linux with /dev/fuse, fusermount and fusepy, else tests are skipped."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator

import pytest

from tests.disk_faults.mounted_disk import Disk, mounted_disk


@pytest.fixture(scope="session")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Disk]:
    for missing, reason in (
        (not os.path.exists("/dev/fuse"), "there is no /dev/fuse"),
        (shutil.which("fusermount") is None, "there is no fusermount (Debian: apt-get install fuse)"),
        (importlib.util.find_spec("fuse") is None, "there is no fusepy (pip install fusepy)"),
    ):
        if missing:
            pytest.skip(f"The failing disk is a FUSE file system, and {reason}.")
    with mounted_disk(tmp_path_factory.mktemp("behind"), tmp_path_factory.mktemp("disk")) as mounted:
        yield mounted
