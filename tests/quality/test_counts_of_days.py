"""What the counts of a manifest warn of, whatever the limits are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.quality.checks.counts import alarms, filling_features
from ctr_samples.shards import Manifest, RequestOrder, Shard
from tests.support.manifests import manifest

CONTRACT = ExampleContract((FeatureSpec("age", "float32"), FeatureSpec("clicked", "int64", role="label")))
OPEN = {"files": 1, "bytes": 1, "fingerprint": "f", "missing_days": []}


def sentences(**facts: Any) -> list[tuple[str, str]]:
    one = replace(manifest(CONTRACT), **{"inputs": {}, "views": {}, "labels": {}, **facts})
    return [(found.check, found.sentence) for found in alarms(one, None)]


def clicks(**counts: Any) -> dict[str, Any]:
    return {"clicked": {"actions": 362, "orphans": 0, "without_value": 0, **counts}}


def test_actions_that_match_nothing_on_a_first_day_warn_with_the_shift_that_would_match() -> None:
    shift = {"seconds": 7200, "share": 0.957}
    assert sentences(labels=clicks(orphans=361, shift=shift)) == [
        (
            "orphans",
            "99.7% of the 362 actions of clicked match no impression, and there is no earlier day to compare with; "
            "with 2h added to their times 96% would match: is a zone wrong?",
        )
    ]
    (_, early), *_ = sentences(labels=clicks(orphans=361, shift={"seconds": -900, "share": 1.0}))
    assert "with 15m taken from their times 100% would match" in early
    (_, unknown), *_ = sentences(labels=clicks(orphans=182, shift=None))
    assert unknown.endswith("compare with; look at its times and keys.")


@pytest.mark.parametrize(("actions", "orphans"), [(362, 181), (19, 19), (0, 0)])
def test_half_of_the_actions_and_few_actions_say_nothing(actions: int, orphans: int) -> None:
    assert sentences(labels=clicks(actions=actions, orphans=orphans)) == []


@pytest.mark.parametrize(
    ("delays", "said"),
    [
        ({"10s": 0, "1h": 0, "6h": 0, "1d": 50}, "0 of the 50 actions"),
        ({"before": 1, "10s": 0, "1h": 20, "6h": 1000, "1d": 300}, "21 of the 1,321 actions"),
        ({"1h": 0, "90m": 70}, "0 of the 70 actions"),
        ({"1h": 0, "6h": 0, "1d": 49}, None),
        ({"1h": 2, "6h": 98}, None),
        ({"before": 40, "1h": 0, "6h": 60}, None),
        ({"10s": 0, "30m": 900}, None),
        ({"10s": 0, "1h": 900}, None),
        ({}, None),
    ],
)
def test_actions_of_which_hardly_any_come_in_the_first_hour_of_a_longer_window_warn(
    delays: dict[str, int], said: str | None
) -> None:
    found = sentences(labels=clicks(delays=delays))
    assert [check for check, _ in found] == ["delays"] * (said is not None)
    assert said is None or found[0][1] == (
        f"{said} of clicked that match an impression came within 1h of it. If most should, their times and those of the "
        "impressions are in different zones: write the zone of local times into `labels.clicked.time` or `impressions.time`, "
        "as in to_timestamp(concat(t, ' Asia/Shanghai'))."
    )


def test_actions_without_a_time_warn_with_one_of_them_and_what_would_read_it() -> None:
    sentence = "3 action(s) of clicked have no readable time and match no impression; see `labels.clicked.time`."
    assert sentences(labels=clicks(without_time=3)) == [("action_times", sentence)]
    said = "labels.clicked.time: t is 'noon', for example; expected text such as '2019-06-05 10:00:00'."
    found = sentences(labels=clicks(without_time=3, time_not_read=said))
    assert found == [("action_times", f"{sentence} {said}")]


def test_lines_that_are_skipped_warn_though_they_are_tolerated() -> None:
    def log(malformed: int) -> dict[str, Any]:
        return {"log": {**OPEN, "lines": 1000, "malformed": malformed}}

    assert sentences(inputs=log(10)) == []
    assert sentences(inputs=log(500)) == [
        ("skipped_lines", "50.0% of the 1,000 lines of sources.log are malformed and were skipped.")
    ]


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({"keys_with_several_rows": 0}, None),
        (
            {"keys_with_several_rows": 4},
            "4 key(s) of the view price have several rows that differ, of which one is taken",
        ),
        ({"overlaps": 9, "contradictions": 0}, None),
        ({"overlaps": 9}, None),
        (
            {"overlaps": 9, "contradictions": 4},
            "4 row(s) of the view price are true at the same time as another row of their key",
        ),
    ],
)
def test_rows_of_a_key_that_contradict_each_other_warn(counts: dict[str, int], said: str | None) -> None:
    found = sentences(views={"price": {"matched": 1, "match_rate": 1.0, **counts}})
    assert [check for check, _ in found] == ["several_rows"] * (said is not None)
    assert said is None or found[0][1].startswith(said)


CONFIG = {
    "views": {
        "user": {"source": "users"},
        "counts": {"source": "log", "aggregates": {"windows": ["7d"]}},
        "daily": {"source": "log", "daily_counts": {"clicks": "1"}},
    },
    "histories": {"recent": {"source": "clicks"}},
    "features": {
        "age": {"from": "user.age"},
        "clicks_7d": {"from": "counts.clicks_7d"},
        "rate": {"expr": "log(1 + daily.clicks)"},
        "items": {"from": "recent.items"},
        "counted": {"from": "impression.counts"},
    },
}


def day(run_date: str, **missing: list[str]) -> Manifest:
    inputs = {name: {**OPEN, "missing_days": missing.get(name, [])} for name in ("users", "log", "clicks")}
    return replace(manifest(CONTRACT, run_date=run_date), config=CONFIG, inputs=inputs)


def test_features_fill_up_while_the_log_is_shorter_than_their_window() -> None:
    missing_after = day("2019-06-05", log=["2019-06-06"], users=["2019-06-01"])
    assert filling_features([missing_after]) == set()
    assert filling_features([day("2019-06-05", log=["2019-06-01"])]) == {"clicks_7d", "rate"}
    assert filling_features([missing_after, day("2019-06-04", clicks=["2019-06-03"])]) == {"items"}


@pytest.mark.parametrize(
    ("records", "largest", "warns"), [(1_000_000, 60_000, True), (1_000_000, 50_000, False), (100_000, 9_999, False)]
)
def test_a_request_that_is_too_large_for_its_task_warns(records: int, largest: int, warns: bool) -> None:
    shard = Shard("part", "train", 0, records, 1, 0)
    found = sentences(shards=(shard,), order=RequestOrder(("request", "user"), 90_000, 11.1, largest))
    assert [check for check, _ in found] == ["huge_request"] * warns
    assert all("A request has 60,000 samples, 6% of all" in sentence for _, sentence in found)
