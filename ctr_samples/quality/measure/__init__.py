"""Measures of Arrow batches, taken by the tasks that write them and merged on the driver.

collecting.py   measures of one task
numbers.py      counts, moments and quantiles of one column
distinct.py     number of distinct values in a column
alike.py        duplicate rows
merging.py      measures of all tasks, merged for the day
"""
