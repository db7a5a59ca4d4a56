"""The servers, each started once when a first test asks for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support import ceph, hadoop
from tests.support.ceph import Gateway
from tests.support.hadoop import FileSystem


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    if reason := ceph.missing():
        pytest.skip(reason)
    with ceph.running_gateway(tmp_path_factory.mktemp("ceph")) as running:
        yield running


@pytest.fixture(scope="session")
def file_system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FileSystem]:
    if reason := hadoop.missing():
        pytest.skip(reason)
    with hadoop.running_file_system(tmp_path_factory.mktemp("hadoop")) as running:
        yield running
