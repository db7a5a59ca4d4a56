"""One run, from the configuration to a published day.

run.py        the run itself, in the order of docs/architecture.md
refusals.py   what the counts of a run forbid, before anything is published
facts.py      what the manifest says beside its shards
reporting.py  who is told how a run gets on
"""
