"""Single runs, from the configuration to a published day, and runs of many days.

run.py              the run itself, in the order of docs/architecture.md
planning.py         inputs and contract of a run, before it reads rows; changes since a day was published
accounting.py       checks that every impression became a sample or was dropped for a reason; stops a run on bad counts
gate.py             the quality verdict from the measures; alarms.py has the warnings from a manifest's counts
kinds.py            the kinds of runs: join everything, take features, take samples, take fewer samples
reuse.py            decides which kind a run is, by what the day's current generation is made from
origins.py          what rows, labels and features are made from, as values
foreseen.py         what runs of a changed configuration would do, and which parts of samples two configurations share
arrivals.py         what came to the sources since a generation, and whether its samples could see it
manifest_facts.py   facts in a manifest besides its shards
checking.py         finds all problems of a configuration and its inputs in one pass
preview.py          a few samples as a table, without writing
looking_back.py     runs as of an earlier time, and from the inputs of an earlier generation
forget.py           the next generation of a day without the samples of some users; forget_values.py reads their ids
forget_logs.py      the impressions of users in the logs, for samples that do not say whose they are
forget_check.py     searches all that runs wrote for users who were forgotten
sizing.py           what a day needs: tasks, memory, disk and time
flips.py            labels that changed since the previous generation
fit.py              the next version of vocabularies, moments and quantiles
daemon.py           the process that forks the Python workers of a local run
many_days.py        many days in one session, judged and published in order
feature_list.py     the features of a sample set: since when, bytes, coverage, drift, origin
day_status.py       status of each day
trends.py           the page about many days
measured.py         metrics of published days: as a document, for Prometheus, and as a comparison of two days
reporting.py        progress reports of a run
progress.py         progress on a terminal
summary.py          summary of a run in a few lines, and a table of many days
"""
