"""The only package that accesses stores: local and NFS directories, HDFS, and S3, GCS and Azure.

interface.py    common interface of all storages, conversion of errors, and a guard against forked connections
opening.py      opens the storage of a path or URL
local.py, hdfs.py, objects.py       the three kinds of storage

Paths are relative to the root of the storage and use ``/``. A store must guarantee two things: a file appears
completely or not at all, and a create-only put fails if the name exists.
"""

from ctr_samples.shards.storage.hdfs import HadoopStorage
from ctr_samples.shards.storage.interface import NameTaken, Sink, Storage, StoredFile
from ctr_samples.shards.storage.local import LocalStorage
from ctr_samples.shards.storage.objects import ObjectStorage
from ctr_samples.shards.storage.opening import open_storage

__all__ = [
    "HadoopStorage",
    "LocalStorage",
    "NameTaken",
    "ObjectStorage",
    "Sink",
    "Storage",
    "StoredFile",
    "open_storage",
]
