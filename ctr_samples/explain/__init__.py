"""Explain the labels and features of a sample, for ``ctr-samples explain``.

gather.py   collects all data that a run considers for one impression, as plain values
rules.py    applies the rules of labels, views and histories to these values, without Spark
"""
