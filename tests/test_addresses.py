"""Addresses: an output that lies among the inputs, however both are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctr_samples.addresses import check_address, check_apart, overlap
from ctr_samples.errors import UsageError


@pytest.mark.parametrize(
    ("read", "written", "how"),
    [
        ("/d/log", "/d/log", "is the same directory as"),
        ("/d/log/", "/d/log", "is the same directory as"),
        ("/d/log", "/d/log/out", "lies inside of"),
        ("/d/log", "/d/x/../log/out", "lies inside of"),
        ("/d/log", "file:///d/log/out", "lies inside of"),
        ("file:/d//log", "/d/log/out", "lies inside of"),
        ("file://localhost/d/log", "/d/log/out", "lies inside of"),
        ("/d/log/part.parquet", "/d", "is above"),
        ("/d/log/dt={date}", "/d/log", "is above"),
        ("/d/log/dt={date}", "/d/log/dt=2019-06-05/out", "lies inside of"),
        ("/d/log/*", "/d/log/out", "is the same directory as"),
        ("/d/log/*/x", "/d/log", "is above"),
        ("s3a://b/log/", "s3://b/log/out", "lies inside of"),
        ("hdfs://n/log", "hdfs://n/log/out/", "lies inside of"),
        ("/d/log/dt={date}", "/d/log/out", None),
        ("/d/log/{date:%Y/%m/%d}/x", "/d/log/2019", "is above"),
        ("/d/log/{date:%Y/%m/%d}", "/d/log/2019/06/05/out", "lies inside of"),
        ("/d/log/{date:%Y%m%d}", "/d/log/out", None),
        ("/d/log", "/d/logs", None),
        ("/d/log", "/d/out", None),
        ("s3://b/log", "s3://c/log", None),
        ("s3://b/log", "gs://b/log", None),
        ("/d/[a-c]/log", "/d/b/log/out", "lies inside of"),
        ("/d/{a,b}/log", "/d/b/log/out", "lies inside of"),
        ("/", "/d", "lies inside of"),
    ],
)
def test_an_output_is_inside_of_an_input_or_above_it_or_apart(read: str, written: str, how: str | None) -> None:
    assert overlap(read, written) == how


def test_links_and_relative_paths_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "log")
    monkeypatch.chdir(tmp_path)
    assert overlap("log/dt={date}", f"{tmp_path}/link") == "is above"
    assert overlap(f"{tmp_path}/link", "log/out") == "lies inside of"
    with pytest.raises(UsageError, match="The output log/out lies inside of the input link; choose a directory apart"):
        check_apart("link", "log/out")
    check_apart("link", "out")


def test_an_address_with_credentials_is_refused_without_being_repeated() -> None:
    with pytest.raises(UsageError, match="^The address holds credentials") as caught:
        check_address("s3://AKIA1:hush@bucket/x")
    assert "hush" not in str(caught.value)
