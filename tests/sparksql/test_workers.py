"""Workers of Spark's daemon keep what they have imported out of garbage collections."""

from __future__ import annotations

import gc
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from ctr_samples.sparksql.workers import DAEMON, freeze_imports


@pytest.mark.parametrize(("started", "frozen"), [("pyspark.daemon", 1), (DAEMON, 1), ("pytest", 0)])
def test_only_a_worker_of_sparks_daemon_freezes_what_is_imported(
    started: str, frozen: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    main = ModuleType("__main__")
    main.__spec__ = ModuleSpec(started, None)
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.setattr(gc, "freeze", lambda: calls.append("freeze"))
    freeze_imports()
    assert len(calls) == frozen
