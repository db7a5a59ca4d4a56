"""The yardstick: what an honest score can reach, and that a leaking one passes it."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from ctr_samples.errors import UsageError
from ctr_samples.simulator import SimulationSpec, simulate
from ctr_samples.simulator.truth import StreamingAuc, best_auc
from tests.simulator.simulated_files import Simulated

Profile = tuple[datetime, dict[str, float]]


class Scored(NamedTuple):
    """First impressions: their true probability, whether clicked within the label window, and two scores."""

    p: list[float]
    clicked: list[bool]
    latest: list[float]  # the weight of the article's topics in the user's latest profile
    as_of: list[float]  # the same in the last profile before the impression


@pytest.fixture(scope="session")
def scored(sixty_thousand: Simulated) -> Scored:
    profiles: dict[int, list[Profile]] = defaultdict(list)
    for row in sixty_thousand.rows("user_profile"):
        profiles[row["user_id"]].append((row["updated_at"], dict(row["article_partial"])))
    for history in profiles.values():
        history.sort(key=lambda profile: profile[0])
    keys = {
        row["article_id"]: [f"{row['channel_id']}:{topic}" for topic in row["topics"]]
        for row in sixty_thousand.rows("article_profile")
    }

    def weight(row: dict[str, Any], history: list[Profile]) -> float:
        return sum(history[-1][1].get(key, 0.0) for key in keys[row["article_id"]]) if history else 0.0

    def before(row: dict[str, Any]) -> list[Profile]:
        history = profiles[row["user_id"]]
        return history[: bisect_left(history, row["impression_time"], key=lambda profile: profile[0])]

    shown = [row for row in sixty_thousand.truth if not row["repeat"]]
    return Scored(
        p=[row["p_click"] for row in shown],
        clicked=[row["clicked"] and row["click_delay_s"] <= 1800 for row in shown],
        latest=[weight(row, profiles[row["user_id"]]) for row in shown],
        as_of=[weight(row, before(row)) for row in shown],
    )


def test_the_true_probabilities_leave_room_above_and_below(scored: Scored, sixty_thousand: Simulated) -> None:
    possible = best_auc(scored.p, scored.clicked)
    assert 0.7 < possible < 0.85
    assert sixty_thousand.summary.best_auc == pytest.approx(possible, abs=1e-4)


@pytest.mark.thorough
def test_the_latest_profile_scores_above_the_best_possible(scored: Scored) -> None:
    assert best_auc(scored.latest, scored.clicked) > best_auc(scored.p, scored.clicked) + 0.05


@pytest.mark.thorough
def test_the_profile_as_of_the_impression_helps_but_stays_below_the_best_possible(scored: Scored) -> None:
    assert 0.52 < best_auc(scored.as_of, scored.clicked) < best_auc(scored.p, scored.clicked) - 0.05


def test_clicks_happen_as_often_as_their_probabilities_say(scored: Scored) -> None:
    p, clicked = np.array(scored.p), np.array(scored.clicked)
    assert clicked.mean() == pytest.approx(0.10, abs=0.01)
    for low, high in [(0.0, 0.03), (0.03, 0.1), (0.1, 0.2), (0.2, 0.4), (0.4, 1.0)]:
        inside = (p >= low) & (p < high)
        deviation = np.sqrt((p[inside] * (1 - p[inside])).sum())
        assert abs(clicked[inside].sum() - p[inside].sum()) < 4 * deviation


@pytest.mark.some(2)
@pytest.mark.parametrize(
    "spec",
    [
        {"list_size": 0},
        {"list_size": 1},
        {"list_size": 10, "click_rate": 0.3},
        {"list_size": 40, "click_rate": 0.05},
        {"list_size": 100},
        {"list_size": 20, "users": 20, "articles": 60},
    ],
)
def test_the_click_rate_is_what_was_asked_for_whatever_the_size_of_lists(spec: dict[str, Any], tmp_path: Path) -> None:
    asked = SimulationSpec(days=1, impressions=8_000, **spec)
    simulated = Simulated(asked, tmp_path / "logs", simulate(asked, tmp_path / "logs"))
    p = [row["p_click"] for row in simulated.truth if not row["repeat"]]
    assert np.mean(p) == pytest.approx(asked.click_rate, rel=0.1)


def test_vectors_carry_what_decides_a_click(sixty_thousand: Simulated) -> None:
    """An honest model: each user's clicked vectors of the first day against the articles of the second."""
    vectors = {row["article_id"]: row["articlevector"] for row in sixty_thousand.rows("article_vector")}
    mean = np.mean(list(vectors.values()), axis=0)
    shown = [row for row in sixty_thousand.truth if not row["repeat"] and row["article_id"] in vectors]
    taste: dict[int, Any] = defaultdict(lambda: np.zeros(100))
    for row in shown:
        if row["clicked"] and row["dt"] == "2019-06-04":
            taste[row["user_id"]] += vectors[row["article_id"]] - mean
    second = [row for row in shown if row["dt"] == "2019-06-05" and row["user_id"] in taste]
    scores = [taste[row["user_id"]] @ (vectors[row["article_id"]] - mean) for row in second]
    assert best_auc(scores, [row["clicked"] for row in second]) > 0.58


def test_auc_counts_pairs_and_half_of_the_ties() -> None:
    assert best_auc([0.1, 0.2, 0.3, 0.4], [False, False, True, True]) == 1.0
    assert best_auc([0.4, 0.3, 0.2, 0.1], [False, False, True, True]) == 0.0
    assert best_auc([0.5, 0.5, 0.5], [True, False, False]) == 0.5
    # Pairs (clicked, other): 0.3 > 0.1, 0.3 = 0.3, 0.2 > 0.1, 0.2 < 0.3.
    assert best_auc([0.3, 0.1, 0.3, 0.2], [True, False, False, True]) == (1 + 0.5 + 1 + 0) / 4


def test_auc_equals_the_count_over_all_pairs() -> None:
    rng = np.random.default_rng(3)
    scores, labels = rng.integers(0, 20, 300) / 20, rng.random(300) < 0.3
    difference = scores[labels][:, None] - scores[~labels]
    assert best_auc(scores, labels) == pytest.approx(((difference > 0) + 0.5 * (difference == 0)).mean(), abs=1e-12)


@pytest.mark.parametrize(
    ("p", "clicked", "message"),
    [
        ([0.1, 0.2], [True], "expected two columns of one length"),
        ([0.1, float("nan")], [True, False], "a NaN"),
        ([0.1, 0.2], [False, False], "0 clicked of 2 rows"),
        ([], [], "0 clicked of 0 rows"),
    ],
)
def test_auc_refuses_what_has_none(p: list[float], clicked: list[bool], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        best_auc(p, clicked)


def test_streaming_auc_agrees_with_the_exact_one() -> None:
    rng = np.random.default_rng(5)
    p = rng.beta(1, 9, 20_000)
    clicked = rng.random(20_000) < p
    streaming = StreamingAuc()
    assert streaming.value() is None
    for part in range(0, 20_000, 3_000):
        streaming.add(p[part : part + 3_000], clicked[part : part + 3_000])
    assert streaming.value() == pytest.approx(best_auc(p, clicked), abs=1e-4)
