"""Export a trained model as a SavedModel for servers, with serialized examples or features as input."""

from __future__ import annotations

import hashlib
import json
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from ctr_samples.arguments import check_kind, path_text
from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.errors import ContractError, InputError
from ctr_samples.feature_rules import FITTED_KEYS
from ctr_samples.periods import Period, period_of
from ctr_samples.readers.plain import Parser, records_of
from ctr_samples.readers.sample_set import open_samples
from ctr_samples.readers.stream import Reading
from ctr_samples.shards import Manifest
from ctr_samples.training.checkpoints import not_written
from ctr_samples.training.click_model import ClickModel
from ctr_samples.training.evaluation import Evaluation, Floats, counting, log_odds_of, scores_of

EXAMPLES, FEATURES = "serving_default", "features"
PROBABILITY, LOG_ODDS = "probability", "log_odds"


ABOUT = "assets.extra/training.json"


def export(model: ClickModel, directory: str | Path, about: Mapping[str, Any]) -> str:
    """Write the next version of a model, such as ``<directory>/1``, for a model server. Return its path.

    The version appears atomically. The signature ``serving_default`` accepts ``examples``, a vector of serialized
    records. The signature ``features`` accepts the features of the model as returned by :func:`load_dataset`, except
    that variable-length lists are split into ``<name>.values`` and ``<name>.row_splits``. Both return the vectors
    ``probability`` and ``log_odds``, which tells samples apart whose probability rounds to 0 or 1. Writes ``about``,
    and the contract of the features that it uses, to ``assets.extra/training.json``. Raises UsageError if the directory
    is not writable.
    """
    root = Path(path_text("directory", directory))
    check_kind("model", model, ClickModel, "that was trained")
    staged = root / f".{uuid.uuid4().hex}"
    try:
        root.mkdir(parents=True, exist_ok=True)
        module = tf.Module()
        module.held = model.variables, model.preparation.tables
        signatures = {EXAMPLES: _of_examples(model), FEATURES: _of_features(model)}
        tf.saved_model.save(module, str(staged), signatures=signatures)
        (staged / ABOUT).parent.mkdir()
        written = {**about, "contract": model.preparation.contract.to_dict()}
        (staged / ABOUT).write_text(json.dumps(written, indent=1) + "\n")
        version = max((int(path.name) for path in root.iterdir() if path.name.isdecimal()), default=0) + 1
        staged.rename(root / str(version))
    except (OSError, tf.errors.OpError) as error:
        raise not_written("export", str(root), error) from None
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    return str(root / str(version))


def _of_examples(model: ClickModel) -> Any:
    parse = Parser(model.preparation.contract)

    def predict(examples: Any) -> dict[str, Any]:
        return _predicted(model, parse(examples))

    return tf.function(predict, input_signature=[tf.TensorSpec([None], tf.string, "examples")])


def _predicted(model: ClickModel, columns: dict[str, Any]) -> dict[str, Any]:
    log_odds = model.log_odds_of_impressions(model.preparation.prepare(columns))
    return {PROBABILITY: tf.sigmoid(log_odds), LOG_ODDS: log_odds}


def _of_features(model: ClickModel) -> Any:
    specs = model.preparation.contract.features
    given = {name: spec for feature in specs for name, spec in _given(feature).items()}

    def predict(features: dict[str, Any]) -> dict[str, Any]:
        columns = {spec.name: _column(spec, features) for spec in specs}
        return _predicted(model, columns)

    return tf.function(predict, input_signature=[given])


def _given(spec: FeatureSpec) -> dict[str, Any]:
    """Create the input tensors of a feature."""
    dtype = tf.string if spec.dtype == "bytes" else tf.as_dtype(spec.dtype)
    if not _is_ragged(spec):
        return {spec.name: tf.TensorSpec([None, *(spec.shape or ())], dtype, spec.name)}
    values, splits = f"{spec.name}.values", f"{spec.name}.row_splits"
    return {values: tf.TensorSpec([None], dtype, values), splits: tf.TensorSpec([None], tf.int64, splits)}


def _column(spec: FeatureSpec, given: dict[str, Any]) -> Any:
    if not _is_ragged(spec):
        return given[spec.name]
    return tf.RaggedTensor.from_row_splits(given[f"{spec.name}.values"], given[f"{spec.name}.row_splits"])


def _is_ragged(spec: FeatureSpec) -> bool:
    return spec.shape is None or spec.sequence


def made_from(manifest: Manifest, names: Iterable[str]) -> dict[str, str]:
    """Return for each feature a hash of its definition, of what it is made of, and of the fitted state if it needs one."""
    config, state = manifest.config, manifest.contract.get("state") or {}
    features = config.get("features") or {}
    graph = manifest.graph
    columns = (config.get("impressions") or {}).get("columns") or {}

    def parts(name: str) -> dict[str, Any]:
        feature, part = features.get(name) or {}, f"features.{name}"
        found = {f"columns.{one}": columns[one] for one in columns if graph.reads_any(part, "impressions", (one,))}
        for other in graph.reads.get(part, ()):
            kind, _, one = other.partition(".")
            if kind in ("views", "histories"):
                found[other] = config[kind][one]
            elif kind == "features":
                found[one] = parts(one)
        is_fitted = any(feature.get(key) for key in FITTED_KEYS)
        return {"": feature, **found, **({"state": [state.get("lineage"), state.get("version")]} if is_fitted else {})}

    hashes = {name: json.dumps(parts(name), sort_keys=True, default=str).encode() for name in names if name in features}
    return {name: hashlib.sha256(content).hexdigest()[:16] for name, content in hashes.items()}


@dataclass(frozen=True, slots=True)
class Exported:
    """A version of an exported model, with what is known of its training."""

    path: str
    model: Any
    about: Mapping[str, Any]

    @classmethod
    def load(cls, path: str) -> Exported:
        """Load a version, such as ``export/1``. Raises InputError if there is none."""
        try:
            return cls(path, tf.saved_model.load(path), json.loads(Path(path, ABOUT).read_text()))
        except (OSError, ValueError) as error:
            raise InputError(
                f"{path} has no exported model ({str(error).splitlines()[0]}); expected a version, such as export/1."
            ) from None

    @property
    def _contract(self) -> ExampleContract:
        """The features that the model uses."""
        return ExampleContract.from_dict(self.about["contract"])

    def check(self, contract: ExampleContract, label: str, manifest: Manifest) -> None:
        """Raise ContractError unless the model predicts this label from features that samples of the contract and manifest
        have, made from the same.
        """
        if self.about["label"] != label:
            raise ContractError(f"The model {self.path} predicts {self.about['label']!r}, expected {label!r}.")
        if not {"contract", "made_from"} <= self.about.keys():
            raise ContractError(f"The model {self.path} does not tell its features; export it again with this release.")
        then, now = self.about["made_from"], made_from(manifest, self._contract.names())
        for spec in self._contract.features:
            if then.get(spec.name) != now.get(spec.name) and spec.name in contract.names():
                raise ContractError(
                    f"The feature {spec.name!r} of the samples is made from other values than the one that the model "
                    f"{self.path} was trained on, by another definition, view or vocabulary. Train it again on these samples."
                )
            if spec.name not in contract.names() or contract[spec.name] != spec:
                is_there = "have another" if spec.name in contract.names() else "do not have the"
                raise ContractError(
                    f"The samples {is_there} feature {spec.name!r}, which the model {self.path} uses. Compare it on samples "
                    "with all of its features, or train it again."
                )

    def predict(self, features: Mapping[str, Any]) -> Any:
        """Return the probabilities for a batch of :func:`load_dataset`."""
        return self._run(features)[PROBABILITY]

    def predict_log_odds(self, features: Mapping[str, Any]) -> Any:
        """Return the log-odds for a batch of :func:`load_dataset`."""
        return log_odds_in(self._run(features))

    def _run(self, features: Mapping[str, Any]) -> Any:
        given: dict[str, Any] = {}
        for spec in self._contract.features:
            column = features[spec.name]
            given |= (
                {f"{spec.name}.values": column.values, f"{spec.name}.row_splits": column.row_splits}
                if _is_ragged(spec)
                else {spec.name: column}
            )
        return self.model.signatures[FEATURES](**given)


def log_odds_in(outputs: Mapping[str, Any]) -> Any:
    """Return the log-odds that a signature gives. Exports of 0.1.0 have probabilities alone."""
    if LOG_ODDS in outputs:
        return outputs[LOG_ODDS]
    return tf.constant(log_odds_of(outputs[PROBABILITY].numpy()))


def evaluate_export(
    path: str | Path, samples: str | Path, *, date: Period | str, split: str, batch_size: int = 4096
) -> Evaluation:
    """Evaluate an exported model as a server would run it, on the serialized records of one split of a day.

    ``path`` is a version, such as ``export/1``. Only samples count of which all masks of the training are 1. This package
    only locates the shards. TensorFlow reads and decodes the records, so it needs access to the shard paths.
    """
    path, samples = path_text("path", path), path_text("samples", samples)
    period, reading = period_of(date), Reading(batch_size)
    exported = Exported.load(path)
    predict, about = exported.model.signatures[EXAMPLES], exported.about
    sample_set = open_samples(samples, date=period, split=split)
    label, masks = about["label"], about.get("masks", ())
    for name in (label, *masks):
        if name not in sample_set.contract.names():
            raise InputError(f"The samples of {period} have no {name!r}, which the model {path} was trained with.")
    factors = [*sample_set.contract.names("weight"), *masks]
    contract = sample_set.contract
    parse = Parser(replace(contract, features=tuple(f for f in contract.features if f.name in {label, *factors})))

    def batches() -> Iterator[tuple[Floats, Floats, Floats]]:
        for records in records_of(sample_set, reading):
            truth = {name: column.numpy() for name, column in parse(records).items()}
            predicted = log_odds_in(predict(examples=records)).numpy()
            yield truth[label], predicted, np.prod([truth[name] for name in factors], axis=0) * np.ones(len(predicted))

    labels, predictions, weights = counting(batches())
    if not len(labels):
        raise InputError(f"{split} of {period} has no sample that counts: none has all masks and a weight above 0.")
    return scores_of(labels, predictions, about["base_rate"], weights)
