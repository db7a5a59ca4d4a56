"""Accounts for every impression: input equals output plus dropped impressions, by reason, exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ctr_samples.config import TextSource
from ctr_samples.errors import AccountingError
from ctr_samples.periods import Period
from ctr_samples.samples.features.complete import JOINED
from ctr_samples.samples.impressions import check_impressions
from ctr_samples.samples.inputs.malformed import check_lines
from ctr_samples.samples.inputs.watched import Inputs
from ctr_samples.samples.labels.counts import check_row_labels
from ctr_samples.samples.labels.plans import rows_among
from ctr_samples.samples.sampling import DOWN_SAMPLED, check_rules
from ctr_samples.samples.watches.times import check_clocks
from ctr_samples.shards import Receipt


@dataclass(frozen=True, slots=True)
class Accounting:
    """Counts of one run.

    Spark counts ``impressions`` and ``dropped`` before the joins and ``joined`` after them. The tasks that write the
    shards count ``written``. So there are three independent counts.
    """

    impressions: int
    dropped: Mapping[str, int]
    joined: int
    written: int

    def check(self) -> None:
        """Raise AccountingError unless all counts balance exactly."""
        kept = self.impressions - sum(self.dropped.values())
        if not kept == self.joined == self.written:
            reasons = ", ".join(f"{count} {reason}" for reason, count in self.dropped.items() if count) or "none"
            raise AccountingError(
                f"Of {self.impressions} impressions ({reasons} dropped) {kept} should have become samples, but "
                f"{self.joined} left the joins and {self.written} were written. Nothing was published; run the day again, and "
                "report it if it happens twice."
            )

    def to_dict(self) -> dict[str, int]:
        """Return the manifest entry: ``impressions``, ``samples`` and a count for each drop reason."""
        return {"impressions": self.impressions, "samples": self.written, **self.dropped}


def balanced(inputs: Inputs, receipts: Sequence[Receipt], period: Period) -> Accounting:
    """Return the balanced counts of a run. Call it after the action.

    Raises InputError if an input is worse than the configuration allows, and AccountingError if a row was lost or
    duplicated.
    """
    config, watches = inputs.config, inputs.watches
    check_sources(inputs)
    shown = config.impressions.source
    check_impressions(config, watches.impressions(), period, lambda: inputs.uncounted(shown))
    counts = watches.tasks.result()
    check_row_labels(rows_among(config.labels), counts)
    check_rules(config, counts)
    accounting = account(inputs, receipts)
    accounting.check()
    return accounting


def check_sources(inputs: Inputs) -> None:
    """Raise InputError if a day's log has too many malformed lines, implausible times or unusable rows so far."""
    for name, source in inputs.config.sources.items():
        if isinstance(source, TextSource):
            check_lines(name, inputs.lines(name), source, inputs.sources[name])
    check_clocks(inputs.config, inputs.clocks(), inputs.uncounted)


def account(inputs: Inputs, receipts: Sequence[Receipt]) -> Accounting:
    """Combine the counts of the watches and of the receipts."""
    counts, of_tasks = inputs.watches.impressions(), inputs.watches.tasks.result()
    left_out = {} if inputs.config.sampling is None else {DOWN_SAMPLED: of_tasks.sums.get(DOWN_SAMPLED, 0)}
    written = sum(shard.records for receipt in receipts for shard in receipt.shards)
    return Accounting(counts.impressions, {**counts.dropped, **left_out}, of_tasks.sums.get(JOINED, 0), written)
