"""Turn impressions and their views into samples. Features are computed over as few rows as possible, by Spark if need be.

values.py      value of a feature: a column, an expression, or part of a map, list or time; clip, log1p, scaling;
               ids from hashes, vocabularies, buckets and crosses; multi-hot vectors
pairs.py       values that are made of two sources, in Arrow
direct.py      features over joined rows that are one column of numbers or hashed ids, in Arrow
one_feature.py one feature, built with these steps: its type, length, default and nulls
contracts.py   contract with readers; layouts that join features: dense, sparse, sequence, legacy_121
row.py         all features of a sample, and the rows over which each is computed
complete.py    complete samples, from rows with all features
"""
