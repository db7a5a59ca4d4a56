"""What ``ctr-samples pack`` refuses; tests/packed runs what it makes."""

from __future__ import annotations

import io
import sys
import sysconfig
import tarfile
from pathlib import Path

import pytest

from ctr_samples.cli import pack as packing
from ctr_samples.codec import machine_code
from ctr_samples.errors import UsageError


def test_a_checkout_is_refused_as_the_archive_would_not_have_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="outside of this environment's packages in .*; install its wheel"):
        packing.write_archive(tmp_path / "environment.tar.gz", "x86-64-v3")


def test_an_ending_that_spark_would_not_unpack_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_code, "packed_file", lambda: Path(sysconfig.get_path("purelib")) / "a/b/kernels")
    with pytest.raises(UsageError, match=r"by its ending; name it \*\.tar\.gz"):
        packing.write_archive(tmp_path / "environment.zip", "x86-64-v3")
    assert list(tmp_path.iterdir()) == []


def archive_of(place: Path, python: str) -> Path:
    """An archive whose Python is a script that begins this one in some way."""
    script = f"#!/bin/sh\nexec {python}\n".encode()
    entry = tarfile.TarInfo("bin/python")
    entry.size, entry.mode = len(script), 0o755
    with tarfile.open(place / "archive", "w:gz") as tar:
        tar.addfile(entry, io.BytesIO(script))
    return place / "archive"


@pytest.mark.thorough
def test_an_archive_that_runs_alone_passes(tmp_path: Path) -> None:
    packing.try_archive(archive_of(tmp_path, f'{sys.executable} "$@"'), tmp_path / "host")


@pytest.mark.parametrize(
    ("python", "said"),
    [
        (f'{sys.executable} -S "$@"', "ModuleNotFoundError: No module named"),
        ("/nowhere/python", "not found"),
        ("sh -c 'exit 7'", "it ended with 7"),
    ],
)
def test_an_archive_without_packages_or_python_is_refused_in_one_sentence(
    tmp_path: Path, python: str, said: str
) -> None:
    with pytest.raises(UsageError, match=f"does not run alone: .*{said}.*--system-site-packages or a .pth file"):
        packing.try_archive(archive_of(tmp_path, python), tmp_path / "host")


def test_what_is_tried_are_the_packages_that_are_here_and_not_left_out() -> None:
    needed = packing._needed()
    assert {"pyspark", "pyarrow", "numba", "numpy"} <= set(needed)
    assert "tensorflow" not in needed
