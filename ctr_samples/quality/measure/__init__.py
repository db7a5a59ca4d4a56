"""Measures of Arrow batches, computed by the writing tasks and merged on the driver.

collecting.py   measures of one task, and their merge
numbers.py      counts, moments, quantiles and distinct values of one column
rows.py         duplicate rows, positives by value, correlations with biases such as the position, bytes in a record
requests.py     sizes of requests, and what they have in common
merging.py      the figures of all tasks
"""
