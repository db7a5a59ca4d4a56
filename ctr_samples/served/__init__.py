"""Compare what a service served with the samples of a day, and name the causes of differences.

log.py          reads what was served: tf.Examples, Parquet, JSON lines, CSV
keys.py         impressions of lines that have keys in place of an id
columns.py      values of a feature on both sides, and when two are equal or near
comparing.py    brings both sides together in parts, counts, and keeps samples whose causes are sought
versions.py     rows that the service could have seen, computed by Spark
delays.py       which of them samples would see with each delay
causes.py       hypotheses, and what they explain
run.py          all of it for one day
"""
