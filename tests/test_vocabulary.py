"""Vocabularies as values: what grows, what stays, when a fingerprint changes."""

from __future__ import annotations

from dataclasses import replace

from ctr_samples.vocabulary import FittedMoments, FittedState, FittedVocabulary, TokenCounts, grown_by

EMPTY = FittedVocabulary((), oov_buckets=2, capacity=3)


def test_the_most_frequent_new_tokens_come_first_and_ties_by_their_text() -> None:
    grown = EMPTY.grown([("b", 5), ("c", 9), ("a", 5)])
    assert grown.tokens == ("c", "a", "b")
    assert (grown.first_id, grown.buckets) == (4, 7)


def test_a_full_vocabulary_takes_no_more_and_says_how_many_were_left_out() -> None:
    known = FittedVocabulary(("x", "y"), 2, 3)
    now, growth = grown_by(known, EMPTY, TokenCounts([("a", 7), ("b", 6), ("x", 1)], occurrences=20, frequent=2))
    assert now.tokens == ("x", "y", "a")
    assert (growth.before, growth.added, growth.left_out, growth.covered) == (2, 1, 1, 8)
    assert growth.coverage == 0.4


def test_only_a_token_of_the_vocabulary_has_an_id_of_its_own() -> None:
    known = FittedVocabulary(("x", "y"), oov_buckets=2, capacity=3)
    assert [known.id_of(token) for token in ("x", "y", "z", None)] == [4, 5, None, None]


def test_nothing_seen_is_nothing_left_uncovered() -> None:
    now, growth = grown_by(None, EMPTY, TokenCounts([], 0, 0))
    assert now == EMPTY
    assert growth.coverage == 1.0


def test_a_constant_is_not_divided_by_its_deviation_of_0() -> None:
    constant = FittedMoments((3,), (5.0,), (0.0,), (5.0,), (5.0,))
    assert constant.shift_and_scale("standardise") == ((5.0,), (1.0,))
    assert constant.shift_and_scale("min_max") == ((5.0,), (1.0,))


def test_the_fingerprint_of_a_state_changes_with_each_thing_that_is_fitted() -> None:
    state = FittedState("s", "l", 1, "r", "", ("2019-06-03",), {}, {"v": FittedVocabulary(("ab", "c"), 1, 9)})
    others = [
        replace(state, vocabularies={"v": FittedVocabulary(("a", "bc"), 1, 9)}),
        replace(state, vocabularies={"v": FittedVocabulary(("c", "ab"), 1, 9)}),
        replace(state, vocabularies={"v": FittedVocabulary(("ab", "c"), 2, 9)}),
        replace(state, vocabularies={"w": FittedVocabulary(("ab", "c"), 1, 9)}),
        replace(state, moments={"f": FittedMoments((1,), (0.0,), (1.0,), (0.0,), (1.0,))}),
        replace(state, boundaries={"f": (1.0,)}),
    ]
    assert len({state.fingerprint, *(other.fingerprint for other in others)}) == 7
    assert replace(state, version=2, run_id="other").fingerprint == state.fingerprint
