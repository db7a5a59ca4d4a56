"""Counts that a run takes on the side. A watch declares its counts with ``on`` and reads them back with ``result``.

all.py           the watches of a run
times.py         implausible times
coverage.py      logs that end before the label windows do
leak_canary.py   features that only the future knows, joined in every run exactly as the views are; they must never be found

Lines, impressions, labels, sampling and views have their watches beside what they watch.
"""
