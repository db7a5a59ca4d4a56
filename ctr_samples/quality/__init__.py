"""Sample measures of a run, with quality checks and reports.

measure/            measures of Arrow batches, computed by the writing tasks
metrics.py          the metrics document, with feature_facts.py for its features
drift.py            distances between two distributions
checks/             daily quality checks and their limits
report/             page about one day, and pages about files and about a comparison with what was served
trends.py           page about many days
html.py             what pages consist of, rendered from templates/
prometheus.py       Prometheus gauges
statistics.py       statistics for TensorFlow Data Validation
pseudonyms.py       pseudonyms for users and requests
served.py           document of a comparison with what was served
words.py            the words behind ids: tokens, limits of buckets
"""
