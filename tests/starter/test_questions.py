"""Who answers the questions of ``ctr-samples init``: options, facts, a person, or nobody."""

from __future__ import annotations

import pytest

from ctr_samples.errors import UsageError
from ctr_samples.starter.questions import Answers, Candidate, Question

PLAIN, SHARED = Candidate("p", "plain", "12 values"), Candidate("s", "shared", "is in clicks", (1,))
OTHER = Candidate("o", "other", "is in clicks too", (1,))


def ask_nobody(question: Question) -> Candidate | None:
    raise AssertionError(f"{question.asks} was asked")


def test_a_candidate_with_more_facts_than_each_other_is_taken_without_asking() -> None:
    answers = Answers(ask=ask_nobody)
    assert answers.to("item", "What was shown?", [PLAIN, SHARED]) == "s"
    assert answers.to("item", "What was shown?", [PLAIN]) == "p"
    assert answers.to("item", "What was shown?", []) is None
    assert answers.open == {}


def test_candidates_with_equal_facts_are_asked_about_best_first() -> None:
    asked: list[Question] = []

    def last(question: Question) -> Candidate:
        asked.append(question)
        return question.candidates[-1]

    assert Answers(ask=last).to("item", "What was shown?", [PLAIN, SHARED, OTHER]) == "p"
    assert [one.name for one in asked[0].candidates] == ["shared", "other", "plain"]


def test_a_person_may_say_that_none_is_right() -> None:
    assert Answers(ask=lambda _: None).to("user", "To whom was it shown?", [SHARED, OTHER]) is None


def test_without_a_person_the_first_candidate_stands_beside_the_others() -> None:
    answers = Answers()
    assert answers.to("item", "What was shown?", [SHARED, OTHER, PLAIN]) == "s"
    assert answers.todo("item") == (
        "What was shown? Taken is shared: is in clicks. With as much evidence: other: is in clicks too. Say `--item NAME`."
    )
    assert answers.todo("user") == ""


def test_an_option_decides_against_all_facts() -> None:
    answers = Answers({"item": ("plain",)}, ask_nobody)
    assert answers.to("item", "What was shown?", [SHARED, OTHER, PLAIN]) == "p"


def test_an_option_that_names_no_candidate_is_refused_with_those_there_are() -> None:
    with pytest.raises(UsageError, match="`--item` is price, expected one of: shared, plain"):
        Answers({"item": ("price",)}).to("item", "What was shown?", [PLAIN, SHARED])
