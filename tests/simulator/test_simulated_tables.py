"""Profiles, vectors and channels: their columns, and that none knows the future."""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow.parquet as pq
import pytest

from tests.simulator.simulated_files import Simulated

SHANGHAI = ZoneInfo("Asia/Shanghai")
HOUR = timedelta(hours=1)


def columns(simulated: Simulated, path: str) -> dict[str, str]:
    return {field.name: str(field.type) for field in pq.read_schema(simulated.out / path)}


def test_tables_have_these_columns(two_days: Simulated) -> None:
    assert columns(two_days, "user_profile/dt=2019-06-04/part-00000.parquet") == {
        "user_id": "int64",
        "gender": "string",
        "age": "int32",
        "article_partial": "map<string, double ('article_partial')>",
        "updated_at": "timestamp[us, tz=UTC]",
    }
    assert columns(two_days, "article_vector/dt=2019-06-04/part-00000.parquet") == {
        "article_id": "int64",
        "channel_id": "int32",
        "articlevector": "list<element: double>",
        "trained_at": "timestamp[us, tz=UTC]",
    }
    assert columns(two_days, "article_profile/part-00000.parquet") == {
        "article_id": "int64",
        "channel_id": "int32",
        "keywords": "map<string, double ('keywords')>",
        "topics": "list<element: string>",
        "published_at": "timestamp[us, tz=UTC]",
    }
    assert columns(two_days, "truth/dt=2019-06-04/part-00000.parquet") == {
        "user_id": "int64",
        "article_id": "int64",
        "impression_time": "timestamp[us, tz=UTC]",
        "position": "int32",
        "repeat": "bool",
        "p_click": "double",
        "clicked": "bool",
        "click_delay_s": "int32",
    }


def test_channels_are_1_to_25_and_18_is_python(two_days: Simulated) -> None:
    with (two_days.out / "channels" / "part-00000.csv").open(newline="") as file:
        channels = {int(row["id"]): row["name"] for row in csv.DictReader(file)}
    assert list(channels) == list(range(1, 26))
    assert channels[18] == "python"
    assert {row["channel_id"] for row in two_days.rows("article_profile")} == set(range(1, 26))


def test_articles_have_1_to_4_topics_of_their_own_which_are_keywords_too(two_days: Simulated) -> None:
    articles = two_days.rows("article_profile")
    assert len(articles) == two_days.summary.articles == 2_000 + 120
    for row in articles:
        keywords = dict(row["keywords"])
        assert len(keywords) == len(row["keywords"])
        assert 1 <= len(set(row["topics"])) == len(row["topics"]) <= 4
        assert set(row["topics"]) <= set(keywords)
        assert all(weight > 0 for weight in keywords.values())
    counts = {len(row["keywords"]) for row in articles}
    assert min(counts) < 10 < max(counts)


def test_a_topic_word_names_topics_of_several_channels(two_days: Simulated) -> None:
    channels = defaultdict(set)
    for row in two_days.rows("article_profile"):
        for topic in row["topics"]:
            channels[topic].add(row["channel_id"])
    assert max(len(seen) for seen in channels.values()) > 2


def test_vectors_are_trained_daily_at_3_for_the_articles_published_by_then(two_days: Simulated) -> None:
    published = {row["article_id"]: row["published_at"] for row in two_days.rows("article_profile")}
    trained = defaultdict(set)
    for row in two_days.rows("article_vector"):
        assert len(row["articlevector"]) == 100
        assert all(math.isfinite(value) for value in row["articlevector"])
        assert row["dt"] == row["trained_at"].astimezone(SHANGHAI).date().isoformat()
        trained[row["trained_at"].astimezone(SHANGHAI)].add(row["article_id"])
    assert list(trained) == [datetime(2019, 6, day, 3, tzinfo=SHANGHAI) for day in (3, 4, 5)]
    for time, articles in trained.items():
        assert articles == {article for article, since in published.items() if since < time}


def test_new_articles_are_shown_after_publication_and_before_they_have_a_vector(two_days: Simulated) -> None:
    published = {row["article_id"]: row["published_at"] for row in two_days.rows("article_profile")}
    last_training = datetime(2019, 6, 5, 3, tzinfo=SHANGHAI)
    assert all(row["impression_time"] >= published[row["article_id"]] for row in two_days.truth)
    assert any(published[row["article_id"]] > last_training for row in two_days.truth)


def test_cold_users_act_but_have_no_profile(two_days: Simulated) -> None:
    with_profile = {row["user_id"] for row in two_days.rows("user_profile")}
    cold = set(range(1, two_days.spec.users + 1)) - with_profile
    assert len(cold) == two_days.summary.cold_users > 0
    shown = [row for row in two_days.truth if not row["repeat"] and row["user_id"] in cold]
    assert len(shown) == two_days.summary.cold_user_impressions > 0


def test_known_users_start_with_a_row_of_the_day_before(two_days: Simulated) -> None:
    first = [row for row in two_days.rows("user_profile") if row["dt"] == "2019-06-03"]
    assert len({row["user_id"] for row in first}) == len(first)
    assert len(first) == two_days.spec.users - two_days.summary.cold_users
    assert {row["gender"] for row in first} == {"male", "female", None}
    assert None in {row["age"] for row in first}
    assert any(row["article_partial"] == [] for row in first)
    assert any(row["article_partial"] for row in first)


def test_later_profiles_come_at_the_end_of_an_hour_in_which_the_user_acted(two_days: Simulated) -> None:
    updates = {(row["user_id"], row["updated_at"]) for row in two_days.rows("user_profile") if row["dt"] > "2019-06-03"}
    known = {row["user_id"] for row in two_days.rows("user_profile")}
    assert updates == {(user, end) for user, end in acted_on(two_days) if user in known}


def test_a_profile_grows_by_the_weight_of_the_actions_of_its_hour(two_days: Simulated) -> None:
    topics = {row["article_id"]: row["topics"] for row in two_days.rows("article_profile")}
    acted = acted_on(two_days)
    grown = 0
    for user, history in profiles_of(two_days).items():
        for (_, before), (end, after) in pairwise(history):
            added = sum(weight_of(lines) for lines in acted[user, end].values())
            if len(after) < 64:  # a full profile forgets
                assert sum(after.values()) - sum(before.values()) == pytest.approx(added, abs=1e-3)
            for article, lines in acted[user, end].items():
                keys = {f"{lines[0]['channelId']}:{topic}" for topic in topics[article]}
                assert keys <= set(after)
                grown += 1
    assert grown > 1_000


def test_the_directory_of_a_profile_is_the_shanghai_day_of_its_update(two_days: Simulated) -> None:
    for row in two_days.rows("user_profile"):
        assert row["dt"] == row["updated_at"].astimezone(SHANGHAI).date().isoformat()


def profiles_of(simulated: Simulated) -> dict[int, list[tuple[datetime, dict[str, float]]]]:
    """Each user's profiles by time."""
    histories = defaultdict(list)
    for row in simulated.rows("user_profile"):
        histories[row["user_id"]].append((row["updated_at"], dict(row["article_partial"])))
    return {user: sorted(history, key=lambda entry: entry[0]) for user, history in histories.items()}


def acted_on(simulated: Simulated) -> dict[tuple[int, datetime], dict[int, list[dict[str, Any]]]]:
    """For each (user, end of an hour) the article -> lines of that hour, exposures left out."""
    lines: dict[tuple[int, datetime], dict[int, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for line in simulated.lines:
        if line["param"]["action"] != "exposure":
            time = datetime.fromisoformat(line["actionTime"]).replace(tzinfo=SHANGHAI)
            end = time.replace(minute=0, second=0).astimezone(UTC) + HOUR
            lines[int(line["param"]["userId"]), end][int(line["param"]["articleId"])].append(line)
    return lines


def weight_of(lines: list[dict[str, Any]]) -> float:
    """The tutorial's weight of one article's actions, made today."""
    names = {line["param"]["action"] for line in lines}
    read_ms = sum(int(line["readTime"] or 0) for line in lines)
    return 3 * ("share" in names) + 2 * ("collect" in names) + 5 * ("click" in names) + (2 if read_ms > 1000 else 1)
