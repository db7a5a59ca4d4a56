"""The words behind the ids of features."""

from __future__ import annotations

import pytest
import yaml

from ctr_samples.config import JobConfig
from ctr_samples.quality.words import words_of
from ctr_samples.vocabulary import FittedState, FittedVocabulary

CONFIG = """
name: words
timezone: UTC
sources:
  log: {format: json, path: /log.json, schema: "at BIGINT, u STRING, i BIGINT, city STRING, price DOUBLE, clicked BOOLEAN"}
impressions:
  source: log
  time: timestamp_seconds(at)
  keys: {user: u, item: i}
  columns: {city: city, price: price, reader: u}
labels:
  clicked: {expr: clicked}
vocabularies:
  cities: {capacity: 10}
  readers: {capacity: 10}
fitted: {path: /fitted}
features:
  city: {from: impression.city, vocabulary: cities, dtype: int64}
  reader: {from: impression.reader, vocabulary: readers, dtype: int64}
  price: {from: impression.price, boundaries: [1, 2.5], dtype: int64}
  spread: {from: impression.price, quantiles: 2, dtype: int64}
  hashed: {from: impression.city, hash_buckets: 9, dtype: int64}
  day: {from: impression.time, date_part: weekday, dtype: int64}
  item: {from: impression.item, dtype: int64}
output: {path: /out}
"""
TOKENS = {"cities": FittedVocabulary(("Oslo", "Bergen"), 2, 10), "readers": FittedVocabulary(("ann",), 1, 10)}
WHEN = ("2026-01-01T00:00:00", ("2026-01-01",))
STATE = FittedState("words", "a", 1, "run", *WHEN, {}, TOKENS, boundaries={"spread": (7.0,)})


def parsed(text: str) -> JobConfig:
    return JobConfig.model_validate(yaml.safe_load(text))


def told(config: JobConfig, name: str, ids: int) -> list[str]:
    return [words_of(config, STATE)[name](number) for number in range(ids)]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("city", ["padding", "missing", "not in the vocabulary", "not in the vocabulary", "Oslo", "Bergen", ""]),
        ("price", ["missing", "below 1", "1 to below 2.5", "2.5 or more", ""]),
        ("spread", ["missing", "below 7", "7 or more", ""]),
        ("hashed", ["missing", "", ""]),
        ("day", ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday", ""]),
    ],
)
def test_ids_stand_for_words(name: str, words: list[str]) -> None:
    assert told(parsed(CONFIG), name, len(words)) == words


def test_the_tokens_of_a_user_are_told_only_with_raw_ids() -> None:
    assert "reader" not in words_of(parsed(CONFIG), STATE)
    assert told(parsed(CONFIG.replace("{path: /out}", "{path: /out, ids: raw}")), "reader", 4)[3] == "ann"


def test_plain_numbers_have_no_words() -> None:
    assert "item" not in words_of(parsed(CONFIG), STATE)
