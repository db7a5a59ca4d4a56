"""tf.data fed by this package's decoder: TensorFlow receives finished arrays and parses nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ctr_samples.readers.arrays import Columns
from ctr_samples.readers.tensor_forms import TensorForm


def dataset_from(
    batches: Callable[[], Iterator[Columns]], form: TensorForm, arranged: Callable[[dict[str, Any]], Any]
) -> Any:
    """Build a dataset by applying ``arranged`` to the tensors of each batch.

    Each iteration over it calls ``batches`` once, and closes the resulting iterator.
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
    """Set the number of batches, so that Keras knows it; None is infinite."""
    import tensorflow as tf

    count = tf.data.INFINITE_CARDINALITY if steps is None else steps
    return dataset.apply(tf.data.experimental.assert_cardinality(count))


def length(steps_per_epoch: int, epochs: int | None, skip: int) -> int | None:
    """Number of batches left; None is infinite."""
    if epochs is None:
        return None if steps_per_epoch else 0
    return max(0, steps_per_epoch * epochs - skip)
