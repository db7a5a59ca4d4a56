"""TFRecord files as TensorFlow writes and reads them: an oracle."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
with warnings.catch_warnings():  # its import warns about itself
    warnings.simplefilter("ignore")
    import tensorflow as tf


Values = list[int] | list[float] | list[bytes]


def example(**features: Values) -> bytes:
    """A serialized Example; the type of the first value decides the kind of a feature."""
    return tf.train.Example(features=features_of(features)).SerializeToString(deterministic=True)


def sequence_example(context: dict[str, Values], lists: dict[str, Sequence[Values | None]]) -> bytes:
    """A serialized SequenceExample; a step that is None has no kind."""
    feature_lists = {
        name: tf.train.FeatureList(feature=[tf.train.Feature() if step is None else feature(step) for step in steps])
        for name, steps in lists.items()
    }
    message = tf.train.SequenceExample(
        context=features_of(context), feature_lists=tf.train.FeatureLists(feature_list=feature_lists)
    )
    return message.SerializeToString()


def features_of(features: dict[str, Values]) -> tf.train.Features:
    return tf.train.Features(feature={name: feature(values) for name, values in features.items()})


def feature(values: Values) -> tf.train.Feature:
    if values and isinstance(values[0], bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if values and isinstance(values[0], float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def tensorflow_writes(path: Path, *messages: bytes, compression: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tf.io.TFRecordWriter(str(path), tf.io.TFRecordOptions(compression_type=compression)) as writer:
        for message in messages:
            writer.write(message)
    return path


def tensorflow_reads(*paths: Path) -> list[bytes]:
    """The messages in files, in order; the suffix says how they are compressed."""
    kinds = {".gz": "GZIP", ".zlib": "ZLIB"}
    datasets = [tf.data.TFRecordDataset(str(path), kinds.get(path.suffix, "")) for path in sorted(paths)]
    return [message.numpy() for dataset in datasets for message in dataset]


def as_dict(message: bytes) -> dict[str, list[Any]]:
    """An Example's features as lists of Python values."""
    parsed = tf.train.Example.FromString(message)
    return {name: _values(value) for name, value in parsed.features.feature.items()}


def _values(value: tf.train.Feature) -> list[Any]:
    return list(getattr(value, value.WhichOneof("kind")).value)
