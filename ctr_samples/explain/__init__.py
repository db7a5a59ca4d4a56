"""Explain the labels and features of a sample, for ``ctr-samples explain``.

gather.py   everything that a run considers for one impression, as plain values
rules.py    rules of labels, views and histories, applied to these values without Spark
"""
