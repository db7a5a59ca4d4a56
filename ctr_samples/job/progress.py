"""Progress on stderr during a run: stage, finished tasks, time. Silent unless stderr is a terminal."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column

from ctr_samples.config.masking import masked
from ctr_samples.periods import Period

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ctr_samples.sparksql.observations import Progress as Written

_POLL_SECONDS = 0.3
_WIDE = 100
"""Minimum terminal width, in columns, for showing a bar."""


class RunProgress:
    """Shows the stage of a run and, once Spark works, the finished tasks, samples and shards."""

    def __init__(self, console: Console) -> None:
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", table_column=Column(overflow="fold")),
            *([BarColumn(bar_width=20)] if console.width >= _WIDE else []),  # the counts show the same
            TextColumn("{task.fields[counts]}", table_column=Column(overflow="fold")),
            TimeElapsedColumn(),
        )
        self._progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._row = self._progress.add_task("starting Spark", total=None, counts="")
        self._stop = threading.Event()
        self._written: list[Written] = []

    def stage(self, text: str) -> None:
        """Show the next stage."""
        self._progress.update(self._row, description=escape(masked(text)))

    def writing(self, progress: Written) -> None:
        """Add the samples and shards written by the tasks to the displayed counts."""
        self._written.append(progress)

    def tasks(self, done: int, total: int, *, compiling: bool = False) -> None:
        """Show the number of finished tasks in the running stages, with the samples and shards written so far.

        ``compiling`` explains a delay: tasks that write wait until the encoder is compiled.
        """
        counts = self._counts(done, total, compiling)
        self._progress.update(self._row, completed=done, total=total or None, counts=counts)

    def warn(self, text: str) -> None:
        """Print a warning above the progress."""
        self._progress.console.print(f"[yellow]warning:[/yellow] {escape(masked(text))}", markup=True, soft_wrap=True)

    @contextmanager
    def of_day(self, day: Period) -> Iterator[_DayProgress]:
        """Add a line for one of several days while the run builds that day."""
        line = self._progress.add_task(f"{day}", total=None, counts="")
        try:
            yield _DayProgress(self, self._progress, line, day)
        finally:
            self._progress.remove_task(line)

    def follow(self, spark: SparkSession) -> None:
        """Show the tasks of this session's running stages from now on."""
        self._tracker = spark.sparkContext.statusTracker()
        if not self._progress.disable:
            threading.Thread(target=self._poll, daemon=True, name="progress").start()

    def __enter__(self) -> RunProgress:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._progress.stop()

    def _poll(self) -> None:
        from ctr_samples.codec.machine_code import being_compiled

        while not self._stop.wait(_POLL_SECONDS):
            try:
                infos = [self._tracker.getStageInfo(stage) for stage in self._tracker.getActiveStageIds()]
            except Exception:  # the session has ended; nothing left to show
                return
            live = [info for info in infos if info is not None]
            done, total = (sum(getattr(info, name) for info in live) for name in ("numCompletedTasks", "numTasks"))
            self.tasks(done, total, compiling=bool(live) and being_compiled())

    def _counts(self, done: int, total: int, compiling: bool) -> str:
        parts = [f"{done}/{total} tasks"] if total else []
        if compiling:
            parts.append("compiling the codec, once")
        samples, shards = (sum(getattr(one, name).value for one in self._written) for name in ("samples", "shards"))
        if samples:
            parts.append(f"{samples:,} samples in {shards:,} shards")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class _DayProgress:
    """Shows the stage of one of several days on its own line. Called from the day's thread."""

    run: RunProgress
    lines: Progress
    line: TaskID
    day: Period

    def stage(self, text: str) -> None:
        """Show the next stage of the day."""
        self.lines.update(self.line, description=escape(masked(f"{self.day}: {text}")))

    def writing(self, progress: Written) -> None:
        """Add the samples and shards written by the day's tasks to the common counts."""
        self.run.writing(progress)

    def warn(self, text: str) -> None:
        """Print a warning that names the day."""
        self.run.warn(f"{self.day}: {text}")


@contextmanager
def bytes_progress(console: Console, text: str, total: int) -> Iterator[Any]:
    """Show a progress bar over bytes. Yields the function that advances it."""
    columns = (TextColumn(text), BarColumn(), DownloadColumn(binary_units=True), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        row = progress.add_task(text, total=total)
        yield lambda count: progress.advance(row, count)
