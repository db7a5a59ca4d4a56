"""Why an action counts or not, and why a row was chosen or not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ctr_samples.verdicts import Action, FeatureRow, LabelRules, Shown, ViewRules, in_words, judge_actions, judge_rows

TEN = datetime(2019, 6, 5, 10, tzinfo=UTC)
U, R = {"user": "u"}, {"user": "u", "request": "r"}
SHOWN = Shown(1, TEN, R)
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
    (verdict,) = judge_actions(SHOWN, [], [act(seconds)], WINDOW)
    assert (verdict.taken, verdict.why) == (taken, why)


def test_an_action_belongs_to_the_last_impression_before_it() -> None:
    again = Shown(2, at(600), U)
    verdicts = list(judge_actions(SHOWN, [again], [act(700), act(500), Action(None)], WINDOW))
    assert [(v.taken, v.why) for v in verdicts] == [
        (False, "its time cannot be read"),
        (True, "it came 8m 20s after the impression, within 30m 0s (by user)"),
        (False, "it belongs to impression 2 by user, the last before it (2019-06-05 10:10:00+00:00)"),
    ]


def test_of_two_impressions_of_one_instant_the_greater_id_has_the_action() -> None:
    (verdict,) = judge_actions(SHOWN, [Shown(-5, TEN, U)], [act(1)], WINDOW)
    assert verdict.taken
    (verdict,) = judge_actions(SHOWN, [Shown(5, TEN, U)], [act(1)], WINDOW)
    assert "belongs to impression 5" in verdict.why


BOTH = LabelRules(timedelta(minutes=30), timedelta(seconds=2), ("request", "user"))


def test_the_request_is_tried_before_the_user() -> None:
    other = Shown(2, at(-60), {"user": "v", "request": "s"})
    verdicts = judge_actions(SHOWN, [other], [act(5, user="u", request="s"), act(6, user="u", request="t")], BOTH)
    assert [(v.taken, v.why) for v in verdicts] == [
        (False, "it belongs to impression 2 by request, the last before it (2019-06-05 09:59:00+00:00)"),
        (True, "it came 6s after the impression, within 30m 0s (by user)"),
    ]


def test_an_action_a_little_before_its_impression_counts_if_clocks_may_differ() -> None:
    verdicts = judge_actions(SHOWN, [], [act(-2), act(-2.001)], BOTH)
    assert [(v.taken, v.why) for v in verdicts] == [
        (False, "it came 2.001s before the impression; the limit is 2s"),
        (True, "it came 2s before the impression, within 2s (by user)"),
    ]
    (verdict,) = judge_actions(SHOWN, [Shown(2, at(-60), U)], [act(-1)], BOTH)
    assert "belongs to impression 2 by user, the last before it" in verdict.why


def row(event: float, known: float | None = None, **more: object) -> FeatureRow:
    return FeatureRow(at(event), at(event if known is None else known), {}, **more)  # type: ignore[arg-type]


def judged(rows: list[FeatureRow], **rules: object) -> list[tuple[bool, str]]:
    verdicts = judge_rows(TEN, rows, ViewRules(**({"ttl": timedelta(days=1)} | rules)))  # type: ignore[arg-type]
    return [(verdict.taken, verdict.why) for verdict in verdicts]


def test_each_row_is_chosen_or_has_its_reason() -> None:
    assert judged([row(1), row(0), row(-60, known=5), row(-3600), row(-7200)]) == [
        (False, "it became true 1s after the impression"),
        (False, "it became true at the very instant of the impression"),
        (False, "it was true, but not known until 5s after the impression"),
        (True, "the last row that was known, 1h 0m 0s old"),
        (False, "there is a later row that was known too"),
    ]


def test_the_best_row_may_be_too_old_or_a_tombstone() -> None:
    assert judged([row(-86400)]) == [(True, "the last row that was known, 1d 0h 0m 0s old")]
    assert judged([row(-86401)]) == [(False, "it is 1d 0h 0m 1s old; the ttl is 1d 0h 0m 0s")]
    assert judged([row(-60, gone=True), row(-120)])[0] == (
        False,
        "a tombstone: from here on the entity has no features",
    )
    assert judged([row(-(10**8))], ttl=None)[0][0]
    assert judged([row(0)], inclusive=True) == [(True, "the last row that was known, 0s old")]


def test_the_sequence_decides_between_equal_times() -> None:
    assert [taken for taken, _ in judged([row(-60, sequence=1), row(-60, sequence=2), row(-60)])] == [
        True,
        False,
        False,
    ]


def test_an_entity_must_be_in_the_latest_snapshot() -> None:
    snapshots = [(at(-7200), at(-7000)), (at(-3600), at(-3000)), (at(-60), at(5))]
    assert judged([row(-3600, known=-3000)], snapshots=snapshots)[0][0]
    assert judged([row(-7200, known=-7000)], snapshots=snapshots) == [
        (False, "the latest snapshot, of 2019-06-05 09:00:00+00:00, does not have this entity")
    ]


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
