"""Side counters of a run. A watch declares its counts with ``on`` and reads them back with ``result``.

all.py           the watches of a run
times.py         implausible times
coverage.py      logs that end before the label windows do
log_offsets.py   rows in the directory of another day than their own
shares.py        tasks that hold too many rows at once
leak_canary.py   features from the future, joined in every run exactly like the views; they must never match

The watches of lines, impressions, labels, sampling and views are in the modules of the data they count.
"""
