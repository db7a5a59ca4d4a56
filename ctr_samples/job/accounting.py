"""Every impression is accounted for: what came in is what went out plus what was dropped, by reason, exactly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ctr_samples.errors import AccountingError


@dataclass(frozen=True, slots=True)
class Accounting:
    """Counts of one run.

    ``impressions`` and ``dropped`` are counted by Spark before the joins, ``joined`` after them, ``written`` by the tasks that
    wrote the shards: three independent counts.
    """

    impressions: int
    dropped: Mapping[str, int]
    joined: int
    written: int

    def check(self) -> None:
        """Raise AccountingError unless everything balances exactly."""
        kept = self.impressions - sum(self.dropped.values())
        if not kept == self.joined == self.written:
            reasons = ", ".join(f"{count} {reason}" for reason, count in self.dropped.items() if count) or "none"
            raise AccountingError(
                f"Of {self.impressions} impressions ({reasons} dropped) {kept} should have become samples, but "
                f"{self.joined} left the joins and {self.written} were written. Nothing was published; run the day again, and "
                "report it if it happens twice."
            )

    def to_dict(self) -> dict[str, int]:
        """What the manifest keeps: ``impressions``, ``samples`` and a count for each reason."""
        return {"impressions": self.impressions, "samples": self.written, **self.dropped}
