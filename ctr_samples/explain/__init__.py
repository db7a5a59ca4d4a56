"""Why a sample has the labels and features that it has: for ``ctr-samples explain``.

gather.py   everything that a run would look at for one impression, as plain values
rules.py    the rules of labels, views and histories, applied to these values without Spark
"""
