"""Connect shards and the codec: write Arrow batches to shards, and read records from shards.

write.py        a shard writer for Arrow batches
read.py         reads the first examples; finds damage down to the record; tells the compression of a foreign file
without.py      rewrites published records without some of them
foreign.py      files not listed in any manifest
paths.py        paths and globs as users write them
"""
