"""One run, from the configuration to a published day; and many of them.

run.py              the run itself, in the order of docs/architecture.md
planning.py         what a run reads and promises, before any row is read; what changed since a day was published
accounting.py       every impression is a sample or was dropped for a reason; counts that keep a run from being published
gate.py             from measures to a verdict; alarms.py has what the counts of a manifest warn of
maturing.py         features from the generation before, where only labels can be others
manifest_facts.py   the facts in a manifest besides its shards
checking.py         what is wrong with a configuration for its inputs, all at once
preview.py          a few samples as a table, without writing
looking_back.py     runs as of an earlier time, and from the inputs of an earlier generation
forget.py           the next generation of a day without the samples of some users; forget_values.py says who they are
flips.py            labels that changed since the generation before
fit.py              the next version of vocabularies, moments and quantiles
many_days.py        many days in one session, judged and published in order
day_status.py       how each day stands
trends.py           the page about many days
reporting.py        how a run reports its progress
progress.py         progress on a terminal
summary.py          what a run did, in a few lines or for each of many days
"""
