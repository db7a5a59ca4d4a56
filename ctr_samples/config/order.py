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
    if by == "request" and not config.request_keys:
        yield Problem(("split", "by"), f"samples cannot be split by request, {_NO_REQUEST}")
    elif by not in known:
        what = f"samples cannot be split by {by}: impressions have no such key{nearest(by, known)}"
        yield Problem(("split", "by"), what)


def _cut_requests(config: JobConfig) -> Iterator[Problem]:
    """Yield a problem if impressions of one request may go to different splits."""
    split, keys = config.split, config.request_keys
    if split.by in ("request", *keys) or split.leaves_all_to_train:
        return
    together = f"`output.order` keeps samples with equal {' and '.join(keys)} together"
    instead = "by: request" if split.eval_from is None else f"by: request, eval_from: '{split.eval_from}'"
    default = "" if "by" in split.model_fields_set else " (the default)"
    said = f"`split.by: {split.by}`{default} can put some of them into train and some into eval"
    yield Problem(("split", "by"), f"{together}, but {said}; write `split: {{{instead}}}`")
