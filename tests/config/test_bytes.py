"""Which keys of a configuration change bytes of the samples: each key is on one side."""

from __future__ import annotations

from typing import Any

import pytest

from ctr_samples.config.document import of_the_bytes
from ctr_samples.config.job import JobConfig
from ctr_samples.config.output import Output

CHANGING = {
    "name", "grain", "timezone", "sources", "impressions", "labels", "views", "histories", "features", "vocabularies",
    "fitted", "split", "sampling",
}  # fmt: skip
CHANGING_OUTPUT = {"layout", "compression", "engine", "shard_size", "partitions", "order"}
BEFORE: dict[str, Any] = {"name": "tiny", "output": {"path": "out", "partitions": 1}}


@pytest.mark.parametrize("key", sorted(JobConfig.model_fields.keys() - {"output"}))
def test_each_key_changes_the_bytes_or_is_said_not_to(key: str) -> None:
    assert (of_the_bytes({**BEFORE, key: "changed"}) != of_the_bytes(BEFORE)) == (key in CHANGING)


@pytest.mark.parametrize("key", sorted(Output.model_fields))
def test_each_key_of_the_output_changes_the_bytes_or_is_said_not_to(key: str) -> None:
    changed = {**BEFORE, "output": {**BEFORE["output"], key: "changed"}}
    assert (of_the_bytes(changed) != of_the_bytes(BEFORE)) == (key in CHANGING_OUTPUT)
