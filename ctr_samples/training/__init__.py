"""The training side: published samples as tf.data. The only package that imports TensorFlow, and only when it is used."""

from ctr_samples.training.reader import load_dataset

__all__ = ["load_dataset"]
