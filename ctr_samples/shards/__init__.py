"""Shards, receipts and manifests, and code to publish them. No Spark, no TensorFlow, no codec.

day_output.py   output of one day, from opening to publishing
table.py        table of shards, as written by the `tfrecord` format
states.py       versions of the fitted state
partials.py     partial results of finished days, named by their inputs
writer.py       writes shards from Arrow batches; verifies a shard byte for byte
manifest.py     shards, receipts and the manifest of a day, and whether they agree
sealed.py       JSON documents that contain their own checksum
generations.py  numbered manifests, written with create-only puts; markers for generations that removed users; the store's clock
publish.py      publishes a manifest, and finds the current manifest; published.py finds a day, a table or a refused run
generation_history.py     lists all generations; rolls back to an earlier generation
clean.py        finds files to remove, using the store's clock
naming.py       layout of an output directory
storage/        storage backends
"""

from ctr_samples.shards.day_output import DayOutput, DayRun
from ctr_samples.shards.manifest import (
    FeaturesFrom,
    Manifest,
    Receipt,
    RequestCounts,
    RequestOrder,
    Shard,
    check_receipts,
)
from ctr_samples.shards.publish import (
    check_age,
    check_directory,
    check_shards,
    check_store,
    days_of,
    latest_manifest,
    mark_success,
    periods_of,
    publish,
    published_days,
    read_manifest,
    require_generation,
    require_manifest,
)
from ctr_samples.shards.storage import NameTaken, Storage, StoredFile, open_storage
from ctr_samples.shards.table import Table, TableManifest, TableWrite
from ctr_samples.shards.writer import CheckedFile, ShardWriter

__all__ = [
    "CheckedFile",
    "DayOutput",
    "DayRun",
    "FeaturesFrom",
    "Manifest",
    "NameTaken",
    "Receipt",
    "RequestCounts",
    "RequestOrder",
    "Shard",
    "ShardWriter",
    "Storage",
    "StoredFile",
    "Table",
    "TableManifest",
    "TableWrite",
    "check_age",
    "check_directory",
    "check_receipts",
    "check_shards",
    "check_store",
    "days_of",
    "latest_manifest",
    "mark_success",
    "open_storage",
    "periods_of",
    "publish",
    "published_days",
    "read_manifest",
    "require_generation",
    "require_manifest",
]
