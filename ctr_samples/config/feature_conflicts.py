"""Keys of one feature that contradict each other or have no effect together."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from ctr_samples.config.base import Scalar
from ctr_samples.feature_rules import ID_KEYS, KINDS

if TYPE_CHECKING:
    from ctr_samples.config.feature import Feature

MOST_MULTI_HOT = 4096
MOST_BOUNDARIES = 1000

_GREATEST_FLOAT32 = 3.4028234663852886e38


def conflict(feature: Feature) -> str | None:
    """Describe the conflict between the keys of a feature. Return None if they are consistent."""
    rules = (_kinds, _cross, _numbers, _model, _ids, _lists, _form, _values, _bias)
    return next((problem for rule in rules for problem in rule(feature)), None)


def _kinds(feature: Feature) -> Iterator[str]:
    if sum(source is not None for source in (feature.from_, feature.expr, feature.cross)) != 1:
        yield "give exactly one of `from`, `expr` and `cross`"
    makers = [key for key in ID_KEYS if getattr(feature, key) is not None]
    if len(makers) > 1:
        yield f"give `{makers[0]}` or `{makers[1]}`, not both"


def _cross(feature: Feature) -> Iterator[str]:
    if feature.cross is None:
        return
    if feature.hash_buckets is None or len(feature.cross) < 2:
        yield "`cross` takes two or more features and needs `hash_buckets`"
    of_one_value = ("at", "date_part", "top_k", "shape", "ragged", "fill", "multi_hot")
    if any(getattr(feature, key) for key in of_one_value):
        yield "`cross` makes one id: remove the keys for lists, maps and times"


def _numbers(feature: Feature) -> Iterator[str]:
    if feature.boundaries is not None and not _ascends(feature.boundaries):
        yield f"found `boundaries: {list(feature.boundaries)}`, expected finite numbers in ascending order"
    if len(feature.boundaries or ()) > MOST_BOUNDARIES:
        yield f"found {len(feature.boundaries or ())} `boundaries`, expected at most {MOST_BOUNDARIES}"
    if feature.clip is not None and not _ascends(feature.clip):
        yield f"found `clip: {list(feature.clip)}`, expected two finite numbers, the smaller one first"
    if feature.bucketises and feature.scale:
        yield "`scale` makes numbers, but `boundaries` and `quantiles` make ids: remove one"
    if not feature.makes_ids and (feature.clip or feature.log1p or feature.scale) and feature.dtype != "float32":
        yield "this makes a number: set `dtype: float32`"


def _model(feature: Feature) -> Iterator[str]:
    if feature.computed == "sample":
        return
    if feature.makes_ids and feature.kind.in_model is None:
        yield f"`{feature.kind.keys[0]}` is computed in the sample: remove `computed: model`"
    if not (feature.clip or feature.log1p or feature.scale or feature.makes_ids):
        yield "`computed: model` needs `clip`, `log1p`, `scale`, `boundaries`, `quantiles` or `vocabulary`"
    if feature.vocabulary is not None and feature.shape:
        yield "a model cannot tell padding from a missing token: set `ragged: true` instead of `shape`"


def _ids(feature: Feature) -> Iterator[str]:
    if feature.salt is not None and feature.hash_buckets is None:
        yield "`salt` is for `hash_buckets`"
    if feature.multi_hot and not feature.kind.multi_hot:
        yield "`multi_hot` needs the ids of " + " or ".join(f"`{kind.keys[0]}`" for kind in KINDS if kind.multi_hot)
    maker = next((key for key in ID_KEYS if getattr(feature, key) is not None), None)
    if maker is None:
        return
    if feature.default is not None or feature.fill is not None:
        yield f"with `{maker}` a missing value has an id of its own; remove `default` and `fill`"
    if not feature.bucketises and (feature.clip or feature.log1p or feature.scale):
        yield f"`{maker}` makes ids and takes no `clip`, `log1p` or `scale`"
    if feature.multi_hot:
        yield from _multi_hot(feature)
        return
    in_model = feature.computed == "model"
    wanted = feature.kind.in_model if in_model else "int64"
    if feature.dtype != wanted:
        yield f"`{maker}` makes ids: set `dtype: {wanted}`{', from which the model makes them' if in_model else ''}"
    if len(feature.shape) > 1 or feature.encoding != "list":
        yield "ids are one value or a list: give `shape` one number at most, and no `encoding`"


def _multi_hot(feature: Feature) -> Iterator[str]:
    if feature.dtype not in ("float32", "int64") or feature.is_list or feature.computed == "model":
        yield "`multi_hot` makes a vector with one place for each id: set `dtype: float32` or `int64` and no `shape`"
    if feature.kind.ids(feature, {}) > MOST_MULTI_HOT:
        yield f"`multi_hot` is for at most {MOST_MULTI_HOT} ids; store the ids and let the model embed them"


def _lists(feature: Feature) -> Iterator[str]:
    if feature.fill is not None and not feature.is_list:
        yield "`fill` is for lists; use `default` for a missing value"
    if feature.top_k is not None and feature.part == "values" and feature.dtype not in ("int64", "float32"):
        yield "`top_k` takes the greatest numbers: set `dtype: int64` or `dtype: float32`"
    listed = feature.ragged or feature.multi_hot
    if feature.top_k is not None and not listed and feature.shape != (feature.top_k,):
        yield f"`top_k: {feature.top_k}` needs `shape: [{feature.top_k}]`, or `ragged: true`"
    if feature.order == "smallest" and feature.top_k is None:
        yield "`order` is for `top_k`"
    if feature.ragged and (feature.shape or feature.default is not None or feature.pad):
        yield "`ragged` takes no `shape`, `default` or `pad`: the list keeps its own length"
    if feature.pad and len(feature.shape) != 1:
        yield "`pad` needs a `shape` with one number"


def _form(feature: Feature) -> Iterator[str]:
    if feature.date_part is not None and (feature.at or feature.top_k or feature.is_list):
        yield "`date_part` takes a part of one time: remove the keys for lists and maps"
    ids = 0 if feature.makes_ids else feature.kind.ids(feature, {})
    if ids and isinstance(feature.default, int) and not 0 <= feature.default < ids:
        yield f"found `default: {feature.default}`, expected 0 to {ids - 1} for `date_part: {feature.date_part}`"
    if feature.encoding != "list" and (feature.dtype not in ("int64", "float32") or not feature.shape):
        yield "`encoding` is for tensors of numbers: set `shape` and `dtype: int64` or `dtype: float32`"
    if len(feature.shape) > 1 and (feature.top_k or feature.pad or feature.scale):
        yield "a shape has at most one dimension here, such as `shape: [100]`"


def _values(feature: Feature) -> Iterator[str]:
    for key in ("default", "fill"):
        value = getattr(feature, key)
        if value is not None and not _is_of(value, feature.dtype):
            expected = {"float32": "a finite number of 32 bits", "int64": "a whole number of 64 bits"}
            wanted = expected.get(feature.dtype, "text")
            yield f"found `{key}: {value!r}`, expected {wanted} for `dtype: {feature.dtype}`"
    if feature.default is not None and feature.nulls != "default":
        yield f"`nulls: {feature.nulls}` writes no `default`; remove one"


def _bias(feature: Feature) -> Iterator[str]:
    if feature.bias is None:
        return
    if feature.is_list or feature.multi_hot or feature.cross or feature.date_part or feature.top_k:
        yield "`bias` stands for one value: remove the keys for lists, crosses and times"
    takes = "float32" if feature.bucketises else feature.dtype
    if feature.kind.takes != "values" and not _is_of(feature.bias, takes):
        yield f"found `bias: {feature.bias!r}`, expected a value for `dtype: {feature.dtype}`"


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
