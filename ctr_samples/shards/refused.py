"""Runs refused by the quality gate: their report is next to their shards, but no manifest lists them."""

from __future__ import annotations

from ctr_samples.periods import Period
from ctr_samples.shards.naming import REPORT, run_directory, started_at
from ctr_samples.shards.storage import Storage


def refused_run(storage: Storage, day: Period, after: str) -> str | None:
    """Newest run of a day that started after the run ``after`` and has a report.

    If ``after`` is the newest published run, this is a run refused since; an empty ``after`` includes all runs.
    """
    for run in reversed(storage.names(run_directory(day, "").rstrip("/"))):
        if run > after and started_at(run) is not None and REPORT in storage.names(run_directory(day, run)):
            return run
    return None
