"""Training loop on one device, several devices, or several machines."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ctr_samples.errors import UsageError
from ctr_samples.training.click_model import ClickModel


def use_threads(threads: int | None) -> None:
    """Set the number of TensorFlow threads. None keeps the default. Must run before any other use of TensorFlow."""
    if threads is not None:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(threads)


def strategy_here() -> Any:
    """Choose the distribution strategy of this process: the workers in TF_CONFIG, all local GPUs, or one device.

    With several workers, call this before any other use of TensorFlow; it waits for all workers. Raises UsageError for
    a malformed TF_CONFIG.
    """
    if _workers_named() > 1:
        return tf.distribute.MultiWorkerMirroredStrategy()
    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    if len(devices) > 1:
        return tf.distribute.MirroredStrategy([device.name for device in devices])
    return tf.distribute.get_strategy()


def is_chief(strategy: Any) -> bool:
    """Whether this process writes checkpoints and the export. True for the only worker or the chief of several."""
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
    """A model being trained under a distribution strategy. Every worker runs the same program and arguments."""

    def __init__(self, strategy: Any, make_model: Callable[[], ClickModel], make_optimizer: Callable[[], Any]) -> None:
        self.strategy = strategy
        with strategy.scope():
            self.model = make_model()
            self.optimizer = make_optimizer()
            self.optimizer.build(self.model.network.trainable_variables)
        self._lost = tf.Variable(0.0, trainable=False) if strategy.num_replicas_in_sync == 1 else None
        self._step = tf.function(lambda *batch: strategy.run(self._on_replica, args=batch))

    @property
    def variables(self) -> list[Any]:
        """Complete training state: everything that a checkpoint saves besides the step count."""
        return [*self.model.variables, *(variable.value for variable in self.optimizer.variables)]

    def run(self, batches: Callable[[int, int, int], Any], steps: int, on_step: Callable[[], None]) -> None:
        """Run ``steps`` training steps, and call ``on_step`` after each step.

        ``batches(worker, workers, replicas)`` returns an endless dataset of prepared batches. Each step consumes one
        batch per replica of this worker.
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
        """Return the sum of the losses since the last call, and reset it. None if there are several replicas."""
        if self._lost is None:
            return None
        lost = float(self._lost.numpy())
        self._lost.assign(0.0)
        return lost

    def wait_for_all(self) -> None:
        """Wait until every worker has called this method, so that no worker exits early."""
        if self.strategy.num_replicas_in_sync > 1:
            meet = tf.function(lambda: self.strategy.run(_meet))
            meet()

    def _on_replica(self, prepared: Any, labels: Any, weights: Any) -> None:
        with tf.GradientTape() as tape:
            losses = tf.nn.sigmoid_cross_entropy_with_logits(labels, self.model.log_odds(prepared))
            # Gradients of the replicas are summed, and their batches have equal size.
            loss = tf.reduce_mean(losses * weights) / self.strategy.num_replicas_in_sync
        if self._lost is not None:
            self._lost.assign_add(loss)
        trained = self.model.network.trainable_variables
        self.optimizer.apply(tape.gradient(loss, [variable.value for variable in trained]), trained)


def _meet() -> Any:
    return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tf.constant(1.0))
