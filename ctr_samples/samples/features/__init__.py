"""Turn impressions and their views into samples, by column expressions only: no Python runs per row.

values.py      raw value of a feature: a column, an expression, or part of a map, list or time
number_steps.py clip, log1p, scale, buckets of numbers
ids.py         ids by the kind of a feature: hashes, vocabularies, buckets, crosses; multi-hot vectors
one_feature.py one feature from all of these: its type, length, default and nulls
contracts.py   what the configuration promises to readers
layouts.py     several features in one: dense, sparse, sequence, legacy_121
row.py         the whole row
"""

from ctr_samples.samples.features.contracts import contract_of
from ctr_samples.samples.features.one_feature import feature_column
from ctr_samples.samples.features.row import (
    HOUR,
    IMPRESSION,
    SHUFFLE,
    SPLIT,
    USER,
    SampleColumns,
    in_final_order,
    paths,
    view_columns,
    with_place,
)

__all__ = [
    "HOUR",
    "IMPRESSION",
    "SHUFFLE",
    "SPLIT",
    "USER",
    "SampleColumns",
    "contract_of",
    "feature_column",
    "in_final_order",
    "paths",
    "view_columns",
    "with_place",
]
