"""Runs that look back: as of an earlier time, or from the inputs of an earlier generation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self

from ctr_samples.config import JobConfig
from ctr_samples.errors import InputError, UsageError
from ctr_samples.periods import Period, in_zone
from ctr_samples.samples.inputs.databases import TableVersion
from ctr_samples.samples.inputs.watched import Inputs
from ctr_samples.samples.period import Span
from ctr_samples.shards import Manifest, open_storage, require_generation


@dataclass(frozen=True, slots=True)
class LookBack:
    """The inputs of a run: the inputs of ``earlier`` or the current inputs, limited to data known at ``known_by``."""

    known_by: datetime | None = None
    earlier: Manifest | None = None

    @classmethod
    def of(
        cls, config: JobConfig, period: Period, known_by: datetime | None = None, as_of_generation: int | None = None
    ) -> Self:
        """Validate and create the settings. Raises UsageError for an impossible time, and InputError for a missing
        generation.
        """
        storage = open_storage(config.output.path)
        earlier = None if as_of_generation is None else require_generation(storage, period, as_of_generation)
        back = cls(known_by, earlier)
        back.check_time(Span.of(period, config.timezone), datetime.now(UTC), config.timezone)
        return back

    @property
    def pinned(self) -> dict[str, TableVersion]:
        """The versions of lake tables that the generation read, by source."""
        inputs = self.earlier.inputs if self.earlier else {}
        return {name: TableVersion(**facts["snapshot"]) for name, facts in inputs.items() if "snapshot" in facts}

    def check_time(self, span: Span, now: datetime, zone: str) -> None:
        """Raise UsageError for a future time, or a time before the day began."""
        if self.known_by is None:
            return
        known_by = in_zone(self.known_by, zone)
        if self.known_by > now:
            raise UsageError(
                f"`--known-by` is {known_by}, which has not come yet; expected a time that is past, or none."
            )
        if span.start is not None and self.known_by < span.start:
            start = in_zone(span.start, zone)
            raise UsageError(
                f"`--known-by` is {known_by}, when the day had not begun ({start}); expected a time at which some of its "
                "impressions were known."
            )

    def check_inputs(self, inputs: Inputs) -> None:
        """Raise InputError unless the inputs equal those of the generation."""
        if self.earlier is None:
            return
        for name, source in inputs.sources.items():
            recorded = self.earlier.inputs.get(name, {})
            if recorded.get("fingerprint") is None or recorded["fingerprint"] != source.snapshot["fingerprint"]:
                raise InputError(
                    f"sources.{name} cannot be read as generation {self.earlier.generation} read it: {_why(recorded)}. "
                    "Run without `--as-of-generation`, or choose another generation."
                )


NOW = LookBack()
"""Settings of a run with the current inputs."""


def _why(recorded: Mapping[str, Any]) -> str:
    if not recorded:
        return "it was no source then"
    if recorded.get("fingerprint") is None:
        return "it was a table whose versions cannot be told apart"
    if "snapshot" in recorded:
        return f"the table is another one now than that whose version {recorded['snapshot']['version']} it read"
    return "its files are others now"
