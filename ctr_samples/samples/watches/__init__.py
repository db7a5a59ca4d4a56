"""Side counters of a run: what is counted of its rows on the way, and what is read back after its action.

all.py           all watches of a run; rows in the directory of another day, logs that end before the label windows do, tasks
                 that hold too many rows
times.py         implausible times
leak_canary.py   features from the future, joined in every run exactly like the views; they must never match

The watches of lines, impressions, labels, sampling and views are in the modules of the data they count.
"""
