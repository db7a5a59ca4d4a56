"""One run, from the configuration to a published day; and runs of many days.

run.py              the run itself, in the order of docs/architecture.md
planning.py         what a run reads and promises, before any row is read; what changed since a day was published
accounting.py       every impression is a sample or was dropped for a reason; counts that can stop a publication
gate.py             from measures to a verdict; alarms.py has the warnings from the counts of a manifest
maturing.py         features from the previous generation, where only labels can have changed
manifest_facts.py   facts in a manifest besides its shards
checking.py         all problems of a configuration with its inputs, at once
preview.py          a few samples as a table, without writing
looking_back.py     runs as of an earlier time, and from the inputs of an earlier generation
forget.py           the next generation of a day without the samples of some users; forget_values.py says who they are
flips.py            labels that changed since the previous generation
fit.py              the next version of vocabularies, moments and quantiles
many_days.py        many days in one session, judged and published in order
day_status.py       status of each day
trends.py           the page about many days
measured.py         what was measured of published days: as a document, for Prometheus, of two days side by side
reporting.py        how a run reports its progress
progress.py         progress on a terminal
summary.py          what a run did, in a few lines or for each of many days
"""
