"""Who is told of the days of a command."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from ctr_samples.job.many_days import DayOutcome
from ctr_samples.periods import Period


class Listener(Protocol):
    """Is told of each day, on the driver; several days may be made at once, each in a thread of its own."""

    def begins(self, day: Period) -> None:
        """A day is begun."""

    def ended(self, outcome: DayOutcome) -> None:
        """What became of a day."""


@dataclass(frozen=True, slots=True)
class Listeners:
    """Tells all of them. One that fails does not fail the run: ``warn`` gets a sentence."""

    all: Sequence[Listener]
    warn: Callable[[str], None]

    def begins(self, day: Period) -> None:
        """A day is begun."""
        for listener in self.all:
            self._tell(listener, partial(listener.begins, day))

    def ended(self, outcome: DayOutcome) -> None:
        """What became of a day."""
        for listener in self.all:
            self._tell(listener, partial(listener.ended, outcome))

    def _tell(self, listener: Listener, tell: Callable[[], None]) -> None:
        try:
            tell()
        except Exception as error:  # the samples are published, or not, whatever others make of it
            text = (str(error).splitlines() or [""])[0]
            self.warn(f"{type(listener).__name__} could not tell of the run: {type(error).__name__}: {text}")
