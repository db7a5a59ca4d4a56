"""Compare what a service served with the samples of a day, and name the causes of differences.

log.py          reads what was served: tf.Examples, Parquet, JSON lines, CSV
tables.py       rows of Parquet, JSON lines and CSV, with text as it is written
times.py        times of served lines
keys.py         impressions of lines that have keys in place of an id
joining.py      brings both sides together, in parts
columns.py      values of a feature, and when two are equal or near
comparing.py    counts, and samples whose causes are sought
versions.py     rows that the service could have seen, computed by Spark
causes.py       hypotheses, and what they explain
run.py          all of it for one day
"""
