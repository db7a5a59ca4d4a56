"""Connect shards and the codec: Arrow batches to shards, and shards back to records.

write.py        a shard writer for Arrow batches
read.py         first examples, and damage down to the record
without.py      published records with some removed
foreign.py      files not listed in any manifest
first_bytes.py  their compression
paths.py        paths and globs as users write them
"""
