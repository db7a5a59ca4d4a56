"""A disk that nothing waits for."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """To wait for the disk would be most of the time, and no reader here looks after a power cut."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)
