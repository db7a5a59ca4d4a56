"""The training side: published samples as tf.data, NumPy or torch. The only package that imports TensorFlow, and only when it
is used."""

from ctr_samples.training.arrays import Ragged, Sparse
from ctr_samples.training.batches import Batch, iter_batches
from ctr_samples.training.reader import load_dataset, steps_per_epoch

__all__ = ["Batch", "Ragged", "Sparse", "iter_batches", "load_dataset", "steps_per_epoch"]
