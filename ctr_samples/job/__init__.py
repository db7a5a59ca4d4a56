"""Single runs, from the configuration to a published day, and runs of many days.

run.py              the run itself, in the order of docs/architecture.md
planning.py         inputs and contract of a run, before it reads rows; runs that look back; changes since a day was published
accounting.py       checks that every impression became a sample or was dropped for a reason; stops a run on bad counts
gate.py             the quality verdict from the measures
kinds.py            the kinds of runs: join everything, take features, take samples, take fewer samples
reuse.py            decides which kind a run is, by what the day's current generation is made from and what came since
origins.py          what rows, labels and features are made from, as values
foreseen.py         what runs of a changed configuration would do, and which parts of samples two configurations share
manifest_facts.py   facts in a manifest besides its shards, and labels that changed since the previous generation
checking.py         finds all problems of a configuration and its inputs in one pass
preview.py          a few samples as a table, without writing
forget.py           the next generation of a day without the samples of some users, found by a column or in the logs
forget_search.py    searches samples, and all else that runs wrote, for users
sizing.py           what a day needs: tasks, memory, disk and time
fit.py              the next version of vocabularies, moments and quantiles
daemon.py           the process that forks the Python workers of a local run
many_days.py        many days in one session, judged and published in order
day_status.py       status of each day, and the page about many days
published.py        metrics and features of published days
progress.py         progress on a terminal
summary.py          summary of a run in a few lines, and a table of many days
"""
