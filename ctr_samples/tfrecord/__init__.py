"""The public ``tfrecord`` format for Spark: a Python data source, and ``write_tfrecord`` for features that its API
lacks.

::

    public.py      register, write_tfrecord: functions for users, on the driver
    data_source.py the DataSource: creates a schema, a reader or a writer from options
    options.py     names and values of the options
    schema.py      Spark types and their features on the wire, of one write and over all writes of a table
    spark_columns.py  builds Spark columns from decoded features, with checked casts
    catalog.py     files of a path: a table of this format, a nightly output, any directory, a file, a glob
    partitions.py  key=value in paths: values and their types
    files.py       reads and checks the records of a single file; Spark's own settings
    inference.py   infers a schema from all records of all files
    reading.py     tasks that read files
    writing.py     plan of a write, checked before its first row; writes shards, and commits them together
    stream_reading.py  reads a stream of files, each new file once; writes micro-batches, each exactly once

Nothing here imports TensorFlow or Numba, since every Python worker would pay for it.
"""
