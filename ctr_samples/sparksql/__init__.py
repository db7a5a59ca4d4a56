"""What we need of Spark; nothing here knows of samples.

session.py            the session of a command, and the isolated one of a run
jvm_stderr.py         what the JVM of a command says, but for the warning with which it boots
class_archive.py      Spark's classes in a file, with which the JVM starts faster
failures.py           Spark's errors as sentences
expressions.py        SQL of the configuration: parsed by Spark, allowed or refused, typed
expression_sizes.py   how large an expression, and what it makes, may be
moments.py            refuses expressions that depend on when the job runs
columns.py            keys, times, conditions, numbers and hashes from expressions
observations.py       counts that Spark takes while rows pass
tallies.py            exact histograms of small numbers, by one aggregate
written.py            what the tasks of an action have written so far
workers.py            the Python processes that Spark starts
releases.py           what differs between the releases of Spark
software.py           the releases that made some samples
"""
