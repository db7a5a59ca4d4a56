"""Spark helpers, independent of sample sets.

session.py      Spark session of a command, and isolated session of a run; a faster and silent JVM start, faster calls
failures.py     Spark errors as sentences
expressions.py  SQL expressions of the configuration: parsing, allow-list, types, limits of size
lambdas.py      text taken out of lambdas, where Spark would make it for each element
moments.py      rejection of expressions that depend on the current time
columns.py      keys, times, conditions, numbers and hashes from expressions
observations.py counts collected during the job: metrics, exact histograms, progress
zones.py        offsets of a time zone in Python and in Java
workers.py      Python worker processes of Spark
releases.py     differences between Spark releases, and software versions for the manifest
"""
