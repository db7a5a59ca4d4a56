"""Who is told how a run gets on."""

from __future__ import annotations

from typing import Protocol

from ctr_samples.sparksql.written import Progress


class Reporter(Protocol):
    """Is told how a run gets on; called on the driver."""

    def stage(self, text: str) -> None:
        """A stage begins."""

    def writing(self, progress: Progress) -> None:
        """Tasks begin to write; ``progress`` grows while they do."""

    def warn(self, text: str) -> None:
        """Something is wrong that does not stop the run."""


class Silent:
    """The reporter of a run that nobody watches."""

    def stage(self, text: str) -> None:
        """Say nothing."""

    def writing(self, progress: Progress) -> None:
        """Say nothing."""

    def warn(self, text: str) -> None:
        """Say nothing."""
