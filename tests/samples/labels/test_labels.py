"""Attribution: which action labels which impression, and which labels none."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ctr_samples.config import ActionLabel, Impressions
from ctr_samples.samples.labels import IS_ACTION, ORPHAN, actions_near, actions_of, attribute, plan_label
from ctr_samples.samples.period import Day

Frame = Callable[..., DataFrame]
DAY = Day.of(date(2019, 6, 5), "UTC")
SHOWN = Impressions(source="log", time="at", user="user_id", article="article_id")
CLICKED = ActionLabel(source="log", where="action = 'click'", window="30m")
READ = ActionLabel(source="log", where="action = 'read'", window="2h", value="read_ms", reduce="sum")


def impressions(frame: Frame, *rows: tuple[int, str, str | None, str]) -> DataFrame:
    """Rows of (id, time of 2019-06-05, user, article)."""
    dated = [(number, f"2019-06-05 {time}", user, article) for number, time, user, article in rows]
    return frame("impression_id bigint, impression_time timestamp, user string, article string", dated)


def actions(frame: Frame, *rows: tuple[str, str | None, str, str, str | None]) -> DataFrame:
    """Rows of (time, user, article, action, milliseconds)."""
    dated = [(t if len(t) > 15 else f"2019-06-05 {t}", *rest) for t, *rest in rows]
    return frame("at string, user_id string, article_id string, action string, read_ms string", dated)


def labels(shown: DataFrame, log: DataFrame, **wanted: ActionLabel) -> dict[int, tuple[Any, ...]]:
    """Impression id -> its label values."""
    columns = [name for label in wanted for name in (label, f"{label}__mask")]
    rows = _attributed(shown, log, wanted).where(~F.col(IS_ACTION))
    found = [c for c in columns if c in rows.columns]
    return {r.impression_id: tuple(r[c] for c in found) for r in rows.collect()}


def orphans(shown: DataFrame, log: DataFrame, **wanted: ActionLabel) -> int:
    return _attributed(shown, log, wanted).where(F.col(ORPHAN)).count()


def _attributed(shown: DataFrame, log: DataFrame, wanted: dict[str, ActionLabel]) -> DataFrame:
    plans = [plan_label(name, label, SHOWN) for name, label in wanted.items()]
    return attribute(shown, {("user", "article"): [actions_near(actions_of(log, plans), DAY, plans)]}, plans)


def test_a_click_counts_from_the_impression_to_the_end_of_its_window(frame: Frame) -> None:
    expected = {"10:00:00": 1, "10:29:59.999": 1, "10:30:00": 1, "10:30:00.000001": 0, "09:59:59.999999": 0}
    shown = impressions(frame, *[(n, "10:00:00", f"u{n}", "a") for n in range(len(expected))])
    log = actions(frame, *[(time, f"u{n}", "a", "click", None) for n, time in enumerate(expected)])
    found = labels(shown, log, clicked=CLICKED)
    assert {time: found[n] for n, time in enumerate(expected)} == {time: (label,) for time, label in expected.items()}
    assert orphans(shown, log, clicked=CLICKED) == 2


def test_one_click_labels_only_the_nearest_impression_before_it(frame: Frame) -> None:
    shown = impressions(frame, (1, "10:00:00", "u1", "a"), (2, "10:10:00", "u1", "a"), (3, "10:20:00", "u1", "a"))
    log = actions(frame, ("10:15:00", "u1", "a", "click", None))
    assert labels(shown, log, clicked=CLICKED) == {1: (0,), 2: (1,), 3: (0,)}


def test_many_clicks_on_one_impression_are_one_label(frame: Frame) -> None:
    shown = impressions(frame, (1, "10:00:00", "u1", "a"))
    log = actions(frame, *[(f"10:0{m}:00", "u1", "a", "click", None) for m in range(3)])
    assert labels(shown, log, clicked=CLICKED) == {1: (1,)}


def test_another_user_or_article_is_another_impression(frame: Frame) -> None:
    shown = impressions(frame, (1, "10:00:00", "u1", "a"))
    log = actions(frame, ("10:01:00", "u2", "a", "click", None), ("10:01:00", "u1", "b", "click", None))
    assert labels(shown, log, clicked=CLICKED) == {1: (0,)}
    assert orphans(shown, log, clicked=CLICKED) == 2


def test_reading_is_not_clicking(frame: Frame) -> None:
    shown = impressions(frame, (1, "10:00:00", "u1", "a"))
    log = actions(frame, ("10:01:00", "u1", "a", "read", "1500"))
    assert labels(shown, log, clicked=CLICKED, read_ms=READ) == {1: (0, 1500.0, 1)}


def test_repeated_reading_adds_up_and_is_compared_as_numbers(frame: Frame) -> None:
    shown = impressions(frame, (1, "10:00:00", "u1", "a"))
    log = actions(frame, ("10:01:00", "u1", "a", "read", "900"), ("10:02:00", "u1", "a", "read", "1000"))
    longest = READ.model_copy(update={"reduce": "max"})
    assert labels(shown, log, read_ms=READ) == {1: (1900.0, 1)}
    assert labels(shown, log, read_ms=longest) == {1: (1000.0, 1)}


def test_no_reading_and_reading_without_a_number_are_told_from_reading_for_no_time(frame: Frame) -> None:
    shown = impressions(frame, (1, "10:00:00", "u1", "a"), (2, "10:00:00", "u1", "b"), (3, "10:00:00", "u1", "c"))
    log = actions(frame, ("10:01:00", "u1", "a", "read", "0"), ("10:01:00", "u1", "b", "read", ""))
    assert labels(shown, log, read_ms=READ) == {1: (0.0, 1), 2: (0.0, 0), 3: (0.0, 0)}


def test_each_label_has_its_own_window(frame: Frame) -> None:
    shown = impressions(frame, (1, "10:00:00", "u1", "a"))
    log = actions(frame, ("11:00:00", "u1", "a", "click", None), ("11:00:00", "u1", "a", "read", "5"))
    assert labels(shown, log, clicked=CLICKED, read_ms=READ) == {1: (0, 5.0, 1)}


def test_a_click_after_midnight_labels_the_impression_before_it(frame: Frame) -> None:
    shown = impressions(frame, (1, "23:50:00", "u1", "a"))
    log = actions(frame, ("2019-06-06 00:10:00", "u1", "a", "click", None))
    assert labels(shown, log, clicked=CLICKED) == {1: (1,)}


def test_unknown_users_match_nobody(frame: Frame) -> None:
    shown = impressions(frame, (1, "10:00:00", None, "a"), (2, "10:00:00", None, "a"))
    log = actions(frame, ("10:01:00", None, "a", "click", None))
    assert labels(shown, log, clicked=CLICKED) == {1: (0,), 2: (0,)}
    assert orphans(shown, log, clicked=CLICKED) == 1


def test_an_action_without_a_readable_time_is_an_orphan(frame: Frame) -> None:
    shown = impressions(frame, (1, "10:00:00", "u1", "a"))
    log = actions(frame, ("no time at all here", "u1", "a", "click", None))
    assert labels(shown, log, clicked=CLICKED) == {1: (0,)}
    assert orphans(shown, log, clicked=CLICKED) == 1


def test_a_day_without_actions_labels_everything_zero(frame: Frame) -> None:
    shown = impressions(frame, (1, "10:00:00", "u1", "a"))
    assert labels(shown, actions(frame), clicked=CLICKED, read_ms=READ) == {1: (0, 0.0, 0)}


def test_a_request_id_beats_the_clock(frame: Frame) -> None:
    shown = frame(
        "impression_id bigint, impression_time timestamp, request string, article string",
        [(1, "2019-06-05 10:00:00", "r1", "a"), (2, "2019-06-05 10:10:00", "r2", "a")],
    )
    log = frame("at timestamp, request_id string, article_id string", [("2019-06-05 10:11:00", "r1", "a")])
    by_request = Impressions(source="log", time="at", article="article_id", request="request_id")
    plans = [plan_label("clicked", ActionLabel(source="log", window="30m"), by_request)]
    assert plans[0].tried == (("request", "article"),)
    rows = (
        attribute(shown, {("request", "article"): [actions_of(log, plans)]}, plans).where(~F.col(IS_ACTION)).collect()
    )
    assert {r.impression_id: r.clicked for r in rows} == {1: 1, 2: 0}


def oracle(shown: list[tuple[int, int, str]], clicks: list[tuple[int, str]], window: int) -> dict[int, int]:
    found = {number: 0 for number, _, _ in shown}
    for time, user in clicks:
        before = [(t, n) for n, t, u in shown if u == user and t <= time]
        if before and time - max(before)[0] <= window:
            found[max(before)[1]] = 1
    return found


def test_random_logs_agree_with_the_definition(frame: Frame) -> None:
    import random

    rng = random.Random(7)
    cells = sorted({(rng.randrange(120), rng.choice("abc")) for _ in range(80)})
    shown = [(n, minute, user) for n, (minute, user) in enumerate(cells)]
    clicks = [(rng.randrange(130), rng.choice("abcd")) for _ in range(60)]

    def clock(minute: int) -> str:
        return f"{10 + minute // 60}:{minute % 60:02d}:00"

    left = impressions(frame, *[(n, clock(t), u, "x") for n, t, u in shown])
    log = actions(frame, *[(clock(t), u, "x", "click", None) for t, u in clicks])
    short = CLICKED.model_copy(update={"window": timedelta(minutes=4)})
    assert {n: v[0] for n, v in labels(left, log, clicked=short).items()} == oracle(shown, clicks, 4)
