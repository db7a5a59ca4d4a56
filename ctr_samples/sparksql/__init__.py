"""Spark helpers, independent of samples.

session.py            session of a command, and isolated session of a run
jvm_stderr.py         stderr of a command's JVM, without its boot warning
class_archive.py      archive of Spark's classes, for a faster JVM start
failures.py           Spark's errors as sentences
expressions.py        SQL of the configuration: parsed by Spark, allowed or refused, typed
expression_sizes.py   size limits of expressions and their values
moments.py            refusal of expressions that depend on when the job runs
columns.py            keys, times, conditions, numbers and hashes from expressions
observations.py       counts taken while rows pass: metrics, exact histograms, progress
workers.py            Python processes that Spark starts
releases.py           differences between Spark releases, and the releases that a manifest lists
"""
