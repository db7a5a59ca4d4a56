"""The public ``tfrecord`` format for Spark: a Python data source, and ``write_tfrecord`` for features that its API
lacks.

::

    public.py      register, write_tfrecord: functions for users, on the driver
    data_source.py the DataSource: creates a schema, a reader or a writer from options
    options.py     names and values of the options
    schema.py      Spark types and their features on the wire
    spark_columns.py  builds Spark columns from decoded features
    assembly.py    builds structs, maps, lists of lists and vectors from flat features, with checked casts
    table_columns.py  the columns of a table over all of its writes
    catalog.py     files of a path: a table of this format, a nightly output, any directory, a file, a glob
    partitions.py  key=value in paths: values and their types
    files.py       reads and checks the records of a single file; Spark's own settings
    inference.py   infers a schema from all records of all files
    reading.py     tasks that read files
    write_plan.py  plan of a write, checked before its first row
    writing.py     writes shards from Arrow batches, and commits them together
    stream_reading.py  reads a stream of files, each new file once; writes micro-batches, each exactly once

Nothing here imports TensorFlow or Numba, since every Python worker would pay for it.
"""
