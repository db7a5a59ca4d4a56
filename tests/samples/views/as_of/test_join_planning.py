"""Which method joins which view: facts in, steps out."""

from __future__ import annotations

import pytest

from ctr_samples.samples.views.as_of import JoinLimits, JoinStep, ViewFacts, described, plan_joins

LIMITS = JoinLimits(broadcast_bytes=1000, rows_of_a_key=10)


def plan(*views: ViewFacts) -> list[tuple[str, tuple[str, ...]]]:
    return [(step.method, step.views) for step in plan_joins(views, LIMITS)]


@pytest.mark.parametrize(
    ("view", "method"),
    [
        (ViewFacts("v", ("user",)), "union"),
        (ViewFacts("v", ("user",), "static", bytes=10**9), "static"),
        (ViewFacts("v", ("user",), "snapshot", bytes=10**9), "snapshots"),
        (ViewFacts("v", ("user",), bytes_in_memory=1000, rows_of_a_key=10), "intervals"),
        (ViewFacts("v", ("user",), "snapshot", bytes_in_memory=1000, rows_of_a_key=10), "intervals"),
        (ViewFacts("v", ("user",), bytes_in_memory=1001, rows_of_a_key=10), "union"),
        (ViewFacts("v", ("user",), bytes_in_memory=1000, rows_of_a_key=11), "union"),
        (ViewFacts("v", ("user",), bytes_in_memory=1000), "union"),
        (ViewFacts("v", ("user",), bytes_in_memory=1, rows_of_a_key=1, method="union"), "union"),
        (ViewFacts("v", ("user",), "snapshot", bytes=10**9, method="union"), "union"),
    ],
)
def test_size_and_kind_of_a_view_choose_its_method(view: ViewFacts, method: str) -> None:
    assert plan(view) == [(method, ("v",))]


def test_views_of_one_entity_share_a_shuffle_and_small_ones_come_last() -> None:
    views = [
        ViewFacts("profile", ("user",)),
        ViewFacts("vector", ("article",)),
        ViewFacts("daily", ("user",), "snapshot"),
        ViewFacts("static", ("article",), "static"),
        ViewFacts("counts", ("user",)),
        ViewFacts("small", ("article",), bytes_in_memory=1, rows_of_a_key=1),
    ]
    assert plan(*views) == [
        ("union", ("vector",)),
        ("union", ("profile", "counts")),
        ("snapshots", ("daily",)),
        ("static", ("static",)),
        ("intervals", ("small",)),
    ]


def test_small_views_are_broadcast_as_long_as_all_of_them_fit_into_memory() -> None:
    views = [
        ViewFacts("vector", ("article",), bytes_in_memory=700, rows_of_a_key=3),
        ViewFacts("profile", ("user",), bytes_in_memory=600, rows_of_a_key=3),
        ViewFacts("city", ("city",), bytes_in_memory=400, rows_of_a_key=1),
    ]
    assert plan(*views) == [("union", ("vector",)), ("intervals", ("profile",)), ("intervals", ("city",))]


def test_the_largest_views_are_joined_last() -> None:
    views = [
        ViewFacts("vector", ("article",), bytes=3000),
        ViewFacts("profile", ("user",), bytes=2500),
        ViewFacts("table", ("city",)),
        ViewFacts("counts", ("article",)),
    ]
    assert plan(*views) == [("union", ("table",)), ("union", ("profile",)), ("union", ("vector", "counts"))]


def test_a_plan_reads_like_a_sentence() -> None:
    steps = [
        JoinStep("intervals", ("small",), ("article",), "it is small (1,000 bytes, at most 3 row(s) per key)"),
        *plan_joins([ViewFacts("profile", ("user",)), ViewFacts("counts", ("user",))]),
    ]
    assert list(described(steps)) == [
        "1. small by broadcast intervals on the article: it is small (1,000 bytes, at most 3 row(s) per key)",
        "2. profile, counts by union and window on the user: one shuffle for all of them",
    ]
