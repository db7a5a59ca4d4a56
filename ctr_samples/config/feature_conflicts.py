"""Keys of one feature that contradict each other or have no effect together."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

from ctr_samples.config.base import Scalar
from ctr_samples.feature_rules import ID_KEYS, KINDS, PARTS

if TYPE_CHECKING:
    from ctr_samples.config.feature import Feature

MOST_MULTI_HOT = 4096
MOST_BOUNDARIES = 1000

_GREATEST_FLOAT32 = 3.4028234663852886e38


def conflict(feature: Feature) -> str | None:
    """Describe what is wrong with the keys of a feature, or return None."""
    if sum(source is not None for source in (feature.from_, feature.expr, feature.cross)) != 1:
        return "give exactly one of `from`, `expr` and `cross`"
    makers = [key for key in ID_KEYS if getattr(feature, key) is not None]
    if len(makers) > 1:
        return f"give `{makers[0]}` or `{makers[1]}`, not both"
    rules = (_cross, _numbers, _model, _ids, _lists, _part_of_a_time, _form, _values)
    return next((problem for rule in rules if (problem := rule(feature))), None)


def _cross(feature: Feature) -> str | None:
    if feature.cross is None:
        return None
    if feature.hash_buckets is None or len(feature.cross) < 2:
        return "`cross` takes two or more features and needs `hash_buckets`"
    others = (
        feature.at,
        feature.date_part,
        feature.top_k,
        feature.shape,
        feature.ragged,
        feature.fill,
        feature.multi_hot,
    )
    return "`cross` makes one id: remove the keys for lists, maps and times" if any(others) else None


def _numbers(feature: Feature) -> str | None:
    if feature.boundaries is not None and not _ascends(feature.boundaries):
        return f"found `boundaries: {list(feature.boundaries)}`, expected finite numbers in ascending order"
    if len(feature.boundaries or ()) > MOST_BOUNDARIES:
        return f"found {len(feature.boundaries or ())} `boundaries`, expected at most {MOST_BOUNDARIES}"
    if feature.clip is not None and not _ascends(feature.clip):
        return f"found `clip: {list(feature.clip)}`, expected two finite numbers, the smaller one first"
    if feature.bucketises and feature.scale:
        return "`scale` makes numbers, but `boundaries` and `quantiles` make ids: remove one"
    on_wire = "float32" if feature.computed == "model" or not feature.bucketises else "int64"
    if (feature.bucketises or feature.clip or feature.log1p or feature.scale) and feature.dtype != on_wire:
        made = "an id" if on_wire == "int64" else "a number"
        return f"this makes {made}: set `dtype: {on_wire}`"
    return None


def _ids(feature: Feature) -> str | None:
    if feature.salt is not None and feature.hash_buckets is None:
        return "`salt` is for `hash_buckets`"
    if feature.multi_hot and not feature.kind.multi_hot:
        return "`multi_hot` needs the ids of " + " or ".join(f"`{kind.keys[0]}`" for kind in KINDS if kind.multi_hot)
    maker = next((key for key in ID_KEYS if getattr(feature, key) is not None), None)
    if maker is None:
        return None
    if feature.default is not None or feature.fill is not None:
        return f"with `{maker}` a missing value has an id of its own; remove `default` and `fill`"
    if not feature.bucketises and (feature.clip or feature.log1p or feature.scale):
        return f"`{maker}` makes ids and takes no `clip`, `log1p` or `scale`"
    if feature.multi_hot:
        return _multi_hot(feature)
    wanted = feature.kind.in_model if feature.computed == "model" else "int64"
    if feature.dtype != wanted:
        return f"`{maker}` makes ids: set `dtype: {wanted}`"
    if len(feature.shape) > 1 or feature.encoding != "list":
        return "ids are one value or a list: give `shape` one number at most, and no `encoding`"
    return None


def _multi_hot(feature: Feature) -> str | None:
    if feature.dtype not in ("float32", "int64") or feature.shape or feature.ragged or feature.computed == "model":
        return "`multi_hot` makes a vector with one place for each id: set `dtype: float32` or `int64` and no `shape`"
    if (feature.hash_buckets or 0) > MOST_MULTI_HOT:
        return f"`multi_hot` is for at most {MOST_MULTI_HOT} ids; store the ids and let the model embed them"
    return None


def _lists(feature: Feature) -> str | None:
    if feature.fill is not None and not feature.is_list:
        return "`fill` is for lists; use `default` for a missing value"
    if feature.top_k is not None and feature.part == "values" and feature.dtype not in ("int64", "float32"):
        return "`top_k` takes the greatest numbers: set `dtype: int64` or `dtype: float32`"
    listed = feature.ragged or feature.multi_hot
    if feature.top_k is not None and not listed and feature.shape != (feature.top_k,):
        return f"`top_k: {feature.top_k}` needs `shape: [{feature.top_k}]`, or `ragged: true`"
    if feature.order == "smallest" and feature.top_k is None:
        return "`order` is for `top_k`"
    if feature.ragged and (feature.shape or feature.default is not None or feature.pad):
        return "`ragged` takes no `shape`, `default` or `pad`: the list keeps its own length"
    if feature.pad and len(feature.shape) != 1:
        return "`pad` needs a `shape` with one number"
    return None


def _part_of_a_time(feature: Feature) -> str | None:
    if feature.date_part is not None and (feature.at or feature.top_k or feature.is_list):
        return "`date_part` takes a part of one time: remove the keys for lists and maps"
    ids = PARTS[feature.date_part] if feature.date_part and feature.dtype == "int64" else None
    if ids is not None and isinstance(feature.default, int) and not 0 <= feature.default < ids:
        return f"found `default: {feature.default}`, expected 0 to {ids - 1} for `date_part: {feature.date_part}`"
    return None


def _model(feature: Feature) -> str | None:
    if feature.computed == "sample":
        return None
    if feature.makes_ids and feature.kind.in_model is None:
        return f"`{feature.kind.keys[0]}` is computed in the sample: remove `computed: model`"
    if not (feature.clip or feature.log1p or feature.scale or feature.makes_ids):
        return "`computed: model` needs `clip`, `log1p`, `scale`, `boundaries`, `quantiles` or `vocabulary`"
    if feature.vocabulary is not None and feature.shape:
        return "a model cannot tell padding from a missing token: set `ragged: true` instead of `shape`"
    return None


def _form(feature: Feature) -> str | None:
    if feature.encoding != "list" and (feature.dtype not in ("int64", "float32") or not feature.shape):
        return "`encoding` is for tensors of numbers: set `shape` and `dtype: int64` or `dtype: float32`"
    if len(feature.shape) > 1 and (feature.top_k or feature.pad or feature.scale):
        return "a shape has at most one dimension here, such as `shape: [100]`"
    return None


def _values(feature: Feature) -> str | None:
    for key in ("default", "fill"):
        value = getattr(feature, key)
        if value is not None and not _is_of(value, feature.dtype):
            expected = {"float32": "a finite number of 32 bits", "int64": "a whole number of 64 bits"}
            wanted = expected.get(feature.dtype, "text")
            return f"found `{key}: {value!r}`, expected {wanted} for `dtype: {feature.dtype}`"
    if feature.default is not None and feature.nulls != "default":
        return f"`nulls: {feature.nulls}` writes no `default`; remove one"
    return None


def _ascends(numbers: tuple[float, ...]) -> bool:
    finite = all(math.isfinite(n) for n in numbers)
    return finite and bool(numbers) and all(a < b for a, b in pairwise(numbers))


def _is_of(value: Scalar, dtype: str) -> bool:
    """Whether the record can hold the value as written."""
    if isinstance(value, str) or dtype in ("string", "bytes"):
        return isinstance(value, str) and dtype in ("string", "bytes")
    if dtype == "int64":
        return isinstance(value, int) and -(2**63) <= value < 2**63
    return abs(value) <= _GREATEST_FLOAT32
