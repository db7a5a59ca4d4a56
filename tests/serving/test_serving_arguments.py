"""What the assembler is made of, given wrongly: one sentence, before anything is read."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from ctr_samples.errors import InputError, UsageError
from ctr_samples.serving import Assembler, load_assembler
from ctr_samples.shards import open_storage, publish
from tests.support.manifests import NO_FEATURES, manifest

CONFIG = {"features": {"topics": {"from": "impression.topics", "multi_hot": True, "hash_buckets": 8}}}


@pytest.mark.parametrize(
    ("path", "more", "sentence"),
    [
        (3, {}, "`path` is 3; expected a path or URL, as text or as pathlib.Path."),
        (b"out", {}, "`path` is b'out'; expected a path or URL"),
        (None, {}, "`path` is None; expected a path or URL"),
        ("out", {"date": 20190605}, "The date is 20190605; expected a day"),
        ("out", {"date": None}, "The date is None; expected a day"),
        ("out", {"date": "today"}, "The date is 'today'"),
    ],
)
def test_a_path_and_a_day_of_another_type_are_refused(path: Any, more: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        load_assembler(path, **{"date": "2019-06-05", **more})


@pytest.mark.parametrize("path", [str, Path])
@pytest.mark.parametrize("day", ["2019-06-05", date(2019, 6, 5)])
def test_a_path_may_be_text_or_a_path_and_a_day_text_or_a_date(path: Any, day: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no samples"):
        load_assembler(path(tmp_path), date=day)


def test_an_assembler_is_that_of_all_hours_of_a_day(tmp_path: Path) -> None:
    for hour in ("2019-06-05T07", "2019-06-05T08"):
        publish(open_storage(tmp_path), manifest(config=CONFIG, run_date=hour))
    assert load_assembler(tmp_path, date="2019-06-05").contract == NO_FEATURES
    other = {"features": {"topics": {**CONFIG["features"]["topics"], "hash_buckets": 9}}}
    publish(open_storage(tmp_path), manifest(config=other, run_date="2019-06-05T09"))
    with pytest.raises(
        InputError, match="2019-06-05T07 and 2019-06-05T09 make their features otherwise; give the hour whose samples"
    ):
        load_assembler(tmp_path, date="2019-06-05")
    assert load_assembler(tmp_path, date="2019-06-05T08").contract == NO_FEATURES


@pytest.mark.parametrize(
    ("lists", "sentence"),
    [
        ("topics", "`lists` is 'topics'; expected a list of feature names."),
        (3, "`lists` is 3; expected a list of feature names."),
        (None, "`lists` is None; expected a list of feature names."),
        ([1], r"`lists` is \[1\]; expected a list of feature names."),
        ({"topic"}, "`lists` has 'topic'; the multi-hot features are topics."),
    ],
)
def test_lists_that_name_no_multi_hot_feature_are_refused(lists: Any, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        Assembler(manifest(config=CONFIG), lists=lists)


@pytest.mark.parametrize("given", ["out", Path("out"), None, {}])
def test_an_assembler_is_made_from_a_manifest_and_no_path(given: Any) -> None:
    with pytest.raises(
        UsageError, match="`manifest` is .*; expected the Manifest .*`load_assembler` reads it from a path"
    ):
        Assembler(given)


@pytest.mark.parametrize("given", ["out", Path("out"), {}])
def test_a_state_is_no_path(given: Any) -> None:
    with pytest.raises(UsageError, match="`state` is .*; expected the FittedState"):
        Assembler(manifest(config=CONFIG), given)
