"""The action log: its shape, and its agreement with the truth."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from ctr_samples.simulator import SimulationSpec
from ctr_samples.simulator.feed import Impressions
from ctr_samples.simulator.log_lines import action_lines, exposure_lines
from ctr_samples.simulator.reactions import READ, Actions
from ctr_samples.simulator.simulation import draw_repeats
from ctr_samples.simulator.wall_clock import wall_midnight
from ctr_samples.simulator.world import FIRST_ARTICLE_ID, build_world
from tests.simulator.simulated_files import Simulated

SHANGHAI = ZoneInfo("Asia/Shanghai")


def utc(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%d %H:%M:%S").replace(tzinfo=SHANGHAI).astimezone(UTC)


def impressions_of(line: dict[str, Any]) -> list[tuple[int, int, datetime, int]]:
    """(user, article, time, position) of an exposure line."""
    articles = line["param"]["articleId"].removeprefix("[").removesuffix("]").split(", ")
    time = utc(line["actionTime"])
    return [(int(line["param"]["userId"]), int(a), time, position) for position, a in enumerate(articles)]


def test_lines_have_the_shape_of_the_tutorial(two_days: Simulated) -> None:
    shape = re.compile(
        r'\{"actionTime":"2019-06-0[456] \d\d:\d\d:\d\d","readTime":"\d*","channelId":\d+,'
        r'"param":\{"action":"(exposure|click|read|collect|share)","userId":"\d+",'
        r'"articleId":"(\[\d+(, \d+){0,5}\]|\d+)","algorithmCombine":"C[1-9]"\}\}'
    )
    sound = [line for _, line in two_days.raw_lines if shape.fullmatch(line)]
    assert len(sound) == len(two_days.lines)


def test_an_exposure_and_a_read_are_written_like_this() -> None:
    time = np.array([wall_midnight(date(2019, 4, 10)) + (18 * 60 + 15) * 60 + 35] * 2)
    shown = Impressions(
        list_id=np.array([0, 0]),
        user=np.array([1, 1]),
        article=np.array([18577, 14299]) - FIRST_ARTICLE_ID,
        time=time,
        position=np.array([0, 1]),
        algorithm=np.array([2, 2]),
    )
    assert exposure_lines(shown, np.array([0]), time[:1]).text.to_pylist() == [
        '{"actionTime":"2019-04-10 18:15:35","readTime":"","channelId":0,"param":{"action":"exposure","userId":"2",'
        '"articleId":"[18577, 14299]","algorithmCombine":"C2"}}\n'
    ]
    world = build_world(SimulationSpec(impressions=1_000))
    channel = world.articles.channel[4]
    read = Actions(time[:1], *(np.array([value]) for value in (1, 4, READ, 816, 9)))
    assert action_lines(read, world.articles).text.to_pylist() == [
        f'{{"actionTime":"2019-04-10 18:15:35","readTime":"816","channelId":{channel},"param":{{"action":"read",'
        '"userId":"2","articleId":"1005","algorithmCombine":"C9"}}\n'
    ]


def test_an_exposure_logs_channel_0_and_a_list_and_no_read_time(two_days: Simulated) -> None:
    exposures = two_days.actions("exposure")
    assert {line["channelId"] for line in exposures} == {0}
    assert {line["readTime"] for line in exposures} == {""}
    assert {len(impressions_of(line)) for line in exposures} == {1, 2, 3, 4, 5, 6}


def test_other_actions_log_the_real_channel_of_a_bare_article(two_days: Simulated) -> None:
    channel = {row["article_id"]: row["channel_id"] for row in two_days.rows("article_profile")}
    others = [line for line in two_days.lines if line["param"]["action"] != "exposure"]
    assert others
    assert all(line["channelId"] == channel[int(line["param"]["articleId"])] for line in others)


def test_only_reads_have_a_read_time_and_a_few_reads_have_none(two_days: Simulated) -> None:
    with_time = Counter(line["param"]["action"] for line in two_days.lines if line["readTime"])
    assert set(with_time) == {"read"}
    reads = two_days.actions("read")
    assert len(reads) == two_days.summary.reads
    assert len(reads) - with_time["read"] == two_days.summary.empty_reads > 0


def test_an_action_lies_in_the_directory_of_its_shanghai_day(two_days: Simulated) -> None:
    assert all(line["actionTime"].startswith(line["dt"]) for line in two_days.lines)
    assert {line["dt"] for line in two_days.lines} == {"2019-06-04", "2019-06-05", "2019-06-06"}


def test_the_day_after_the_last_holds_late_actions_only(two_days: Simulated) -> None:
    late = Counter(line["param"]["action"] for line in two_days.lines if line["dt"] == "2019-06-06")
    assert late["click"] > 0
    assert late["exposure"] == 0


def test_malformed_lines_come_near_their_rate_and_are_counted_exactly(two_days: Simulated) -> None:
    malformed = len(two_days.raw_lines) - len(two_days.lines)
    assert malformed == two_days.summary.malformed_lines
    assert malformed / len(two_days.lines) == pytest.approx(0.02, rel=0.2)
    assert len(two_days.lines) == two_days.summary.exposure_lines + two_days.summary.action_lines


def test_malformed_lines_are_cut_off_or_miss_the_quote_after_the_user(two_days: Simulated) -> None:
    sound = {line for _, line in two_days.raw_lines if line.endswith('"}}') and '","articleId"' in line}
    malformed = [line for _, line in two_days.raw_lines if line not in sound]
    unquoted = [line for line in malformed if re.search(r'"userId":"\d+,"articleId"', line)]
    cut = [line for line in malformed if not line.endswith("}}")]
    assert len(unquoted) + len(cut) == len(malformed)
    assert unquoted
    assert cut
    assert all(line.replace(',"articleId"', '","articleId"') in sound for line in unquoted)


def test_every_impression_of_the_truth_appears_exactly_once_in_the_exposures(two_days: Simulated) -> None:
    logged = Counter(shown for line in two_days.actions("exposure") for shown in impressions_of(line))
    true = Counter((r["user_id"], r["article_id"], r["impression_time"], r["position"]) for r in two_days.truth)
    assert logged == true
    assert set(true.values()) == {1}
    assert len(true) == two_days.summary.impressions + two_days.summary.repeated_impressions
    assert two_days.summary.impressions == 20_000


def test_every_click_of_the_truth_has_exactly_one_line_and_the_others_are_orphans(two_days: Simulated) -> None:
    logged = Counter(
        (int(line["param"]["userId"]), int(line["param"]["articleId"]), utc(line["actionTime"]))
        for line in two_days.actions("click")
    )
    true = Counter(
        (row["user_id"], row["article_id"], row["impression_time"] + timedelta(seconds=row["click_delay_s"]))
        for row in two_days.truth
        if row["clicked"]
    )
    assert set(true.values()) == {1}
    assert all(logged[click] == 1 for click in true)
    assert (logged - true).total() == two_days.summary.orphan_clicks > 0
    assert len(true) == two_days.summary.clicks_in_window + two_days.summary.late_clicks


def test_labels_joined_from_the_log_equal_the_truth(two_days: Simulated) -> None:
    assert labels_from_the_log(two_days) == labels_of_the_truth(two_days)


def test_labels_agree_also_where_users_see_the_same_articles_over_and_over(crowded: Simulated) -> None:
    pairs = Counter((row["user_id"], row["article_id"]) for row in crowded.truth if not row["repeat"])
    assert max(pairs.values()) > 3
    assert crowded.summary.late_clicks > 100
    assert crowded.summary.orphan_clicks > 10
    assert labels_from_the_log(crowded) == labels_of_the_truth(crowded)


def labels_from_the_log(simulated: Simulated) -> set[tuple[int, int, datetime]]:
    """First impressions that precede a click of the same user and article most closely, within the label window."""
    shown: dict[tuple[int, int], list[datetime]] = {}
    for line in simulated.actions("exposure"):
        for user, article, time, _ in impressions_of(line):
            shown.setdefault((user, article), []).append(time)
    positive = set()
    for line in simulated.actions("click"):
        pair, time = (int(line["param"]["userId"]), int(line["param"]["articleId"])), utc(line["actionTime"])
        first = [t for t in shown.get(pair, []) if not any(0 < (t - u).total_seconds() <= 30 for u in shown[pair])]
        before = [t for t in first if t <= time]
        if before and time - max(before) <= timedelta(seconds=1800):
            positive.add((*pair, max(before)))
    return positive


def labels_of_the_truth(simulated: Simulated) -> set[tuple[int, int, datetime]]:
    return {
        (row["user_id"], row["article_id"], row["impression_time"])
        for row in simulated.truth
        if row["clicked"] and row["click_delay_s"] <= 1800
    }


def test_a_repeat_follows_its_impression_within_30_seconds_and_is_never_clicked(two_days: Simulated) -> None:
    first = {(row["user_id"], row["article_id"], row["impression_time"]) for row in two_days.truth if not row["repeat"]}
    repeats = [row for row in two_days.truth if row["repeat"]]
    assert len(repeats) == two_days.summary.repeated_impressions > 0
    for row in repeats:
        times = {row["impression_time"] - timedelta(seconds=s) for s in range(1, 30)}
        assert any((row["user_id"], row["article_id"], time) in first for time in times)
        assert (row["p_click"], row["clicked"], row["click_delay_s"]) == (0.0, False, None)


def test_a_list_shown_just_before_midnight_is_not_sent_again_the_next_day() -> None:
    midnight = wall_midnight(date(2019, 6, 5))
    repeats = draw_repeats(np.random.default_rng(0), 1.0, np.arange(midnight - 60, midnight))
    assert set(range(31)) <= set(repeats.list_id.tolist())
    assert 59 not in repeats.list_id
    assert ((midnight - 60 + repeats.list_id + repeats.delay_s) < midnight).all()
    assert set(repeats.delay_s.tolist()) <= set(range(1, 30))


@pytest.mark.thorough
def test_most_clicks_come_soon_and_a_few_after_the_label_window(sixty_thousand: Simulated) -> None:
    delays = [row["click_delay_s"] for row in sixty_thousand.truth if row["clicked"]]
    late = [delay for delay in delays if delay > 1800]
    assert min(delays) >= 1
    assert sum(delay <= 300 for delay in delays) / len(delays) > 0.85
    assert len(late) == sixty_thousand.summary.late_clicks
    assert len(late) / len(delays) == pytest.approx(0.04, abs=0.01)
    assert max(delays) > 4 * 3600


def test_clicks_cross_midnight(two_days: Simulated) -> None:
    crossing = [
        row
        for row in two_days.truth
        if row["clicked"]
        and (row["impression_time"] + timedelta(seconds=row["click_delay_s"])).astimezone(SHANGHAI).date()
        != row["impression_time"].astimezone(SHANGHAI).date()
    ]
    assert crossing
    assert {row["dt"] for row in crossing} == {"2019-06-04", "2019-06-05"}


@pytest.mark.thorough
def test_traffic_follows_the_hour_and_one_user_is_hot(sixty_thousand: Simulated) -> None:
    hours = Counter(row["impression_time"].astimezone(SHANGHAI).hour for row in sixty_thousand.truth)
    assert hours[21] > 10 * hours[4]
    (user, most), (_, second) = Counter(row["user_id"] for row in sixty_thousand.truth).most_common(2)
    assert user == sixty_thousand.summary.hot_user_id
    assert most / len(sixty_thousand.truth) == pytest.approx(0.01, rel=0.25)
    assert most > second
    articles = Counter(row["article_id"] for row in sixty_thousand.truth)
    assert articles.most_common(1)[0][1] > 50 * len(sixty_thousand.truth) / sixty_thousand.summary.articles
