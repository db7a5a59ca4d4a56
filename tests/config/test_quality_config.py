from __future__ import annotations

import pytest
from pydantic import ValidationError

from ctr_samples.config import Limits, Quality


def test_a_limit_that_is_left_out_stays_as_it_is_by_default() -> None:
    assert Quality.model_validate({"rate": {"fail": 4}}).rate == Limits(warn=1.25, fail=4)


def test_a_limit_of_null_is_never() -> None:
    assert Quality.model_validate({"rate": {"fail": None}}).rate == Limits(warn=1.25, fail=None)


def test_off_switches_a_check_off() -> None:
    assert Quality.model_validate({"rate": "off"}).rate == Limits(warn=None, fail=None)


def test_a_warning_above_the_refusal_is_refused() -> None:
    with pytest.raises(ValidationError, match="`warn` is above `fail`"):
        Quality.model_validate({"rate": {"warn": 3, "fail": 2}})


def test_a_check_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValidationError, match="click_rate"):
        Quality.model_validate({"click_rate": {"fail": 2}})
