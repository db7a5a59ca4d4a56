"""Validation of options that apply only to daily, hourly or whole-log runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from ctr_samples.config.job import JobConfig
from ctr_samples.config.problems import Problem
from ctr_samples.config.source import FileSource

_CLOCK = re.compile(r"[0-9]{2}:[0-9]{2}")


def grain_problems(config: JobConfig) -> Iterator[Problem]:
    """Yield the keys that do not fit ``grain``."""
    yield from _sources(config)
    yield from _eval_from(config)
    if config.fitted is not None and config.grain == "all":
        what = "is fitted on days before those of the samples, and with `grain: all` there are none; remove it"
        yield Problem(("fitted",), what)


def _sources(config: JobConfig) -> Iterator[Problem]:
    for name, source in config.sources.items():
        if config.grain == "all" and source.is_dated:
            for key in ("days_before", "days_after"):
                if getattr(source, key):
                    what = "has no effect with `grain: all`, which reads every day that is there; remove it"
                    yield Problem(("sources", name, key), what)
        if config.grain != "hour" and isinstance(source, FileSource) and source.is_hourly:
            what = f"found {source.path!r}; `{{hour}}` needs `grain: hour`"
            yield Problem(("sources", name, "path"), what)


def _eval_from(config: JobConfig) -> Iterator[Problem]:
    where, text = ("split", "eval_from"), config.split.eval_from
    if text is None:
        return
    is_clock = _CLOCK.fullmatch(text) is not None
    if config.grain == "hour":
        what = "splits a day or the whole log by time, but with `grain: hour` a run makes an hour; split by a hash"
        yield Problem(("split", "by"), what)
    elif config.grain == "day" and not is_clock:
        yield Problem(where, f"found {text!r}, expected a time of the day such as '20:00', since `grain` is day")
    elif config.grain == "all" and (is_clock or not _is_moment(text)):
        what = (
            f"found {text!r}, expected a day or a time such as '2019-06-05' or '2019-06-05T20:00', since `grain` is all"
        )
        yield Problem(where, what)


def _is_moment(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True
