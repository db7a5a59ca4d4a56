"""Published samples as a ``tf.data.Dataset``, with names, types and shapes from the contract in the manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.errors import InputError
from ctr_samples.shards import Manifest, Storage, open_storage, require_manifest
from ctr_samples.shards.naming import parse_day

if TYPE_CHECKING:
    import tensorflow as tf

_COMPRESSION = {".gz": "GZIP", ".zlib": "ZLIB"}


def load_dataset(path: str, *, date: str, split: str, batch_size: int, keys: bool = False) -> tf.data.Dataset:
    """Batches of ``(features, labels)`` of one split of a day, from the latest generation and only the files that it lists.

    ``features`` maps each feature of the contract with the role ``feature`` to a tensor of shape ``[batch, *shape]`` (a
    RaggedTensor where it has no shape), and with ``keys`` the impression's id too, which a model must not see. ``labels`` is a
    tensor of shape ``[batch]``, or a dict of labels and masks where the sample set has several. Where samples have a weight,
    it comes third, as ``model.fit`` takes it. Shards are read in their published order, which is already shuffled. Raises
    InputError for a day or a split that is not there.
    """
    storage = open_storage(path)
    manifest = require_manifest(storage, parse_day(date))
    return dataset_of(storage, manifest, split, batch_size, keys=keys)


def dataset_of(
    storage: Storage, manifest: Manifest, split: str, batch_size: int, *, keys: bool = False
) -> tf.data.Dataset:
    """Like :func:`load_dataset`, of a manifest that was read before."""
    import tensorflow as tf

    shards = manifest.of_split(split)
    if not shards:
        there = ", ".join(manifest.splits) or "none"
        raise InputError(f"{storage.url} has no split {split!r} on {manifest.run_date}; it has {there}.")
    contract = ExampleContract.from_dict(dict(manifest.contract))
    files = [storage.locate(shard.path) for shard in shards]
    compression = next((c for suffix, c in _COMPRESSION.items() if files[0].endswith(suffix)), "")
    features = contract.names("feature", "key") if keys else contract.names("feature")
    names, weights = contract.names("label", "mask"), contract.names("weight")
    spec = {name: _parser(contract[name]) for name in (*features, *names, *weights)}

    def parse(records: Any) -> tuple[Any, ...]:
        columns = tf.io.parse_example(records, spec)
        labels = columns[names[0]] if len(names) == 1 else {name: columns[name] for name in names}
        return {name: columns[name] for name in features}, labels, *[columns[name] for name in weights]

    records = tf.data.TFRecordDataset(files, compression_type=compression)
    return records.batch(batch_size).map(parse, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def _parser(spec: FeatureSpec) -> Any:
    import tensorflow as tf

    dtype = {"int64": tf.int64, "float32": tf.float32, "bytes": tf.string}[spec.dtype]
    if spec.shape is None:
        return tf.io.RaggedFeature(dtype)
    # Without a declared default a missing key is an error that names it, never a silent zero.
    default = None if spec.default is None else tf.fill(spec.shape, tf.constant(spec.default, dtype))
    return tf.io.FixedLenFeature(spec.shape, dtype, default)
