"""Published samples as ``tf.data``, NumPy or torch. Imports TensorFlow and torch only where they are asked for.

datasets.py       load_dataset: a tf.data pipeline
batches.py        iter_batches: NumPy or torch, without TensorFlow
sample_set.py     which days, splits and shards a reader takes, checked
order.py          in which order shards and their pieces come, epoch by epoch
stream.py         from shards to decoded batches, on several threads
lanes.py          the records of one piece of a shard
batch_decoder.py  records as columns
arrays.py         columns as arrays, ragged and sparse ones too
native.py, plain.py       the two engines of load_dataset: ours, and TensorFlow's own parser
tensor_forms.py, torch_tensors.py     arrays as tensors
"""

from ctr_samples.readers.arrays import Ragged, Sparse
from ctr_samples.readers.batches import Batch, iter_batches
from ctr_samples.readers.datasets import load_dataset, steps_per_epoch

__all__ = ["Batch", "Ragged", "Sparse", "iter_batches", "load_dataset", "steps_per_epoch"]
