"""The public ``tfrecord`` format for Spark: a data source in Python, and ``write_tfrecord`` for what that API refuses.

::

    public.py      register, write_tfrecord: what users call on the driver
    data_source.py the DataSource: from options to a schema, a reader, a writer
    options.py     names and values of the options
    schema.py      Spark's types and the features that they become on the wire
    spark_columns.py  decoded features as Spark's columns: which, and how each is built
    assembly.py    structs, maps, lists of lists and vectors from flat features
    casts.py       values as Spark's types, checked
    catalog.py     which files a path means: a table of ours, a nightly output, any directory, a file, a glob
    directories.py which files below a directory are data, and where its key=value directories begin
    partitions.py  key=value in paths: values and their types
    settings.py    what Spark's own settings say
    files.py       one file and its records, checked
    inference.py   a schema from all records of all files
    reading.py     tasks that read files
    write_plan.py  what a write will do, checked before its first row
    writing.py     shards from Arrow batches, and one commit for all of them
    micro_batches.py  the same for micro-batches, each once
    stream_reading.py  reading as a stream: each new file once

Nothing here imports TensorFlow or Numba: each Python worker would pay for it.
"""
