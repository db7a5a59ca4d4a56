"""Where shards and the codec meet: Arrow batches into shards, and shards back into records.

write.py        a shard writer over Arrow batches
read.py         first examples, and damage down to the record
without.py      published records without some
foreign.py      files that no manifest lists
first_bytes.py  their compression
paths.py        paths and globs as users write them
"""
