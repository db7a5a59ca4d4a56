"""The metrics document: it reads back, follows its published schema, and whatever is no such document is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields, replace
from importlib import resources
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ctr_samples.errors import DamagedFile
from ctr_samples.quality import feature_facts as facts
from ctr_samples.quality import metrics as document
from ctr_samples.quality.metrics import Metrics
from ctr_samples.quality.report import render
from tests.quality_report.day_documents import manifest, metrics
from tests.support.marks import slow_except

DEFINED = {
    **{
        name: getattr(document, name.title().replace("_", ""))
        for name in (
            "shards spread label label_split actions funnel click_rate clicks value_rate users user duplicates requests gzip "
            "baseline finding reference generation"
        ).split()
    },
    "hour": document.HourCounts,
    "feature": facts.FeatureFacts,
    "facts": facts.Facts,
    "lengths": facts.Lengths,
    "curve": facts.Curve,
    "top_value": facts.TopValue,
}
"""The dataclass of each object that the schema defines."""


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((resources.files("ctr_samples.quality") / "metrics.schema.json").read_text())
    Draft202012Validator.check_schema(found)
    return found


@pytest.fixture(scope="module")
def small() -> Metrics:
    """A day with two features and three findings: each part once."""
    day = metrics()
    features = {name: day.features[name] for name in ("user_clicks_7d", "history_articles")}
    return replace(day, features=features, checks=day.checks[15:18], drift={"user_clicks_7d": 0.31})


def test_metrics_read_back_from_their_bytes_and_give_the_same_bytes() -> None:
    written = metrics().to_json()
    copy = Metrics.from_json(written, "metrics.json")
    assert copy == metrics()
    assert copy.to_json() == written


NEWER = {
    (document.Users, "key"),
    (document.ClickRate, "by_column"),
    (document.ClickRate, "positives_by_hour"),
    (document.ValueRate, "others"),
    (facts.FeatureFacts, "hashed"),
    (facts.FeatureFacts, "share"),
    (facts.FeatureFacts, "joined"),
    (facts.FeatureFacts, "biases"),
    (facts.TopValue, "words"),
    (Metrics, "requests"),
    (Metrics, "funnels"),
}
"""Fields that older documents of this format do not have."""


def test_the_schema_has_each_field_of_the_document_and_no_other(schema: dict[str, Any]) -> None:
    objects = {name for name, one in schema["$defs"].items() if "properties" in one}
    assert objects == set(DEFINED)
    for described, kind in [(schema, Metrics), *((schema["$defs"][name], kind) for name, kind in DEFINED.items())]:
        names = [field.name for field in fields(kind)]
        assert list(described["properties"]) == names
        assert described["required"] == [name for name in names if (kind, name) not in NEWER]
        assert described["additionalProperties"] is False


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The ways to all parts of a document, but to the points of a curve and to all hours but the first."""
    if path:
        yield path
    items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for key, inside in items:
        if not (isinstance(key, int) and (key > 0 or path[-1] in ("at", "under", "below"))):
            yield from places(inside, (*path, key))


class Absent:
    """Stands for a part that is left out."""


def changed(whole: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    copied: dict[str, Any] = json.loads(json.dumps(whole))
    inside: Any = copied
    for key in path[:-1]:
        inside = inside[key]
    if value is Absent:
        del inside[path[-1]]
    else:
        inside[path[-1]] = value
    return copied


def refusal(content: bytes) -> str | None:
    """What the reader says of bytes; None if it takes them."""
    try:
        Metrics.from_json(content, "/out/metrics.json")
    except DamagedFile as error:
        return str(error)
    return None


UNKNOWN_TO_JSON = [float("nan"), 10**400]
"""Numbers of Python that no schema tells apart."""
OTHERS = [
    None,
    UNKNOWN_TO_JSON[1],
    Absent,
    *slow_except((), ["text", 0.5, [], {}, -1, True, UNKNOWN_TO_JSON[0]]),
]


@pytest.mark.thorough
@pytest.mark.parametrize("other", OTHERS, ids="null vast absent text half list object negative true nan".split())
def test_a_document_with_a_strange_or_missing_part_makes_a_page_if_the_schema_allows_it_or_is_refused_in_one_sentence(
    small: Metrics, schema: dict[str, Any], other: Any
) -> None:
    whole = json.loads(small.to_json())
    refused = 0
    for path in places(whole):
        hurt = changed(whole, path, other)
        said = refusal(json.dumps(hurt).encode())
        if said is None:
            day = Metrics.from_json(json.dumps(hurt).encode(), "m")
            assert render(day, manifest(), day).endswith("</html>"), path
        else:
            refused += 1
            assert re.fullmatch(
                r"/out/metrics\.json (is not a metrics document \(.+\)|has format .+); .+ --force\.", said
            )
        if other not in UNKNOWN_TO_JSON:
            assert Draft202012Validator(schema).is_valid(hurt) == (said is None), (path, said)
    assert refused > 100


TRAIN = ("features", "user_clicks_7d", "splits", "train")


@pytest.mark.parametrize(
    ("path", "other", "said"),
    [
        ((*TRAIN, "rows"), Absent, "user_clicks_7d.splits.train has no 'rows'"),
        ((*TRAIN, "rows"), "9", "rows is '9', expected a whole number of 64 bits"),
        (("run_date",), "yesterday", "run_date is 'yesterday', expected a day such as 2019-06-05"),
        (("verdict",), "fine", "verdict is 'fine', expected 'passed' or 'warned' or 'refused'"),
        (("checks", 0, "standing"), "fail", "checks[0].standing is 'fail', expected 'blocks' or 'accepted' or 'warns' or"),
        (("views", "user_profile", "match_rate"), 2, "views.user_profile.match_rate is 2, expected a number from 0 to 1"),
        (("views", "user_profile", "match_rate"), Absent, "views.user_profile has no 'match_rate'"),
        (("accounting", "samples"), Absent, "accounting has no 'samples'"),
        (("click_rate", "by_hour"), [], None),
        (("click_rate", "by_hour", 23), Absent, "click_rate.by_hour is a list of 23, expected a list of 0 or 24"),
        (("users", "heaviest"), [], "users.heaviest is a list of 0, expected a list of at least 1"),
        ((*TRAIN, "quantiles", "0.5"), Absent, "quantiles is an object, expected an object with the median, '0.5'"),
        ((*TRAIN, "cdf"), {"at": [1, 1], "under": [0, 0.5], "below": [0.5, 1]}, "the points of a curve do not rise"),
        ((*TRAIN, "cdf"), {"at": [], "under": [], "below": []}, "a curve has 0, 0 and 0 points"),
        ((*TRAIN, "cdf", "at", 0), Absent, "a curve has 40, 41 and 41 points"),
        (("colour",), "red", "it has the unknown key 'colour'"),
    ],
)  # fmt: skip
def test_a_refusal_has_the_place_what_was_found_and_what_was_expected(
    small: Metrics, path: tuple[Any, ...], other: Any, said: str | None
) -> None:
    content = json.dumps(changed(json.loads(small.to_json()), path, other)).encode()
    sentence = refusal(content)
    assert (sentence is None) == (said is None)
    assert said is None or said in str(sentence)


@pytest.mark.parametrize("content", [b"", b"{", b"\x00\xff", b"7", b"[]", b"{}", b"[" * 100_000, b'{"format": null}'])
def test_bytes_that_are_no_metrics_are_refused(content: bytes) -> None:
    assert str(refusal(content)).startswith("/out/metrics.json is not a metrics document (")


def test_metrics_of_an_older_format_say_what_to_do() -> None:
    assert refusal(json.dumps({**asdict(metrics()), "format": 2}).encode()) == (
        "/out/metrics.json has format 2, but this release reads format 3; use the release that wrote it, or run the day "
        "again with --force."
    )


def test_a_document_is_read_without_its_distributions_and_checked_all_the_same() -> None:
    day = metrics()
    without = Metrics.from_json(day.to_json(), "m.json", distributions=False)
    for name, feature in day.features.items():
        for split, whole in feature.splits.items():
            assert without.features[name].splits[split] == replace(whole, quantiles=None, cdf=None, top=None)
    assert without.checks == day.checks
    assert without.views == day.views
    with pytest.raises(DamagedFile, match="m.json is not a metrics document"):
        Metrics.from_json(b'{"format": 3, "features": []}', "m.json", distributions=False)
