"""Turns impressions with their views into samples. Column expressions only: nothing here runs Python for a row.

sources.py     the value of a feature before any change: a column, an expression, a part of a map, list or time
numbers.py     clip, log1p, scale, buckets of numbers
ids.py         hashes, vocabularies, crosses, multi-hot vectors
columns.py     one feature from all of these: its type, length, default and nulls
contracts.py   what the configuration promises to readers
layouts.py     several features in one: dense, sparse, sequence, legacy_121
samples.py     the whole row
"""

from ctr_samples.spark.features.columns import feature_column
from ctr_samples.spark.features.contracts import contract_of
from ctr_samples.spark.features.samples import HOUR, IMPRESSION, SHUFFLE, SPLIT, USER, SampleColumns, view_columns

__all__ = [
    "HOUR",
    "IMPRESSION",
    "SHUFFLE",
    "SPLIT",
    "USER",
    "SampleColumns",
    "contract_of",
    "feature_column",
    "view_columns",
]
