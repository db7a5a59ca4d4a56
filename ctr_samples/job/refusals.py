"""Refuses a run by its counts, before anything is published: for broken inputs, and for rows that were lost on the way."""

from __future__ import annotations

from collections.abc import Sequence

from ctr_samples.config import TextSource
from ctr_samples.job.accounting import Accounting
from ctr_samples.periods import Period
from ctr_samples.samples.impressions import check_impressions
from ctr_samples.samples.inputs.malformed import check_lines
from ctr_samples.samples.inputs.watched import Inputs
from ctr_samples.samples.sampling import DOWN_SAMPLED
from ctr_samples.samples.watches.all import Watches
from ctr_samples.samples.watches.times import check_clocks
from ctr_samples.shards import Receipt


def balanced(inputs: Inputs, receipts: Sequence[Receipt], run_date: Period) -> Accounting:
    """The accounts of a run, which balance. Call it after the action.

    Raises InputError for an input that is broken beyond what the configuration allows, AccountingError where a row was lost or
    doubled.
    """
    config, watches = inputs.config, inputs.watches
    check_sources(inputs)
    shown = config.impressions.source
    check_impressions(config, watches.impressions.result(), run_date, lambda: inputs.plain(shown))
    watches.labels.check()
    accounting = account(watches, receipts)
    accounting.check()
    return accounting


def check_sources(inputs: Inputs) -> None:
    """Refuse a source of which a day's log has too many malformed lines, or rows without a usable time; as counted by now."""
    for name, source in inputs.config.sources.items():
        if isinstance(source, TextSource):
            check_lines(name, inputs.lines(name), source, inputs.sources[name])
    check_clocks(inputs.config, inputs.clocks(), inputs.plain)


def account(watches: Watches, receipts: Sequence[Receipt]) -> Accounting:
    """The counts of the watches beside those of the receipts."""
    counts, sampling = watches.impressions.result(), watches.sampling.result()
    left_out = {} if sampling is None else {DOWN_SAMPLED: sampling.dropped}
    written = sum(shard.records for receipt in receipts for shard in receipt.shards)
    return Accounting(counts.impressions, {**counts.dropped, **left_out}, watches.joins.result().samples, written)
