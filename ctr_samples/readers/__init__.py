"""Published samples as ``tf.data``, NumPy or torch. Imports TensorFlow and torch only on demand.

datasets.py       load_dataset and steps_per_epoch, the functions for TensorFlow
batches.py        iter_batches: NumPy or torch, without TensorFlow
resumable.py      the iterator of iter_batches: its position as a state, and how to continue from one
standing.py       where workers stand, and where each goes on if their number changed
stream.py         decodes on several threads, and cuts into batches
sample_set.py     selects and checks days, splits and shards
order.py          order of shards and their pieces, epoch by epoch
lanes.py          reads records from pieces of shards
batch_decoder.py  decodes records to columns
arrays.py         columns as arrays, including ragged and sparse columns
tensors.py        tf.data pipelines of columns; imports TensorFlow, as plain.py does
plain.py          TensorFlow's own parser, the alternative engine of load_dataset
"""

from ctr_samples.readers.arrays import Ragged, Sparse
from ctr_samples.readers.batches import iter_batches
from ctr_samples.readers.datasets import load_dataset, steps_per_epoch
from ctr_samples.readers.resumable import Batch, Batches

__all__ = ["Batch", "Batches", "Ragged", "Sparse", "iter_batches", "load_dataset", "steps_per_epoch"]
