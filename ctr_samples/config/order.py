"""Validation of the order of samples, and of the split, which must not cut what the order keeps together."""

from __future__ import annotations

from collections.abc import Iterator

from ctr_samples.config.job import JobConfig
from ctr_samples.config.problems import Problem, nearest

_NO_REQUEST = "since nothing tells which impressions form a request: set `impressions.request` or a key `user`"


def order_problems(config: JobConfig) -> Iterator[Problem]:
    """Yield the problems of ``output.order`` and ``split``."""
    wrong = [*_unknown_order(config), *_unknown_split(config)]
    yield from wrong
    if not wrong and config.output.by_request:
        yield from _cut_requests(config)


def _unknown_order(config: JobConfig) -> Iterator[Problem]:
    order, keys = config.output.order, [*config.impressions.keys_and_request, "time"]
    if order == "request" and not config.request_keys:
        yield Problem(("output", "order"), f"samples cannot be ordered by request, {_NO_REQUEST}, or list the keys")
    for name in order if isinstance(order, list) else ():
        if name not in keys:
            what = f"samples cannot be ordered by {name}: impressions have no such key{nearest(name, keys)}"
            yield Problem(("output", "order"), what)


def _unknown_split(config: JobConfig) -> Iterator[Problem]:
    by, known = config.split.by, [*config.impressions.entities, "request", "impression", "time"]
    if by == "request" and not config.request_identity:
        yield Problem(("split", "by"), f"samples cannot be split by request, {_NO_REQUEST}")
    elif by not in known:
        what = f"samples cannot be split by {by}: impressions have no such key{nearest(by, known)}"
        yield Problem(("split", "by"), what)


def _cut_requests(config: JobConfig) -> Iterator[Problem]:
    """Yield a problem if samples that the order keeps together may go to different splits."""
    split, keys = config.split, config.request_keys
    if split.leaves_all_to_train or (_keeps_requests(config) if split.by == "request" else split.by in keys):
        return
    together = f"`output.order` keeps samples with equal {' and '.join(keys)} together"
    default = "" if "by" in split.model_fields_set else " (the default)"
    said = f"`split.by: {split.by}`{default} can put some of them into train and some into eval"
    yield Problem(("split", "by"), f"{together}, but {said}; write {_instead(config)}")


def _keeps_requests(config: JobConfig) -> bool:
    """Whether all samples that the order keeps together may go where their request goes."""
    return config.order_keeps(["request"] if config.impressions.request is not None else config.visit_keys)


def _instead(config: JobConfig) -> str:
    """Say what to write so that the split cuts nothing, with the shares or the time that are configured."""
    split, order = config.split, config.output.order
    parts = [name for name in ("eval", "test", "eval_from") if name in split.model_fields_set]
    own = "".join(f", {name}: {getattr(split, name)!r}" for name in parts)
    by_request = f"`split: {{by: request{own}}}`"
    if config.request_identity and _keeps_requests(config):
        return by_request
    if split.eval_from is not None and "time" in order:
        return f"`split: {{by: time{own}}}`"
    listed = next((name for name in order if name != "time"), None)
    other = f"`output.order: request` and {by_request}" if config.request_identity else "`output.order: impression`"
    if listed is None:
        return other
    return f"`split: {{by: {listed}{own}}}`" if split.eval_from is None else f"{other}, or `split: {{by: {listed}}}`"
