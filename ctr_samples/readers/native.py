"""tf.data fed by this package's decoder: TensorFlow takes finished arrays and parses nothing."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from ctr_samples.readers.arrays import Columns
from ctr_samples.readers.tensor_forms import TensorForm


def dataset_from(
    batches: Callable[[], Iterator[Columns]], form: TensorForm, arranged: Callable[[dict[str, Any]], Any]
) -> Any:
    """A dataset of what ``arranged`` makes of the tensors of a batch.

    Each iteration over it calls ``batches`` once, and closes what it gave.

    A generator that yields many tensors is slow, since TensorFlow checks each of them in Python. So the generator yields the
    number of a batch, and the step after it hands over the arrays of that number, which are not copied where they are aligned.
    """
    import tensorflow as tf

    handed: dict[int, Columns] = {}
    tickets = itertools.count()
    dtypes = form.dtypes()

    def numbers() -> Iterator[int]:
        made: list[int] = []
        iterator = batches()
        try:
            for columns in iterator:
                made.append(next(tickets))
                handed[made[-1]] = columns
                yield made[-1]
                made = [number for number in made if number in handed]
        except GeneratorExit:  # nobody will come for the rest
            for number in made:
                handed.pop(number, None)
            raise
        finally:
            iterator.close()  # type: ignore[attr-defined]

    def arrays_of(number: Any) -> list[Any]:
        return form.arrays(handed.pop(int(number)))

    def tensors_of(number: Any) -> Any:
        arrays = tf.numpy_function(arrays_of, [number], dtypes)
        return arranged(form.columns(arrays if isinstance(arrays, list | tuple) else [arrays]))

    tokens = tf.data.Dataset.from_generator(numbers, output_signature=tf.TensorSpec([], tf.int64))
    return tokens.map(tensors_of)


def with_length(dataset: Any, steps: int | None) -> Any:
    """The dataset with its number of batches known to Keras; None is infinite."""
    import tensorflow as tf

    count = tf.data.INFINITE_CARDINALITY if steps is None else steps
    return dataset.apply(tf.data.experimental.assert_cardinality(count))


def length(steps_per_epoch: int, epochs: int | None, skip: int) -> int | None:
    """How many batches are left."""
    if epochs is None:
        return None if steps_per_epoch else 0
    return max(0, steps_per_epoch * epochs - skip)
