"""Stopping Spark beside its Python workers."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from ctr_samples.sparksql import workers


def test_spark_stops_only_after_its_workers_are_warm(monkeypatch: pytest.MonkeyPatch) -> None:
    warm, stopped = threading.Event(), []
    warming = threading.Thread(target=warm.wait)
    warming.start()
    monkeypatch.setattr(workers, "_WARMING", {"an application": warming})
    spark: Any = SimpleNamespace(
        sparkContext=SimpleNamespace(applicationId="an application"), stop=lambda: stopped.append(warming.is_alive())
    )
    stopping = threading.Thread(target=workers.stop, args=(spark,))
    stopping.start()
    assert stopped == []
    warm.set()
    stopping.join()
    assert stopped == [False]
