"""Published samples as a ``tf.data.Dataset``, with names, types and shapes from the contract in the manifest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ctr_samples.errors import UsageError
from ctr_samples.periods import Period
from ctr_samples.readers.sample_set import open_samples
from ctr_samples.readers.stream import Reading

if TYPE_CHECKING:
    import tensorflow as tf


Engine = Literal["native", "tensorflow"]


def load_dataset(
    path: str | Path,
    *,
    date: Period | str | None = None,
    dates: Sequence[Period | str] | None = None,
    split: str,
    batch_size: int,
    shuffle: bool | int = False,
    seed: int = 0,
    shard: tuple[int, int] = (0, 1),
    epochs: int | None = 1,
    skip: int | Sequence[int] = 0,
    drop_remainder: bool = False,
    engine: Engine = "native",
    keys: bool = False,
    pad: bool = False,
    threads: int | None = None,
) -> tf.data.Dataset:
    """Load batches of ``(features, labels)`` of one split, from one or several days, as listed by the newest manifests.

    ``features`` maps each feature of the contract with the role ``feature`` to a tensor of shape ``[batch, *shape]``,
    or to a RaggedTensor if it has no shape. The layout ``sparse`` gives a single SparseTensor ``features``. With
    ``keys`` it also has the impression's id, which a model must not see. With ``pad``, lists are dense tensors, as
    inputs of Keras must be: filled up to the longest list of the batch with 0 or empty text, beside ``<name>__mask``,
    which is 1 where a list has a value. ``labels`` is a tensor of shape ``[batch]``,
    or a dict of labels and masks if the sample set has several labels. Sample weights, if any, come third, as
    ``model.fit`` expects. The dataset's attribute ``steps_per_epoch`` is the number of batches per epoch. TensorFlow's
    autotuning is off (``options().autotune``): it has nothing to tune here, and delays the end of an iteration.

    Records keep their published order, which is already shuffled. ``shuffle``, ``seed``, ``shard``, ``epochs``,
    ``skip``, ``drop_remainder`` and ``threads`` work as in :func:`iter_batches`. Each iteration over the dataset starts
    over, with the same batches. ``engine="tensorflow"`` reads and parses with TensorFlow alone: the same batches,
    several times slower, from stores that TensorFlow can open.

    Raises InputError for a missing day or split, ContractError for days with different contracts, DamagedFile for a
    shard that is missing or has the wrong size, and UsageError for invalid arguments. A damaged record is detected when
    it is read: TensorFlow then raises its own error with the message of DamagedFile.
    """
    if engine not in ("native", "tensorflow"):
        raise UsageError(f"`engine` is {engine!r}; expected 'native' or 'tensorflow'.")
    reading = Reading(batch_size, shuffle, seed, shard, epochs, skip, drop_remainder, threads)
    from ctr_samples.readers.tensors import dataset_of  # here, since it imports TensorFlow

    return dataset_of(open_samples(path, date=date, dates=dates, split=split), reading, engine, keys=keys, pad=pad)


def steps_per_epoch(
    path: str | Path,
    *,
    date: Period | str | None = None,
    dates: Sequence[Period | str] | None = None,
    split: str,
    batch_size: int,
    shard: tuple[int, int] = (0, 1),
    drop_remainder: bool = False,
) -> int:
    """Return the number of batches per epoch, from the counts in the manifests. Raises the errors of
    :func:`load_dataset`.
    """
    reading = Reading(batch_size, shard=shard, drop_remainder=drop_remainder)
    return reading.steps_of(open_samples(path, date=date, dates=dates, split=split))
