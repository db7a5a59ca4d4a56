"""Which method joins which view: facts in, steps out."""

from __future__ import annotations

import pytest

from ctr_samples.samples.views.as_of.planning import (
    JoinLimits,
    JoinStep,
    ViewFacts,
    described,
    order_steps,
    plan_joins,
    views_of,
)

LIMITS = JoinLimits(broadcast_bytes=1000)


def plan(*views: ViewFacts) -> list[tuple[str, tuple[str, ...]]]:
    return [(step.method, step.views) for step in plan_joins(views, LIMITS)]


@pytest.mark.parametrize(
    ("view", "method"),
    [
        (ViewFacts("v", ("user",)), "shuffle"),
        (ViewFacts("v", ("user",), bytes=10**9), "shuffle"),
        (ViewFacts("v", ("user",), bytes_in_memory=1000), "broadcast"),
        (ViewFacts("v", ("user",), bytes_in_memory=1001), "shuffle"),
        (ViewFacts("v", ("user",), bytes_in_memory=1, method="shuffle"), "shuffle"),
        (ViewFacts("v", ("user",), bytes=10**9, method="broadcast"), "broadcast"),
    ],
)
def test_the_size_of_a_view_chooses_its_method(view: ViewFacts, method: str) -> None:
    assert plan(view) == [(method, ("v",))]


def test_views_of_one_entity_share_a_shuffle_and_small_ones_come_last() -> None:
    views = [
        ViewFacts("profile", ("user",)),
        ViewFacts("vector", ("article",)),
        ViewFacts("daily", ("user",)),
        ViewFacts("static", ("article",)),
        ViewFacts("counts", ("user",)),
        ViewFacts("small", ("article",), bytes_in_memory=1),
    ]
    assert plan(*views) == [
        ("shuffle", ("vector", "static")),
        ("shuffle", ("profile", "daily", "counts")),
        ("broadcast", ("small",)),
    ]


def test_small_views_are_broadcast_as_long_as_all_of_them_fit_into_memory() -> None:
    views = [
        ViewFacts("vector", ("article",), bytes_in_memory=700),
        ViewFacts("profile", ("user",), bytes_in_memory=600),
        ViewFacts("city", ("city",), bytes_in_memory=400),
    ]
    assert plan(*views) == [("shuffle", ("vector",)), ("broadcast", ("profile",)), ("broadcast", ("city",))]


def test_the_largest_views_are_joined_last() -> None:
    views = [
        ViewFacts("vector", ("article",), bytes=3000),
        ViewFacts("profile", ("user",), bytes=2500),
        ViewFacts("table", ("city",)),
        ViewFacts("counts", ("article",)),
    ]
    assert plan(*views) == [("shuffle", ("table",)), ("shuffle", ("profile",)), ("shuffle", ("vector", "counts"))]


def test_a_plan_reads_like_a_sentence() -> None:
    steps = [
        JoinStep("broadcast", ("small",), ("article",), "it is small (1,000 bytes)"),
        *plan_joins([ViewFacts("profile", ("user",)), ViewFacts("counts", ("user",))]),
    ]
    assert list(described(steps)) == [
        "1. small by broadcast on the article: it is small (1,000 bytes)",
        "2. profile, counts by a shuffle on the user: one shuffle for all of them",
    ]


def test_a_small_view_that_gives_a_key_comes_before_the_shuffle_on_it() -> None:
    steps = plan_joins(
        [
            ViewFacts("item", ("article",), bytes_in_memory=1),
            ViewFacts("brand", ("item.brand",), level=1),
            ViewFacts("city", ("city",), bytes_in_memory=1),
        ],
        LIMITS,
    )
    before, after = order_steps(steps)
    assert (views_of(before), views_of(after)) == (["item", "brand"], ["item", "city"])
