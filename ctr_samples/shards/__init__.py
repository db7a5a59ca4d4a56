"""Shards, receipts, manifests and how they are published. No Spark, no TensorFlow, no codec."""

from ctr_samples.shards.day_output import DayOutput, DayRun
from ctr_samples.shards.manifest import Manifest, Receipt, Shard, check_receipts
from ctr_samples.shards.publish import (
    check_age,
    check_directory,
    check_shards,
    check_store,
    days_of,
    latest_manifest,
    mark_success,
    publish,
    published_days,
    read_manifest,
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
    "publish",
    "published_days",
    "read_manifest",
    "require_manifest",
]
