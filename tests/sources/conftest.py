"""The servers, each started once when a first test asks for it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.sources import postgres
from tests.sources.postgres import Database, running_database


@pytest.fixture(scope="session")
def database() -> Iterator[Database]:
    """One for all tests; each has tables of its own."""
    with _running() as running:
        yield running


@pytest.fixture
def database_to_kill() -> Iterator[Database]:
    """One for a single test."""
    with _running() as running:
        yield running


@contextmanager
def _running() -> Iterator[Database]:
    if reason := postgres.missing():
        pytest.skip(reason)
    with open_directory() as directory, running_database(directory) as running:
        yield running


@contextmanager
def open_directory() -> Iterator[Path]:
    """A directory that every user may enter; those of pytest are for their owner alone."""
    with tempfile.TemporaryDirectory(prefix="sources-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(name)
