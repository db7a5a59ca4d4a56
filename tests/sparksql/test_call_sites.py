"""PySpark's memory of call sites is off while anybody plans, and afterwards as it was."""

from __future__ import annotations

import pyspark.errors.utils
import pytest

from ctr_samples.sparksql.releases import without_call_sites


def test_the_last_of_two_plans_restores_what_the_first_one_found(monkeypatch: pytest.MonkeyPatch) -> None:
    setting = "_enable_debugging_cache"
    monkeypatch.setattr(pyspark.errors.utils, setting, True, raising=False)
    first, second = without_call_sites(), without_call_sites()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert getattr(pyspark.errors.utils, setting) is False
    second.__exit__(None, None, None)
    assert getattr(pyspark.errors.utils, setting) is True
