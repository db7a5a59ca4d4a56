"""Why an action counts or not, why a row was chosen or not, and why an action is in a history or not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ctr_samples.explain.rules import (
    Action,
    FeatureRow,
    HistoryRules,
    Impression,
    LabelRules,
    PastAction,
    ViewRules,
    in_words,
    judge_actions,
    judge_history,
    judge_rows,
)

TEN = datetime(2019, 6, 5, 10, tzinfo=UTC)
U, R = {"user": "u"}, {"user": "u", "request": "r"}
IMPRESSION = Impression(1, TEN, R)
WINDOW = LabelRules(timedelta(minutes=30))


def at(seconds: float) -> datetime:
    return TEN + timedelta(seconds=seconds)


def act(seconds: float, **keys: object) -> Action:
    return Action(at(seconds), keys=keys or U)


@pytest.mark.parametrize(
    ("seconds", "taken", "why"),
    [
        (-3.2, False, "it came 3.2s before the impression; the limit is 0s"),
        (0, True, "it came 0s after the impression, within 30m 0s (by user)"),
        (1800, True, "it came 30m 0s after the impression, within 30m 0s (by user)"),
        (1800.001, False, "it came 30m 0.001s after the impression; the limit is 30m 0s"),
    ],
)
def test_an_action_counts_within_the_window(seconds: float, taken: bool, why: str) -> None:
    (verdict,) = judge_actions(IMPRESSION, [], [act(seconds)], WINDOW)
    assert (verdict.taken, verdict.why) == (taken, why)


def test_an_action_belongs_to_the_last_impression_before_it() -> None:
    again = Impression(2, at(600), U)
    verdicts = list(judge_actions(IMPRESSION, [again], [act(700), act(500), Action(None)], WINDOW))
    assert [(v.taken, v.why) for v in verdicts] == [
        (False, "its time cannot be read"),
        (True, "it came 8m 20s after the impression, within 30m 0s (by user)"),
        (False, "it belongs to impression 2 by user, the last before it (2019-06-05 10:10:00+00:00)"),
    ]


def test_of_two_impressions_of_one_instant_the_greater_id_has_the_action() -> None:
    (verdict,) = judge_actions(IMPRESSION, [Impression(-5, TEN, U)], [act(1)], WINDOW)
    assert verdict.taken
    (verdict,) = judge_actions(IMPRESSION, [Impression(5, TEN, U)], [act(1)], WINDOW)
    assert "belongs to impression 5" in verdict.why


BOTH = LabelRules(timedelta(minutes=30), timedelta(seconds=2), (("request",), ("user",)))


def test_the_request_is_tried_before_the_user() -> None:
    other = Impression(2, at(-60), {"user": "v", "request": "s"})
    verdicts = judge_actions(IMPRESSION, [other], [act(5, user="u", request="s"), act(6, user="u", request="t")], BOTH)
    assert [(v.taken, v.why) for v in verdicts] == [
        (False, "it belongs to impression 2 by request, the last before it (2019-06-05 09:59:00+00:00)"),
        (True, "it came 6s after the impression, within 30m 0s (by user)"),
    ]


def test_an_action_a_little_before_its_impression_counts_if_clocks_may_differ() -> None:
    verdicts = judge_actions(IMPRESSION, [], [act(-2), act(-2.001)], BOTH)
    assert [(v.taken, v.why) for v in verdicts] == [
        (False, "it came 2.001s before the impression; the limit is 2s"),
        (True, "it came 2s before the impression, within 2s (by user)"),
    ]
    (verdict,) = judge_actions(IMPRESSION, [Impression(2, at(-60), U)], [act(-1)], BOTH)
    assert "belongs to impression 2 by user, the last before it" in verdict.why
    (verdict,) = judge_actions(IMPRESSION, [Impression(2, at(0.5), U)], [act(-1)], BOTH)
    assert verdict.taken, "the first of two that follow"


def test_a_number_and_its_text_are_one_key() -> None:
    (verdict,) = judge_actions(Impression(1, TEN, {"user": 7}), [], [act(1, user="7")], WINDOW)
    assert verdict.taken


ANY = ViewRules(None)


def row(event: float, known: float | None = None, **more: object) -> FeatureRow:
    return FeatureRow(at(event), at(event if known is None else known), {}, **more)  # type: ignore[arg-type]


def judged(rows: list[FeatureRow], **rules: object) -> list[tuple[bool, str]]:
    verdicts = judge_rows(TEN, rows, ViewRules(**({"ttl": timedelta(days=1)} | rules)))  # type: ignore[arg-type]
    return [(verdict.taken, verdict.why) for verdict in verdicts]


def test_each_row_is_chosen_or_has_its_reason() -> None:
    assert judged([row(1), row(0), row(-60, known=5), row(-3600), row(-7200)]) == [
        (False, "it became true 1s after the impression"),
        (False, "it became true at the same instant as the impression"),
        (False, "it was true, but not known until 5s after the impression"),
        (True, "the latest known row, 1h 0m 0s old"),
        (False, "a later row was known too"),
    ]


def test_the_best_row_may_be_too_old_or_a_tombstone() -> None:
    assert judged([row(-86400)]) == [(True, "the latest known row, 1d 0h 0m 0s old")]
    assert judged([row(-86401)]) == [(False, "it is 1d 0h 0m 1s old; the ttl is 1d 0h 0m 0s")]
    assert judged([row(-60, gone=True), row(-120)])[0] == (
        False,
        "a tombstone: from here on the entity has no features",
    )
    assert judged([row(-(10**8))], ttl=None)[0][0]
    assert judged([row(0)], inclusive=True) == [(True, "the latest known row, 0s old")]


def test_a_row_that_had_ended_is_told_from_one_of_whose_end_nobody_knew() -> None:
    assert judged([row(-60, valid_to=at(-30)), row(-120, valid_to=at(0)), row(-180)]) == [
        (False, "the row had ended at 2019-06-05 09:59:30+00:00"),
        (True, "the latest known row, 2m 0s old"),
        (False, "a later row was known too"),
    ]
    assert judged([row(-60, valid_to=at(-30), closed=at(1))]) == [(True, "the latest known row, 1m 0s old")]
    assert judged([row(-60, valid_to=at(-30), closed=at(0))])[0][0] is False
    assert judged([row(-60, valid_to=at(0))], inclusive=True)[0] == (
        False,
        "the row had ended at 2019-06-05 10:00:00+00:00",
    )
    assert judged([row(-60, valid_to=at(-60), closed=at(5))]) == [
        (False, "the row was never true: it ended at 2019-06-05 09:59:00+00:00, not after it began")
    ]


def test_the_sequence_decides_between_equal_times() -> None:
    assert [taken for taken, _ in judged([row(-60, sequence=1), row(-60, sequence=2), row(-60)])] == [
        True,
        False,
        False,
    ]


def test_of_two_rows_of_one_event_time_the_one_known_later_is_the_correction() -> None:
    assert judged([row(-60, known=-50, sequence=2), row(-60, known=-40, sequence=1)]) == [
        (True, "the latest known row, 1m 0s old"),
        (False, "a row of the same time became known later"),
    ]
    taken = [
        v.what.sequence for v in judge_rows(TEN, [row(-60, -50, sequence=2), row(-60, -40, sequence=1)], ANY) if v.taken
    ]
    assert taken == [1]


def test_of_rows_that_only_their_content_tells_apart_none_is_called_a_later_one() -> None:
    red, blue = FeatureRow(at(-60), at(-60), {"c": "red"}, tie=7), FeatureRow(at(-60), at(-60), {"c": "blue"}, tie=-7)
    why = "another row of the same times was taken, by a hash of what they hold: nothing else orders them"
    for rows in ([red, blue], [blue, red]):
        assert [(v.what, v.taken, v.why) for v in judge_rows(TEN, rows, ANY)] == [
            (red, True, "the latest known row, 1m 0s old"),
            (blue, False, why),
        ]
    assert judged([row(-60), row(-60)])[1] == (False, "an equal row counts")


def test_a_sequence_and_a_tombstone_are_named_where_they_decide() -> None:
    assert judged([row(-60, sequence=1), row(-60, sequence=2)])[1] == (
        False,
        "a row of the same times has a greater `sequence`",
    )
    assert judged([row(-60, gone=True, tie=9), row(-60, tie=-9)]) == [
        (True, "the latest known row, 1m 0s old"),
        (False, "a tombstone loses against a row of the same times"),
    ]


def test_an_entity_must_be_in_the_latest_snapshot() -> None:
    snapshots = [(at(-7200), at(-7000)), (at(-3600), at(-3000)), (at(-60), at(5))]
    assert judged([row(-3600, known=-3000)], snapshots=snapshots)[0][0]
    assert judged([row(-7200, known=-7000)], snapshots=snapshots) == [
        (False, "the latest snapshot, of 2019-06-05 09:00:00+00:00, does not contain this entity")
    ]
    of_this_instant = [(at(-3600), at(-3000)), (TEN, TEN)]
    assert judged([row(-3600, known=-3000)], snapshots=of_this_instant)[0][0], (
        "that of ten o'clock is not yet seen at ten"
    )


def past(seconds: float, item: int = 7, request: str | None = None, tie: int = 0) -> PastAction:
    return PastAction(at(seconds), item, request, tie=tie)


def listed(actions: list[PastAction], **rules: object) -> list[tuple[int, bool, str]]:
    how = HistoryRules(**({"last": 3, "within": timedelta(hours=1)} | rules))  # type: ignore[arg-type]
    return [(verdict.what.item, verdict.taken, verdict.why) for verdict in judge_history(TEN, actions, how)]


def test_each_action_is_in_a_history_or_has_its_reason() -> None:
    actions = [past(5, 1), past(0, 2), past(-5, 3), past(-20, 4), past(-30, 5, "r1"), past(-40, 6), past(-50, 4)]
    actions += [past(-60, 8), past(-70, 9), past(-3600, 10), past(-3601, 11)]
    assert listed(actions, delay=timedelta(seconds=10), own_request="r1") == [
        (1, False, "it happened 5s after the impression"),
        (2, False, "it happened at the same instant as the impression"),
        (3, False, "it was not known until 5s after the impression"),
        (4, True, "number 1, 20s old"),
        (5, False, "it belongs to the impression's own request"),
        (6, True, "number 2, 40s old"),
        (4, False, "a later action on the same item counts"),
        (8, True, "number 3, 1m 0s old"),
        (9, False, "the history already has 3 later item(s)"),
        (10, False, "the history already has 3 later item(s)"),
        (11, False, "it is 1h 0m 1s old; the limit is 1h 0m 0s"),
    ]


def test_what_a_history_leaves_out_takes_no_place_in_it() -> None:
    assert listed([past(-3600)]) == [(7, True, "number 1, 1h 0m 0s old")]
    assert listed([past(-(10**8))], within=None)[0][1]
    assert listed([past(-10)], delay=timedelta(seconds=10))[0][1], "known at that very instant"
    own = [past(-10, 7, "r1"), past(-20, 7, None), past(-30, 8, "r2")]
    assert [taken for _, taken, _ in listed(own, last=1, own_request="r1")] == [False, True, False]
    assert [taken for _, taken, _ in listed(own, last=1)] == [True, False, False], (
        "no request of its own, nothing is left out"
    )


def test_of_one_instant_the_greater_item_comes_first_and_of_one_item_the_greater_hash() -> None:
    actions = [past(-10, 7), past(-10, 9), past(-10, 8, tie=-5), past(-10, 8, tie=3)]
    taken = [(v.what.item, v.what.tie) for v in judge_history(TEN, actions, HistoryRules(3)) if v.taken]
    assert taken == [(9, 0), (8, 3), (7, 0)]


@pytest.mark.parametrize(
    ("span", "words"),
    [
        (timedelta(), "0s"),
        (timedelta(milliseconds=1), "0.001s"),
        (timedelta(microseconds=1), "0.000001s"),
        (timedelta(minutes=1), "1m 0s"),
        (timedelta(hours=25, seconds=3), "1d 1h 0m 3s"),
    ],
)
def test_a_span_reads_well(span: timedelta, words: str) -> None:
    assert in_words(span) == words
