"""Shards, receipts, manifests and how they are published. No Spark, no TensorFlow, no codec.

day_output.py   a day from the first look to the publish
table.py        a table that grows by appends: what the `tfrecord` format writes
states.py       versions of the fitted state
partials.py     partial results of finished days, each under the name of what it was made from
writer.py       shards from Arrow batches; verify.py checks one byte for byte
manifest.py     shards, receipts and the manifest of a day
sealed.py       documents with their own checksum; agreement.py checks that their parts agree
generations.py  numbered manifests, each written once by a create-only put
publish.py      makes a manifest visible, and finds the current one; published.py finds a day or a table
rollback.py, generation_history.py     back to an earlier generation; the list of all
forgotten.py    marks of generations with which users were forgotten
refused.py      runs that were not published
clean.py        what to remove, by the store's clock (store_clock.py)
naming.py       the layout of an output directory
storage/        the stores themselves
"""

from ctr_samples.shards.day_output import DayOutput, DayRun
from ctr_samples.shards.manifest import FeaturesFrom, Manifest, Receipt, Shard, check_receipts
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
from ctr_samples.shards.verify import CheckedFile
from ctr_samples.shards.writer import ShardWriter

__all__ = [
    "CheckedFile",
    "DayOutput",
    "DayRun",
    "FeaturesFrom",
    "Manifest",
    "NameTaken",
    "Receipt",
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
