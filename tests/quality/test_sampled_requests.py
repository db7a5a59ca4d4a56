"""Requests sampled by many tasks: enough of them are left to tell what each order costs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.quality.measure.collecting import Collector, RequestCollector, Wanted
from ctr_samples.quality.measure.merging import Measures
from ctr_samples.quality.measure.requests import RequestMeasures
from ctr_samples.quality.metrics import Requests
from ctr_samples.quality.report.contents import requests_in_words

CONTRACT = ExampleContract(
    (
        FeatureSpec("user", "float32", (60,), nulls="fail"),
        FeatureSpec("impression_id", "int64", role="key", nulls="fail"),
    )
)
OF_TEN = 10
PER_TASK = 30
"""Requests of ten in each task."""


def rows(requests: np.ndarray, chance: np.random.Generator) -> pa.RecordBatch:
    """The impressions of requests, whose user has the same numbers."""
    size = len(requests)
    vectors = np.stack([np.random.default_rng(abs(int(request))).random(60) for request in requests]).astype(np.float32)
    return pa.record_batch(
        {
            "user": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 60),
            "impression_id": pa.array(np.arange(size)),
            "_request": pa.array(requests),
            "_place": pa.array(chance.integers(-(2**63), 2**63 - 1, size)),
        }
    )


def measured(tasks: int, *, adjacent: bool) -> Requests:
    chance = np.random.default_rng(tasks)
    ids = chance.integers(-(2**63), 2**63 - 1, tasks * PER_TASK)
    impressions = np.repeat(ids, OF_TEN)
    if not adjacent:
        impressions = chance.permutation(impressions)
    measures = RequestMeasures()
    wanted = Wanted(CONTRACT, request="_request", place="_place", by_request=adjacent, tasks=tasks)
    for number, of_task in enumerate(np.split(impressions, tasks)):
        collector = RequestCollector(wanted, number)
        collector.observe(rows(of_task, chance))
        measures.merge(collector.close())
    found = measures.result(["request"], 0, "example", adjacent=adjacent)
    assert found is not None
    return found


@pytest.mark.parametrize("adjacent", [True, False], ids=["by request", "by impression"])
@pytest.mark.parametrize(
    "tasks", [40, pytest.param(400, marks=pytest.mark.slow), pytest.param(700, marks=pytest.mark.slow)]
)
def test_what_orders_cost_is_known_however_many_tasks_there_are(tasks: int, adjacent: bool) -> None:
    found = measured(tasks, adjacent=adjacent)
    assert (found.mean, found.median) == (OF_TEN, OF_TEN)
    assert found.gzip is not None
    assert found.gzip.looked_at > 200_000
    assert found.gzip.by_request < 0.4 * found.gzip.by_impression
    assert found.equal_bytes is not None
    assert found.equal_bytes > 0.85


def test_too_few_requests_to_tell_are_said() -> None:
    nothing = Requests(("request",), True, 7, 7, 1.0, 1.0, 1, None, None)
    assert requests_in_words(nothing) == "Too few of the 7 requests were sampled to tell what each order needs."


def test_a_heavy_user_is_found_in_whichever_task_all_its_samples_lie() -> None:
    contract = ExampleContract((FeatureSpec("age", "float32", (), nulls="fail"),))
    wanted = Wanted(contract, user="_user", place="_place", by_request=True, tasks=50)
    tasks = []
    for number in range(50):
        collector = Collector(wanted, number)
        users = ["crawler"] * 300 if number == 40 else [f"u{number}-{one}" for one in range(14)]
        numbers = np.arange(len(users))
        collector.observe(pa.record_batch({"age": numbers.astype("f4"), "_user": users, "_place": numbers}), "train")
        tasks.append(collector.close())
    found = Measures.of(tasks).users()
    assert found is not None
    assert (found.looked_at, found.heaviest[0].user) == (986, "crawler")
    assert found.heaviest[0].share == pytest.approx(300 / 986)
