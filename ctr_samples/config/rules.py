"""Which keys of one part of the configuration need or exclude each other, with a sentence for each that does not fit.

The rules of a model hold for those that inherit from it, too. The first that is broken is reported.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import pairwise
from typing import Any

from ctr_samples.config.units import format_duration
from ctr_samples.feature_rules import ID_KEYS, KINDS, PAIRS

MOST_MULTI_HOT = 4096
MOST_BOUNDARIES = 1000

_GREATEST_FLOAT32 = 3.4028234663852886e38


def broken(part: Any) -> str | None:
    """Return the sentence for the first rule that a part of the configuration breaks, or None."""
    rules = (rule for model in reversed(type(part).__mro__) for rule in RULES.get(model.__name__, ()))
    return next((sentence for rule in rules for sentence in rule(part)), None)


def _said_once(part: Any) -> Iterator[str]:
    for name in ("user", "article"):
        if getattr(part, name) is not None and name in part.keys:
            yield f"found both `{name}` and `keys.{name}`, which are the same; remove one"


def _one_clock(part: Any) -> Iterator[str]:
    if part.available_time is not None and part.available_after is not None:
        yield "give `available_time` or `available_after`, not both"


def _columns(source: Any) -> Iterator[str]:
    if source.optional and source.schema_ is None:
        yield "`optional` needs `schema`: the columns of a source that is not there"


def _source(source: Any) -> Iterator[str]:
    if source.unique_first is not None and not source.unique:
        yield "`unique_first` needs `unique`, which tells the copies of an event"


def _csv(source: Any) -> Iterator[str]:
    if (source.rename or source.by_position) and not source.header:
        yield "`rename` and `by_position` need `header: true`"
    if source.rename and source.by_position:
        yield "`rename` has no effect with `by_position`; remove one"


def _database(source: Any) -> Iterator[str]:
    if (source.table is None) == (source.query is None):
        yield "`format: jdbc` needs either `table` or `query`"


def _impressions(shown: Any) -> Iterator[str]:
    if shown.shown is not None and shown.shown not in shown.entities:
        yield f"`shown: {shown.shown}` is none of the keys; expected one of {', '.join(shown.entities)}"
    alone = set(shown.entities) <= {shown.shown_key}
    if alone and shown.request is None and shown.identity == "keys":
        yield "needs `user`, another key or `request`, to tell impressions apart; with `identity: row` each row is one"
    if shown.explode and "article" not in shown.entities:
        yield "`explode: article` needs `article`, the column that holds the list"
    if shown.explode and shown.position is not None:
        yield "`explode` gives the position; remove `position`"
    if shown.identity == "row" and shown.dedup is not None:
        yield "`dedup` has no effect with `identity: row`, where no row is a repeat; remove one"
    if shown.skip_above is not None and shown.explode is None and shown.position is None:
        yield "`skip_above` needs positions: set `explode` or `position`"
    if shown.skip_above is not None and shown.request is None and "user" not in shown.entities:
        yield "`skip_above` needs `request`, or a key `user`, to tell which rows are of one list"


def _split(split: Any) -> Iterator[str]:
    if split.by == "time" and split.eval_from is None:
        yield "`by: time` needs `eval_from`, such as `eval_from: '20:00'`"
    if split.eval_from is not None and split.by not in ("time", "request"):
        yield f"`eval_from` needs `by: time` or `by: request`; found `by: {split.by}`"
    if split.eval_from is not None and split.model_fields_set & {"eval", "test"}:
        yield "`eval_from` splits by time, without shares: remove `eval` and `test`"
    if split.eval + split.test >= 1:
        yield "`eval` and `test` leave nothing to train on; their sum must be less than 1"


def _sampling(sampling: Any) -> Iterator[str]:
    others = [name for name in ("rate", "cap", "weight") if getattr(sampling, name) is not None]
    if sampling.negatives is not None and others:
        share = f"{sampling.negatives:g}"
        instead = f"write `negatives: {share}` as `rate: if(clicked = 1, 1, {share})`, with your labels"
        yield f"found `negatives` and `{others[0]}`; {instead}"
    if sampling.negatives is None and not others:
        yield "needs `negatives`, or `rate`, `cap` or `weight`"


def _label(label: Any) -> Iterator[str]:
    if "after" in label.masks and label.after is None:
        yield "`masks: after` needs `after`, the label that comes first"


def _action_label(label: Any) -> Iterator[str]:
    if "request" in label.keys:
        yield "found `keys.request`; give the request's id as `request`, beside `keys`"
    if label.skew > timedelta(hours=1):
        yield "found more than 1h in `skew`, expected the few seconds by which clocks disagree"
    if (label.value is None) != (label.reduce == "any"):
        yield "`reduce: sum`, `max` and `first` need `value`; `reduce: any` takes none"


def _view(view: Any) -> Iterator[str]:
    if (view.entity == "user_article") != (view.article_key is not None):
        yield "`entity: user_article` needs `article_key` beside `key`, and no other entity takes it"
    if (view.entity is None) == (view.on is None):
        yield "needs `on`, the key that it is joined on, or `entity`, which is the same said shorter; not both"
    elif len(view.keys) != len(view.joined_on):
        joined = f"[{', '.join(view.joined_on)}], in that order"
        yield f"found {len(view.keys)} `key` for {len(view.joined_on)} of `on`; expected one expression for each of {joined}"


def _aging_view(view: Any) -> Iterator[str]:
    if problem := view.too_short(view.is_daily):
        yield problem


def _event_view(view: Any) -> Iterator[str]:
    if view.closed_available is not None and view.valid_to is None:
        yield "`closed_available` needs `valid_to`, which says when a row ceased to be true"


def _aggregates(counted: Any) -> Iterator[str]:
    step = format_duration(counted.step)
    if timedelta(days=1) % counted.step:
        yield f"`step: {step}` does not divide a day; choose one such as 1m, 15m, 1h or 1d"
    for window in counted.windows:
        if window % counted.step or not window:
            yield f"the window {format_duration(window)} is not a whole number of steps of {step}"
    if not (counted.counts or counted.sums or counted.distinct):
        yield "needs `counts`, `sums` or `distinct`"


def _history(history: Any) -> Iterator[str]:
    if history.user is not None and history.key is not None:
        yield "found both `key` and `user`, which are the same; remove one"
    if history.user is not None and history.on != "user":
        yield f"`user` is for histories of the user and this one is `on: {history.on}`; give its `key` instead"


def _known_in_time(history: Any) -> Iterator[str]:
    if history.within is not None and history.within < history.delay:
        found = f"`within: {format_duration(history.within)}` with `available_after: {format_duration(history.delay)}`"
        yield f"found {found}: an action would be too old before it is known; expected a longer `within`"


def _kinds(feature: Any) -> Iterator[str]:
    sources = ("from_", "expr", "cross", *PAIRS)
    if sum(getattr(feature, source) is not None for source in sources) != 1:
        yield "give exactly one of `from`, `expr`, `cross`, `lookup`, `overlap` and `dot`"
    makers = [key for key in ID_KEYS if getattr(feature, key) is not None]
    if len(makers) > 1:
        yield f"give `{makers[0]}` or `{makers[1]}`, not both"


def _pair(feature: Any) -> Iterator[str]:
    if feature.pair is None:
        return
    kind, entry = feature.pair
    if feature.at or feature.date_part or feature.bias is not None:
        yield f"`{kind}` makes the value: remove `at`, `date_part` and `bias`"
    if kind == "lookup" and entry["keys"] is None and entry["under"] is None:
        yield "`lookup` needs `keys`, or `under` for all entries under a key"
    if kind == "lookup" and entry["keys"] is None and entry["reduce"] is not None:
        yield "`lookup.reduce` needs `keys`, whose values it makes one number of"


def _cross(feature: Any) -> Iterator[str]:
    if feature.cross is None:
        return
    if feature.hash_buckets is None or len(feature.cross) < 2:
        yield "`cross` takes two or more features and needs `hash_buckets`"
    of_one_value = ("at", "date_part", "top_k", "shape", "ragged", "fill", "multi_hot")
    if any(getattr(feature, key) for key in of_one_value):
        yield "`cross` makes one id: remove the keys for lists, maps and times"


def _numbers(feature: Any) -> Iterator[str]:
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


def _model(feature: Any) -> Iterator[str]:
    if feature.computed == "sample":
        return
    if feature.makes_ids and feature.kind.in_model is None:
        yield f"`{feature.kind.keys[0]}` is computed in the sample: remove `computed: model`"
    if not (feature.clip or feature.log1p or feature.scale or feature.makes_ids):
        yield "`computed: model` needs `clip`, `log1p`, `scale`, `boundaries`, `quantiles` or `vocabulary`"
    if feature.vocabulary is not None and feature.shape:
        yield "a model cannot tell padding from a missing token: set `ragged: true` instead of `shape`"


def _ids(feature: Any) -> Iterator[str]:
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


def _multi_hot(feature: Any) -> Iterator[str]:
    if feature.dtype not in ("float32", "int64") or feature.is_list or feature.computed == "model":
        yield "`multi_hot` makes a vector with one place for each id: set `dtype: float32` or `int64` and no `shape`"
    if feature.kind.ids(feature, {}) > MOST_MULTI_HOT:
        yield f"`multi_hot` is for at most {MOST_MULTI_HOT} ids; store the ids and let the model embed them"


def _lists(feature: Any) -> Iterator[str]:
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


def _form(feature: Any) -> Iterator[str]:
    if feature.date_part is not None and (feature.at or feature.top_k or feature.is_list):
        yield "`date_part` takes a part of one time: remove the keys for lists and maps"
    ids = 0 if feature.makes_ids else feature.kind.ids(feature, {})
    if ids and isinstance(feature.default, int) and not 0 <= feature.default < ids:
        yield f"found `default: {feature.default}`, expected 0 to {ids - 1} for `date_part: {feature.date_part}`"
    if feature.encoding != "list" and (feature.dtype not in ("int64", "float32") or not feature.shape):
        yield "`encoding` is for tensors of numbers: set `shape` and `dtype: int64` or `dtype: float32`"
    if len(feature.shape) > 1 and (feature.top_k or feature.pad or feature.scale):
        yield "a shape has at most one dimension here, such as `shape: [100]`"


def _values(feature: Any) -> Iterator[str]:
    for key in ("default", "fill"):
        value = getattr(feature, key)
        if value is not None and not _is_of(value, feature.dtype):
            expected = {"float32": "a finite number of 32 bits", "int64": "a whole number of 64 bits"}
            wanted = expected.get(feature.dtype, "text")
            yield f"found `{key}: {value!r}`, expected {wanted} for `dtype: {feature.dtype}`"
    if feature.default is not None and feature.nulls != "default":
        yield f"`nulls: {feature.nulls}` writes no `default`; remove one"


def _bias(feature: Any) -> Iterator[str]:
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


def _is_of(value: float | str, dtype: str) -> bool:
    """Whether the record can hold the value as written."""
    if isinstance(value, str) or dtype in ("string", "bytes"):
        return isinstance(value, str) and dtype in ("string", "bytes")
    if dtype == "int64":
        return isinstance(value, int) and -(2**63) <= value < 2**63
    return abs(value) <= _GREATEST_FLOAT32


RULES: dict[str, tuple[Callable[[Any], Iterator[str]], ...]] = {
    "SourceKind": (_source,),
    "FileSource": (_columns,),
    "CsvSource": (_csv,),
    "CatalogSource": (_columns,),
    "DatabaseSource": (_database,),
    "Impressions": (_said_once, _impressions),
    "Split": (_split,),
    "Sampling": (_sampling,),
    "LabelKind": (_label,),
    "ActionLabel": (_said_once, _action_label),
    "ViewKind": (_view,),
    "AgingView": (_aging_view,),
    "EventView": (_one_clock, _event_view),
    "WindowView": (_one_clock,),
    "Aggregates": (_aggregates,),
    "History": (_history, _one_clock, _known_in_time),
    "Feature": (_kinds, _pair, _cross, _numbers, _model, _ids, _lists, _form, _values, _bias),
}
"""The rules of each model, by its name, in the order in which they are checked."""
