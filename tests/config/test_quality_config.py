from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from ctr_samples.config import Limits, Quality


@pytest.mark.parametrize(
    ("said", "limits"),
    [
        ({"fail": 4}, Limits(warn=1.25, fail=4)),  # what is left out stays as it is by default
        ({"fail": None}, Limits(warn=1.25, fail=None)),
        ("off", Limits(warn=None, fail=None)),
    ],
)
def test_a_limit_is_what_is_said_of_it_or_null_for_never(said: Any, limits: Limits) -> None:
    assert Quality.model_validate({"rate": said}).rate == limits


@pytest.mark.parametrize(
    ("quality", "message"),
    [({"rate": {"warn": 3, "fail": 2}}, "`warn` is above `fail`"), ({"click_rate": {"fail": 2}}, "click_rate")],
)
def test_a_warning_above_the_refusal_and_a_check_that_does_not_exist_are_refused(quality: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Quality.model_validate(quality)
