"""Notify listeners of the days of a command."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from ctr_samples.job.many_days import DayOutcome
from ctr_samples.periods import Period


class Listener(Protocol):
    """Is notified of each day, on the driver; several days may run at once, each in its own thread."""

    def begins(self, day: Period) -> None:
        """Handle the start of a day."""

    def ended(self, outcome: DayOutcome) -> None:
        """Handle the outcome of a day."""


@dataclass(frozen=True, slots=True)
class Listeners:
    """Notifies all listeners. A failing listener does not fail the run: ``warn`` gets a sentence."""

    all: Sequence[Listener]
    warn: Callable[[str], None]

    def begins(self, day: Period) -> None:
        """Report the start of a day."""
        for listener in self.all:
            self._tell(listener, partial(listener.begins, day))

    def ended(self, outcome: DayOutcome) -> None:
        """Report the outcome of a day."""
        for listener in self.all:
            self._tell(listener, partial(listener.ended, outcome))

    def _tell(self, listener: Listener, tell: Callable[[], None]) -> None:
        try:
            tell()
        except Exception as error:  # listeners do not affect whether the samples are published
            text = (str(error).splitlines() or [""])[0]
            self.warn(f"{type(listener).__name__} could not tell of the run: {type(error).__name__}: {text}")
