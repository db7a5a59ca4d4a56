"""Published samples as a ``tf.data.Dataset``, with names, types and shapes from the contract in the manifest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ctr_samples.contract import ExampleContract
from ctr_samples.errors import UsageError
from ctr_samples.periods import Period
from ctr_samples.readers.arrays import Columns
from ctr_samples.readers.batches import Reading, columns_of
from ctr_samples.readers.plain import Parser, check_size, records_of
from ctr_samples.readers.sample_set import SampleSet, open_samples
from ctr_samples.readers.tensor_forms import TensorForm, column_specs

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
    skip: int = 0,
    drop_remainder: bool = False,
    engine: Engine = "native",
    keys: bool = False,
    threads: int | None = None,
) -> tf.data.Dataset:
    """Load batches of ``(features, labels)`` of one split, from one or several days, as listed by the newest manifests.

    ``features`` maps each feature of the contract with the role ``feature`` to a tensor of shape ``[batch, *shape]``,
    or to a RaggedTensor if it has no shape. The layout ``sparse`` gives a single SparseTensor ``features``. With
    ``keys`` it also has the impression's id, which a model must not see. ``labels`` is a tensor of shape ``[batch]``,
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
    return dataset_of(open_samples(path, date=date, dates=dates, split=split), reading, engine, keys=keys)


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


def dataset_of(samples: SampleSet, reading: Reading, engine: Engine = "native", *, keys: bool = False) -> Any:
    """Like :func:`load_dataset`, but takes samples that are open: always the same generations."""
    contract = samples.contract
    names = None if keys else [f.name for f in contract.features if f.role != "key"]
    wanted = contract if names is None else _with_only(contract, names)
    steps = reading.steps_of(samples)
    if engine == "native":
        form = TensorForm(wanted, reading.batch_size if reading.drop_remainder else None)
        dataset = dataset_from(lambda: columns_of(samples, reading, names), form, _arranged(wanted))
    else:
        check_size(wanted, reading.batch_size)
        order = reading.order_of(samples)
        records = records_of(samples, order, reading.batch_size, steps, reading.epochs, reading.skip)
        parse, arranged = Parser(wanted), _arranged(wanted)
        dataset = records.map(lambda batch: arranged(parse(batch)), num_parallel_calls=reading.decoders)
    dataset = with_length(dataset.prefetch(2), length(steps, reading.epochs, reading.skip))
    dataset.steps_per_epoch = steps
    return dataset


def _with_only(contract: ExampleContract, names: Sequence[str]) -> ExampleContract:
    return replace(contract, features=tuple(f for f in contract.features if f.name in names))


def _arranged(contract: ExampleContract) -> Any:
    """Return a function that maps columns to ``(features, labels)`` or ``(features, labels, weight)``."""
    specs = column_specs(contract)
    features = [f.name for f in specs if f.role in ("feature", "key")]
    labels = [f.name for f in specs if f.role in ("label", "mask")]
    weights = [f.name for f in specs if f.role == "weight"]

    def arrange(columns: dict[str, Any]) -> tuple[Any, ...]:
        target = columns[labels[0]] if len(labels) == 1 else {name: columns[name] for name in labels}
        return {name: columns[name] for name in features}, target, *[columns[name] for name in weights]

    return arrange


def dataset_from(
    batches: Callable[[], Iterator[Columns]], form: TensorForm, arranged: Callable[[dict[str, Any]], Any]
) -> Any:
    """Build a dataset by applying ``arranged`` to the tensors of each batch.

    Each iteration over the dataset calls ``batches`` once, and closes the resulting iterator.
    """
    import tensorflow as tf

    def arrays() -> Iterator[tuple[Any, ...]]:
        iterator = batches()
        try:
            for columns in iterator:
                yield tuple(form.arrays(columns))
        finally:
            iterator.close()  # type: ignore[attr-defined]

    signature = tuple(tf.TensorSpec(None, dtype) for dtype in form.dtypes())
    dataset = tf.data.Dataset.from_generator(arrays, output_signature=signature)
    options = tf.data.Options()
    # An ending iterator waits for the tuner's next check, up to as long as it has run; and there is nothing to tune
    # here.
    options.autotune.enabled = False
    return dataset.map(lambda *tensors: arranged(form.columns(tensors))).with_options(options)


def with_length(dataset: Any, steps: int | None) -> Any:
    """Set the number of batches, so that Keras knows it. None means infinite."""
    import tensorflow as tf

    count = tf.data.INFINITE_CARDINALITY if steps is None else steps
    return dataset.apply(tf.data.experimental.assert_cardinality(count))


def length(steps_per_epoch: int, epochs: int | None, skip: int) -> int | None:
    """Return the number of remaining batches. None means infinite."""
    if epochs is None:
        return None if steps_per_epoch else 0
    return max(0, steps_per_epoch * epochs - skip)
