"""Side counters of a run. A watch declares its counts with ``on`` and reads them back with ``result``.

all.py           the watches of a run: rows in the directory of another day, logs that end before the label windows do, tasks
                 that hold too many rows
times.py         implausible times
leak_canary.py   features from the future, joined in every run exactly like the views; they must never match

The watches of lines, impressions, labels, sampling and views are in the modules of the data they count.
"""
