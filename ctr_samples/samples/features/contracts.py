"""Contract with readers, derived from the configuration. Pure; needs no Spark."""

from __future__ import annotations

from ctr_samples.config import Feature, JobConfig
from ctr_samples.config.base import SAMPLE_WEIGHT, mask_of
from ctr_samples.config.feature_checks import ids_of
from ctr_samples.contract import DType, ExampleContract, FeatureSpec, ModelSteps
from ctr_samples.feature_rules import HASHED
from ctr_samples.samples.features.layouts import laid_out
from ctr_samples.vocabulary import NOTHING_FITTED, FittedState

_WIRE: dict[str, DType] = {"int64": "int64", "float32": "float32", "string": "bytes", "bytes": "bytes"}


def contract_of(config: JobConfig, state: FittedState | None = None) -> ExampleContract:
    """Return the contract of a run: features, labels with masks, weight and impression id, in the output layout."""
    return laid_out(columns_contract(config, state), config)


def columns_contract(config: JobConfig, state: FittedState | None) -> ExampleContract:
    """Return the contract with one feature per configured feature, before any layout joins them."""
    features = [_spec(name, feature, config, state) for name, feature in config.features.items()]
    labels = []
    for name, label in config.labels.items():
        labels.append(FeatureSpec(name, "int64" if label.is_flag else "float32", role="label", nulls="fail"))
        if not label.is_flag:
            labels.append(FeatureSpec(mask_of(name), "int64", role="mask", nulls="fail"))
        labels += [FeatureSpec(mask, "int64", role="mask", nulls="fail") for mask in label.masks_of(name)]
    key = FeatureSpec("impression_id", "int64", role="key", nulls="fail")
    weight = [FeatureSpec(SAMPLE_WEIGHT, "float32", role="weight", nulls="fail")] if config.sampling else []
    fitted = None if state is None else state.to_contract()
    return ExampleContract((*features, *labels, *weight, key), state=fitted)


def _spec(name: str, feature: Feature, config: JobConfig, state: FittedState | None) -> FeatureSpec:
    buckets = ids_of(config, feature)
    shape = (buckets or 0,) if feature.multi_hot else None if feature.ragged else feature.shape
    return FeatureSpec(
        name,
        _WIRE[feature.dtype],
        shape,
        nulls="omit" if feature.nulls == "omit" else "fail",
        encoding=feature.encoding,
        buckets=buckets if feature.is_id else None,
        missing=HASHED.missing if feature.kind is HASHED and not feature.is_list else None,
        model=_model_steps(name, feature, state or NOTHING_FITTED) if feature.computed == "model" else None,
    )


def _model_steps(name: str, feature: Feature, state: FittedState) -> ModelSteps:
    shift: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()
    boundaries = state.boundaries[name] if feature.quantiles is not None else feature.boundaries or ()
    if feature.scale is not None:
        shift, scale = state.moments[name].shift_and_scale(feature.scale)
    return ModelSteps(feature.clip, feature.log1p, shift, scale, boundaries, feature.vocabulary)
