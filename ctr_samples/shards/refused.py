"""Runs that the quality gate refused: their report lies beside their shards, but no manifest names them."""

from __future__ import annotations

from ctr_samples.periods import Period
from ctr_samples.shards.naming import REPORT, run_directory, started_at
from ctr_samples.shards.storage import Storage


def refused_run(storage: Storage, day: Period, after: str) -> str | None:
    """The newest run of a day that began after the run ``after`` and has a report.

    After the newest published run that is what was refused since; an empty ``after`` takes all runs.
    """
    for run in reversed(storage.names(run_directory(day, "").rstrip("/"))):
        if run > after and started_at(run) is not None and REPORT in storage.names(run_directory(day, run)):
            return run
    return None
