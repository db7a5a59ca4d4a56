"""The public ``tfrecord`` format for Spark: a Python data source, and ``write_tfrecord`` for what that API lacks.

::

    public.py      register, write_tfrecord: functions for users, on the driver
    data_source.py the DataSource: from options to a schema, a reader, a writer
    options.py     names and values of the options
    schema.py      Spark types and their features on the wire
    spark_columns.py  which Spark columns decoded features form, and how to build each
    assembly.py    structs, maps, lists of lists and vectors from flat features
    casts.py       values as Spark's types, checked
    catalog.py     files of a path: one of our tables, a nightly output, any directory, a file, a glob
    directories.py data files below a directory, and the start of its key=value directories
    partitions.py  key=value in paths: values and their types
    settings.py    Spark's own settings
    files.py       a single file and its records, checked
    inference.py   a schema from all records of all files
    reading.py     tasks that read files
    write_plan.py  plan of a write, checked before its first row
    writing.py     shards from Arrow batches, and one commit for all of them
    micro_batches.py  the same for micro-batches, each exactly once
    stream_reading.py  reading as a stream: each new file once

Nothing here imports TensorFlow or Numba, since every Python worker would pay for it.
"""
