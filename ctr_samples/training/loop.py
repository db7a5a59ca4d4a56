"""The training loop: one step of gradients, on one device, on several, or on several machines."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

from ctr_samples.errors import UsageError
from ctr_samples.training.click_model import ClickModel


def use_threads(threads: int | None) -> None:
    """Set the number of TensorFlow threads; call it before anything that uses TensorFlow. None keeps the default."""
    import tensorflow as tf

    if threads is not None:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(threads)


def strategy_here() -> Any:
    """How to train in this process: with the other workers that TF_CONFIG names, on all its GPUs, or on one device.

    Must come before anything else that uses TensorFlow where there are several workers; it waits for them.
    """
    import tensorflow as tf

    if _workers_named() > 1:
        return tf.distribute.MultiWorkerMirroredStrategy()
    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    if len(devices) > 1:
        return tf.distribute.MirroredStrategy([device.name for device in devices])
    return tf.distribute.get_strategy()


def is_chief(strategy: Any) -> bool:
    """Whether this process writes checkpoints and the export: the only one, or the first of several workers."""
    resolver = strategy.cluster_resolver
    if resolver is None or resolver.task_type is None:
        return True
    has_chief = "chief" in resolver.cluster_spec().jobs
    return bool(resolver.task_type == "chief" or (not has_chief and resolver.task_id == 0))


def _workers_named() -> int:
    text = os.environ.get("TF_CONFIG") or "{}"
    try:
        cluster = json.loads(text).get("cluster", {})
        return sum(len(cluster.get(job, ())) for job in ("chief", "worker"))
    except (ValueError, AttributeError, TypeError):
        raise UsageError(
            f"The environment variable TF_CONFIG is {text!r}; expected JSON with `cluster` and `task`; unset it to train alone."
        ) from None


class Loop:
    """A model in training, under a strategy. The same program runs on each worker, with the same arguments."""

    def __init__(self, strategy: Any, make_model: Callable[[], ClickModel], make_optimizer: Callable[[], Any]) -> None:
        import tensorflow as tf

        self.strategy = strategy
        with strategy.scope():
            self.model = make_model()
            self.optimizer = make_optimizer()
            self.optimizer.build(self.model.network.trainable_variables)
        self._lost = tf.Variable(0.0, trainable=False) if strategy.num_replicas_in_sync == 1 else None
        self._step = tf.function(lambda *batch: strategy.run(self._on_replica, args=batch))

    @property
    def variables(self) -> list[Any]:
        """The whole state of training: what a checkpoint keeps besides the number of steps."""
        return [*self.model.variables, *(variable.value for variable in self.optimizer.variables)]

    def run(self, batches: Callable[[int, int, int], Any], steps: int, on_step: Callable[[], None]) -> None:
        """Take ``steps`` steps, and call ``on_step`` after each.

        ``batches(worker, workers, replicas)`` gives an endless dataset of prepared batches, of which each step takes one
        for each replica of this worker.
        """
        if steps <= 0:
            return
        here = self.strategy.distribute_datasets_from_function(
            lambda context: batches(
                context.input_pipeline_id, context.num_input_pipelines, context.num_replicas_in_sync
            )
        )
        iterator = iter(here)
        for _ in range(steps):
            self._step(*next(iterator))
            on_step()

    def take_loss(self) -> float | None:
        """The sum of the losses of all steps since it was last asked for; None where several replicas share the steps."""
        if self._lost is None:
            return None
        lost = float(self._lost.numpy())
        self._lost.assign(0.0)
        return lost

    def wait_for_all(self) -> None:
        """Return when every worker has come here, so that none leaves while another still needs it."""
        import tensorflow as tf

        if self.strategy.num_replicas_in_sync > 1:
            meet = tf.function(lambda: self.strategy.run(_meet))
            meet()

    def _on_replica(self, prepared: Any, labels: Any, weights: Any) -> None:
        import tensorflow as tf

        with tf.GradientTape() as tape:
            losses = tf.nn.sigmoid_cross_entropy_with_logits(labels, self.model.log_odds(prepared))
            # Gradients of the replicas are added up, and all have batches of one size.
            loss = tf.reduce_mean(losses * weights) / self.strategy.num_replicas_in_sync
        if self._lost is not None:
            self._lost.assign_add(loss)
        trained = self.model.network.trainable_variables
        self.optimizer.apply(tape.gradient(loss, [variable.value for variable in trained]), trained)


def _meet() -> Any:
    import tensorflow as tf

    return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tf.constant(1.0))
