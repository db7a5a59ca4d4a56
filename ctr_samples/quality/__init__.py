"""Measures of the samples of a run, their checks and their reports.

measure/            measures of Arrow batches, taken by the tasks that write them
metrics.py          the metrics document, with feature_facts.py for its features
drift.py            how far two distributions lie apart
checks/             scores of a day, compared with their limits
report/             the page about a day, and the one about files of other programs
trends/             the page about many days
html.py             fills the templates of both
prometheus.py       gauges
statistics.py       statistics for TensorFlow Data Validation
pseudonyms.py       other names for users and requests
"""
