"""Many days in one Spark session. Each day is a separate run; they are judged and published in order."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Literal, Self

from pyspark.sql import SparkSession

from ctr_samples.config import LoadedConfig
from ctr_samples.errors import CtrSamplesError, InputError
from ctr_samples.job.gate import check_accepted
from ctr_samples.job.run import RunResult, run
from ctr_samples.periods import Period
from ctr_samples.shards import Manifest
from ctr_samples.sparksql.observations import Reporter, Silent

Became = Literal["published", "unchanged", "refused", "failed", "not tried"]

_SECONDS_BETWEEN_STOPS = 1

_WORST_FIRST = (5, 1, 2, 3, 4)
"""Exit codes, worst first. Unexpected errors, and errors that affect every day, precede errors of a single day."""


@dataclass(frozen=True, slots=True)
class DayOutcome:
    """The outcome of a day: its published manifest, or the error that prevented it."""

    day: Period
    became: Became
    seconds: float = 0.0
    manifest: Manifest | None = None
    error: Exception | None = None

    @classmethod
    def of_result(cls, day: Period, result: RunResult, started: float) -> Self:
        """Create the outcome of a run that began at the monotonic time ``started``."""
        became: Became = "published" if result.published else "unchanged"
        return cls(day, became, time.monotonic() - started, result.manifest)

    @classmethod
    def of_error(cls, day: Period, error: Exception, started: float) -> Self:
        """Create the outcome of a failed run that began at the monotonic time ``started``."""
        refused = getattr(error, "exit_code", None) == InputError.exit_code
        return cls(day, "refused" if refused else "failed", time.monotonic() - started, error=error)

    @property
    def exit_code(self) -> int:
        """Exit code of the command for this day alone, or 0 for a day that was not tried."""
        return 0 if self.error is None else getattr(self.error, "exit_code", CtrSamplesError.exit_code)


def worst_exit_code(outcomes: Iterable[DayOutcome]) -> int:
    """Return the exit code of the worst day, or 0 if all days succeeded."""
    codes = {outcome.exit_code for outcome in outcomes}
    return next((code for code in _WORST_FIRST if code in codes), 0)


@dataclass(frozen=True, slots=True)
class Backfill:
    """Builds days in order, ``parallel`` at once. Lives on the driver and plans each day in a thread.

    A written day waits for all earlier days, and only then is compared with them and published. So the verdicts are
    the same as for sequential runs. After the first day that fails, no later day is published, unless ``keep_going``.
    """

    spark: SparkSession
    loaded: LoadedConfig
    days: Sequence[Period]
    force: bool = False
    accept: Sequence[str] = ()
    keep_going: bool = False
    parallel: int = 1
    reporter_of: Callable[[Period], AbstractContextManager[Reporter]] = lambda day: nullcontext(Silent())
    known_by: datetime | None = None
    as_of_generation: int | None = None
    _stopped: threading.Event = field(init=False, default_factory=threading.Event)
    _tag: str = field(init=False, default_factory=lambda: f"ctr-samples-{secrets.token_hex(4)}")

    def outcomes(self) -> Iterator[DayOutcome]:
        """Yield the outcome of each day, in order, as soon as it is known. Raises UsageError for an unknown check to
        accept.

        If the caller stops early, also by Ctrl-C, the jobs of all days end, and nothing more is published.
        """
        check_accepted(self.accept)
        made: list[Future[DayOutcome]] = []
        with ThreadPoolExecutor(self.parallel, "day") as threads:
            try:
                for day in self.days:
                    # A copy of the context passes the values to mask to the thread.
                    made.append(threads.submit(copy_context().run, self._made, day, tuple(made)))
                for each in made:
                    outcome = each.result()
                    if outcome.error is not None and not self.keep_going:
                        self._stop(made)
                    yield outcome
            finally:
                self._stop(made)

    def _stop(self, made: Sequence[Future[DayOutcome]]) -> None:
        """Stop the days in progress. A day that is still being planned stops with its first job."""
        self._stopped.set()
        while not all(day.done() for day in made):
            with suppress(Exception):  # Spark is gone, and its jobs with it
                self.spark.sparkContext.cancelJobsWithTag(self._tag)
            wait(made, timeout=_SECONDS_BETWEEN_STOPS)

    def _made(self, day: Period, before: Sequence[Future[DayOutcome]]) -> DayOutcome:
        """Build a day, in its own thread. ``before`` holds the earlier days."""
        started = time.monotonic()
        try:
            self._check_turn(before)
            with self._tagged(), self.reporter_of(day) as reporter:
                result = run(
                    self.spark,
                    self.loaded,
                    day,
                    force=self.force,
                    accept=self.accept,
                    known_by=self.known_by,
                    as_of_generation=self.as_of_generation,
                    reporter=reporter,
                    before_verdict=partial(self._await_turn, before, reporter),
                )
        except _NotTried:
            return DayOutcome(day, "not tried")
        except Exception as error:
            if self._stopped.is_set():  # its job was cancelled
                return DayOutcome(day, "not tried")
            return DayOutcome.of_error(day, error, started)
        return DayOutcome.of_result(day, result, started)

    def _await_turn(self, before: Sequence[Future[DayOutcome]], reporter: Reporter) -> None:
        if before:
            reporter.stage("waiting for the days before")
            wait(before)
        self._check_turn(before)
        reporter.stage("checking and publishing")

    def _check_turn(self, before: Sequence[Future[DayOutcome]]) -> None:
        """Raise if this day must no longer be built: no later day may be published once a day has failed."""
        failed = any(day.done() and day.result().became in ("refused", "failed", "not tried") for day in before)
        if self._stopped.is_set() or (failed and not self.keep_going):
            raise _NotTried

    @contextmanager
    def _tagged(self) -> Iterator[None]:
        """Tag the Spark jobs of this thread, so that they can be cancelled."""
        context = self.spark.sparkContext
        context.addJobTag(self._tag)
        try:
            yield
        finally:
            context.removeJobTag(self._tag)


class _NotTried(Exception):
    """Raised for a day that is not built because an earlier day failed."""
