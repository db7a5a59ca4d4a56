"""Stages of a run in Python: Spark's shuffle moves Arrow blocks instead of rows, and each task works on whole columns.

blocks.py    rows of one partition as bytes, cut by the hash of a key; counts that travel with them
stages.py    frames brought together by key, and steps in Python that Spark runs in one pass
aside.py     columns that Spark computes, while the other columns of a stage wait
columns.py   numbers for equal values, and sort orders over several columns
"""
