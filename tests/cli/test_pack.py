"""What ``ctr-samples pack`` refuses; tests/packed runs what it makes."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctr_samples import packing
from ctr_samples.errors import UsageError


def test_a_checkout_is_refused_as_the_archive_would_not_have_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="outside of this environment's packages in .*; install its wheel"):
        packing.pack(tmp_path / "environment.tar.gz", "x86-64-v3")


def test_an_ending_that_spark_would_not_unpack_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "packed_file", lambda: Path(packing.sysconfig.get_path("purelib")) / "a/b/kernels")
    with pytest.raises(UsageError, match=r"by its ending; name it \*\.tar\.gz"):
        packing.pack(tmp_path / "environment.zip", "x86-64-v3")
    assert list(tmp_path.iterdir()) == []
