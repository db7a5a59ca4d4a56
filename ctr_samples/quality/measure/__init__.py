"""Measures of Arrow batches, computed by the writing tasks and merged on the driver.

collecting.py   measures of one task
numbers.py      counts, moments and quantiles of one column
distinct.py     number of distinct values in a column
alike.py        duplicate rows
biases.py       correlation with features such as the position
bytes.py        bytes of each feature in a record
rates.py        samples and positives by value
requests.py     sizes of requests, and what they have in common
merging.py      merge of all task results
"""
