"""Measures of Arrow batches, taken by the tasks that write them, and how they merge.

collecting.py   what a task measures
numbers.py      counts, moments and quantiles of one column
distinct.py     how many distinct values a column has
alike.py        rows that look alike
merging.py      the measures of all tasks as those of the day
"""
