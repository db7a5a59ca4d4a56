"""Sample measures of a run, with quality checks and reports.

measure/            measures of Arrow batches, computed by the writing tasks
metrics.py          the metrics document, with feature_facts.py for its features
drift.py            distances between two distributions
checks/             daily quality checks and their limits
report/             page about one day, and page about files of other programs
trends/             page about many days
html.py             rendering of the page templates
prometheus.py       Prometheus gauges
statistics.py       statistics for TensorFlow Data Validation
pseudonyms.py       pseudonyms for users and requests
served.py           document of a comparison with what was served
words.py            the words behind ids: tokens, limits of buckets
"""
