"""The key `grain`: keys that fit a day, an hour, or the whole log, and are refused elsewhere."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from ctr_samples.config import load_config
from ctr_samples.errors import ConfigError
from tests.support.tiny_days import write_days

WHOLE_LOG = ("grain=all", "sources.log.days_after=0")
BY_TIME = "split={by: time, eval_from: '%s'}"


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_days(tmp_path_factory.mktemp("tiny"), date(2019, 6, 3), 1)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (("grain=week",), "grain: found 'week', expected 'day', 'hour' or 'all'."),
        (
            ("grain=all",),
            "sources.log.days_after: has no effect with `grain: all`, which reads every day that is there;",
        ),
        (
            ("sources.log.path=log/{date}/{hour}",),
            "sources.log.path: found 'log/{date}/{hour}'; `{hour}` needs `grain: hour`",
        ),
        (("grain=hour", "sources.log.path=log/{hour}"), "`{hour}` needs `{date}` in the path too"),
        (("grain=hour", BY_TIME % "20:00"), "split.by: splits a day or the whole log by time, but with `grain: hour`"),
        ((BY_TIME % "2019-06-05",), "split.eval_from: found '2019-06-05', expected a time of the day such as '20:00'"),
        (
            (*WHOLE_LOG, BY_TIME % "20:00"),
            "split.eval_from: found '20:00', expected a day or a time such as '2019-06-05'",
        ),
        ((*WHOLE_LOG, BY_TIME % "2019-02-30"), "split.eval_from: found '2019-02-30', expected a day or a time such as"),
        ((*WHOLE_LOG, "fitted={path: state}"), "fitted: is fitted on days before those of the samples, and with"),
    ],
)
def test_what_does_not_fit_the_grain_is_refused(config: Path, changes: tuple[str, ...], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(config, changes)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    "changes",
    [
        ("grain=hour",),
        ("grain=hour", "sources.log.path=log/dt={date}/hour={hour}"),
        WHOLE_LOG,
        (*WHOLE_LOG, BY_TIME % "2019-06-05"),
        (*WHOLE_LOG, BY_TIME % "2019-06-05T20:00"),
        (BY_TIME % "20:00",),
    ],
)
def test_what_fits_the_grain_is_accepted(config: Path, changes: tuple[str, ...]) -> None:
    load_config(config, changes)
