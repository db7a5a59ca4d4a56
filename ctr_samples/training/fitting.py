"""Train and evaluate a click model on published days, as in `ctr-samples train`."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import tensorflow as tf

from ctr_samples.arguments import check_kind
from ctr_samples.errors import DamagedFile, UsageError
from ctr_samples.readers.stream import Reading
from ctr_samples.readers.tensors import dataset_of
from ctr_samples.training.checkpoints import Checkpoints, check_place
from ctr_samples.training.click_model import ClickModel, Recipe
from ctr_samples.training.evaluation import Difference, Evaluation
from ctr_samples.training.exporting import Exported, export, made_from
from ctr_samples.training.fit_options import FitOptions
from ctr_samples.training.fit_report import FitReport
from ctr_samples.training.loop import Loop, is_chief, strategy_here
from ctr_samples.training.models import MODELS
from ctr_samples.training.preparation import ENOUGH_RECORDS, tokens_of
from ctr_samples.training.scoring import EvaluationSet, parts_to_score, score
from ctr_samples.training.training_set import TrainingSet, open_training_set


@dataclass(frozen=True, slots=True)
class TrainBatches:
    """Batches of the train split, prepared for the model: ``(features, labels, weights)``."""

    options: FitOptions
    training_set: TrainingSet
    model: ClickModel

    def steps(self, replicas: int) -> int:
        """Return the total number of training steps. Raise UsageError if a batch exceeds the split.

        Several replicas use only full batches, and the same number of batches in each epoch.
        """
        records, size = self.training_set.records, self.options.batch_size
        of_epoch = math.ceil(records / size) if replicas == 1 else records // size
        if not of_epoch:
            raise UsageError(f"`batch_size` is {size}; expected no more than the {records} samples of the train split.")
        return of_epoch * self.options.passes

    def of(self, done: int, worker: int, workers: int, replicas: int) -> Any:
        """Return an endless dataset for a worker, starting after step ``done``, with one batch per replica and step."""
        alone = replicas == 1
        reading = Reading(
            self.options.batch_size // replicas,
            shuffle=True,
            seed=self.options.seed,
            shard=(worker, workers),
            epochs=None,
            skip=done * (replicas // workers),
            drop_remainder=not alone,
            threads=self.options.threads,
        )
        return dataset_of(self.training_set, reading).map(self._prepared)

    def for_scale(self) -> Any:
        """Return prepared features of the samples used to scale numbers, identical on every worker."""
        size = self.options.batch_size
        reading = Reading(size, shuffle=True, seed=self.options.seed, threads=self.options.threads)
        dataset = dataset_of(self.training_set, reading)
        return dataset.take(max(1, ENOUGH_RECORDS // size)).map(
            lambda features, *_: self.model.preparation.prepare(features)
        )

    def _prepared(self, features: Any, labels: Any, *weight: Any) -> tuple[Any, Any, Any]:
        target = tf.cast(self.training_set.target(labels), tf.float32)
        counts = weight[0] if weight and not self.options.calibrate else tf.ones_like(target)
        if self.training_set.masks:
            counts = counts * self.training_set.chosen(labels)
        return self.model.preparation.prepare(features), target, counts


def fit(options: FitOptions, *, on_step: Callable[[int, int], None] = lambda done, of: None) -> FitReport | None:
    """Train a model. The chief also evaluates and exports it; other workers return None.

    Resumes from the newest checkpoint, if any. With one thread, the result is identical to an uninterrupted run. Raises
    InputError, ContractError, UsageError and DamagedFile like :func:`load_dataset`.
    """
    check_kind("options", options, FitOptions, "of the training")
    started = time.monotonic()
    strategy = strategy_here()
    training_set = open_training_set(options.samples, options.days, options.label, options.masks)
    parts, other_contract = parts_to_score(training_set, options.eval_date)
    against = None if options.against is None else Exported.load(options.against)
    if against is not None:
        against.check(training_set.contract, training_set.label, training_set.manifests[-1])
    if is_chief(strategy):
        for name in ("checkpoints", "export"):
            check_place(name, getattr(options, name))
    with damage_in_words():
        loop, steps, losses = _train(options, training_set, strategy, on_step)
        if not is_chief(strategy):
            loop.wait_for_all()
            return None
        report = _report(options, training_set, loop.model.copy(), parts, steps, against)
        seconds = time.monotonic() - started
        report = replace(report, losses=losses, seconds=seconds, other_contract=other_contract)
    loop.wait_for_all()
    return report


def _report(
    options: FitOptions,
    training_set: TrainingSet,
    model: ClickModel,
    parts: Sequence[EvaluationSet],
    steps: int,
    against: Exported | None,
) -> FitReport:
    """Evaluate the model on each part, also against another one. Export the model."""
    splits: dict[str, Evaluation] = {}
    differences: dict[str, Difference] = {}
    empty: list[str] = []
    for part in parts:
        scores = score(model, training_set, part, against=against, threads=options.threads)
        if scores is None:
            empty.append(part.title)
            continue
        splits[part.title], other = scores
        if other is not None:
            differences[part.title] = other
    origins = made_from(training_set.manifests[-1], training_set.contract.names())
    about = {
        **settings_of(options, training_set),
        "base_rate": training_set.base_rate,
        "steps": steps,
        "made_from": origins,
    }
    return FitReport(
        title=MODELS[options.model].title,
        days=options.days,
        label=training_set.label,
        weights=model.network.count_params(),
        steps=steps,
        splits=splits,
        left_out=model.preparation.fields.left_out,
        exported=None if options.export is None else export(model, options.export, about),
        against=options.against,
        differences=differences,
        empty=tuple(empty),
    )


def _train(
    options: FitOptions, training_set: TrainingSet, strategy: Any, on_step: Callable[[int, int], None]
) -> tuple[Loop, int, tuple[float, ...]]:
    """Return the loop with the trained model, the number of steps including earlier processes, and the mean losses of
    the last two epochs if this process trained both.
    """
    kind = MODELS[options.model]
    recipe = Recipe(
        options.model,
        training_set.contract,
        tokens_of(training_set.storage, training_set.manifests, training_set.contract),
        training_set.share_in_samples if options.calibrate else training_set.base_rate,
        training_set.kept() if options.calibrate else 1.0,
        options.seed,
    )
    loop = Loop(strategy, lambda: ClickModel(recipe), lambda: kind.make_optimizer(options.learning_rate))
    replicas = strategy.num_replicas_in_sync
    if options.batch_size % replicas:
        raise UsageError(
            f"`batch_size` is {options.batch_size}; expected a multiple of the number of replicas, {replicas}."
        )
    batches = TrainBatches(options, training_set, loop.model)
    total = batches.steps(replicas)
    kept = None
    if options.checkpoints is not None:
        settings = {**settings_of(options, training_set), "replicas": replicas}
        kept = Checkpoints(options.checkpoints, loop.variables, settings, is_chief=is_chief(strategy))
    done = kept.restore() if kept else 0
    epoch, losses = total // options.passes, list[float]()
    if done > total:
        raise UsageError(
            f"`epochs` is {options.passes}, but {options.checkpoints} has a model of {math.ceil(done / epoch)} epochs; give as "
            "many or more to train on, or a new directory to start over."
        )
    if not done:
        loop.model.preparation.fit(batches.for_scale())

    def after_step() -> None:
        nonlocal done
        done += 1
        if kept and (done % options.checkpoint_every == 0 or done == total):
            kept.save(done)
        if done % epoch == 0:
            losses.append((loop.take_loss() or 0.0) / epoch)
        on_step(done, total)

    first = done
    loop.run(lambda *place: batches.of(first, *place), total - first, after_step)
    whole = losses[-2:] if first == 0 and replicas == 1 and len(losses) > 1 else []
    return loop, done, tuple(whole)


def settings_of(options: FitOptions, training_set: TrainingSet) -> dict[str, Any]:
    """Return the settings that must not change between resumed runs. The number of epochs may increase."""
    return {
        "samples": options.samples,
        "runs": {manifest.run_date: manifest.made_by for manifest in training_set.manifests},
        "label": training_set.label,
        "model": options.model,
        "batch_size": options.batch_size,
        "seed": options.seed,
        "learning_rate": options.learning_rate,
        "calibrate": options.calibrate,
        **({"masks": list(options.masks)} if options.masks else {}),
    }


@contextmanager
def damage_in_words() -> Any:
    """Raise DamagedFile in place of the TensorFlow error that wraps it when the reader finds a damaged record."""
    try:
        yield
    except tf.errors.OpError as error:
        said = re.search(r"DamagedFile: (.*)", str(error))
        if said is None:
            raise
        raise DamagedFile(said[1]) from None
