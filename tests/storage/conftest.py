"""The places that storages are tested at, and the servers there."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ctr_samples.shards import Storage, open_storage
from tests.support import ceph
from tests.support.server_fixtures import file_system, gateway

__all__ = ["file_system", "gateway"]

STORES = ["disk", "S3", "HDFS"]
_SOON = 0.003
"""Seconds until a race starts: enough for a line to reach both processes."""


@pytest.fixture
def place_in(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """``place_in("S3")``: the URL of an empty directory of that kind of store, which the environment leads to."""

    def make(store: str) -> str:
        if store == "disk":
            return str(tmp_path / "samples")
        if store == "HDFS":
            return f"{request.getfixturevalue('file_system').url}/{tmp_path.name}/samples"
        for variable, value in request.getfixturevalue("gateway").environ.items():
            monkeypatch.setenv(variable, value)
        return f"s3://{ceph.BUCKET}/{tmp_path.name}/samples"

    return make


@pytest.fixture(params=STORES)
def storage(request: pytest.FixtureRequest, place_in: Callable[[str], str]) -> Storage:
    """Each kind of store in turn, at a place where nothing is yet."""
    return open_storage(place_in(request.param))


@pytest.fixture
def started() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """``started("racer", url, "one")``: a module of this directory in a process that ends with the test."""
    processes: list[subprocess.Popen[str]] = []

    def start(module: str, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", f"tests.storage.{module}", *arguments]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


@pytest.fixture
def race(started: Callable[..., subprocess.Popen[str]]) -> Callable[[str, str], tuple[str, str]]:
    """``race(url, path)``: what two processes answer that put the same path at the same moment."""
    racers: list[subprocess.Popen[str]] = []

    def run(url: str, path: str) -> tuple[str, str]:
        if not racers:
            racers.extend(started("racer", url, name) for name in ("one", "two"))
            assert [_line_of(racer) for racer in racers] == ["ready", "ready"]
        moment = time.monotonic() + _SOON
        for racer in racers:
            assert racer.stdin is not None
            racer.stdin.write(f"{path} {moment}\n")
            racer.stdin.flush()
        one, two = (_line_of(racer) for racer in racers)
        return one, two

    return run


@pytest.fixture
def kill_while_writing(started: Callable[..., subprocess.Popen[str]]) -> Callable[[str, str, int], None]:
    """``kill_while_writing(url, path, size)``: a process opens the file, writes so many bytes and is killed."""

    def run(url: str, path: str, size: int) -> None:
        writer = started("dying_writer", url, path, str(size))
        assert _line_of(writer) == "writing"
        writer.kill()
        writer.wait()

    return run


@pytest.fixture
def read_after_fork(started: Callable[..., subprocess.Popen[str]]) -> Callable[[str, str, str], str]:
    """``read_after_fork(url, path, what)``: what a child reads whose parent had used the storage before it forked."""

    def run(url: str, path: str, what: str) -> str:
        return started("forked_reader", url, path, what).communicate(timeout=60)[0]

    return run


def _line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()
