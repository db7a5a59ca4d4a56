"""The page: what comes first, that data cannot write into it, how large it gets."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable
from dataclasses import asdict, replace
from html.parser import HTMLParser
from typing import Any

import pytest
from ruamel.yaml import YAML

from ctr_samples.quality.feature_facts import FeatureFacts, TopValue
from ctr_samples.quality.metrics import Finding, Metrics, verdict_of
from ctr_samples.quality.report import render
from ctr_samples.shards import Manifest, Shard
from ctr_samples.typed import typed
from tests.quality_report.day_documents import CONFIG, check, manifest, metrics

EVIL = "</script><script>alert(1)</script><img src=x onerror='alert(2)'>\"&\u202e\ud800"


class Reader(HTMLParser):
    """The page as a browser would see its elements; ``text`` is without style and script."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._inside: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "input"):
            self._inside.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._inside.pop() == tag
        self.text += " " * (tag in ("th", "td", "dt", "dd", "li"))

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self._inside):
            self.text += data

    def all(self, *tags: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.elements if tag in tags]


@pytest.fixture(scope="module")
def page() -> str:
    return render(metrics(), manifest(), metrics("2019-06-04", generation=1, calm=True))


def words(page: str) -> str:
    return re.sub(r"\s+", " ", Reader(page).text)


def test_the_verdict_comes_first_and_the_gravest_check_before_the_others(page: str) -> None:
    said = words(page)
    assert "Refused 1 check failed, 1 failure accepted, 2 warnings, 16 checks passed. " in said
    places = [
        said.index(text)
        for text in (
            "Refused 1 check",
            "Failed click_rate of clicked The click rate of clicked is 2.98%, 12.6% below",
            "Failed, accepted view_match_rate of user_profile",
            "Warning feature_drift of user_clicks_7d",
            "Warning feature_drift of app_version",
            "Accepted with --accept: view_match_rate.",
            "From impressions to samples",
            "clicked by hour of impression",
            "Drift compares two distributions",
            "Labels by split",
            "Matches and ages",
            "Shard sizes",
            "How the views were joined",
        )
    ]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("checks", "heading"),
    [
        ([check("a", "x", "passed")], "Passed"),
        ([check("a", "x", "passed"), check("b", "x", "warns")], "Passed with warnings"),
        ([check("a", "x", "accepted")], "Passed with warnings"),
        ([check("a", "x", "warns"), check("b", "x", "blocks"), check("c", "x", "accepted")], "Refused"),
        ([], "Not checked"),
    ],
)
def test_the_heading_is_what_the_findings_come_to_and_only_a_refused_run_published_nothing(
    checks: list[Finding], heading: str
) -> None:
    page = render(replace(metrics(), checks=tuple(checks), verdict=verdict_of(checks)), manifest())
    assert re.search(r'<section id="verdict".*?<h2>(.*?)</h2>', page, re.DOTALL)[1] == heading  # type: ignore[index]
    said = "Nothing was published; readers still see the previous samples."
    assert (said in words(page)) == (heading == "Refused")


def test_a_feature_has_the_tag_of_its_gravest_finding() -> None:
    checks = (check("a", "channel", "warns"), check("b", "channel", "accepted"), check("c", "city", "passed"))
    page = render(replace(metrics(), checks=checks), manifest())
    cards = dict(re.findall(r'class="card([^"]*)" id="[^"]*" data-feature="(channel|city)"', page))
    assert {name: tag for tag, name in cards.items()} == {"channel": " accepted", "city": ""}


def test_the_account_has_every_number_and_says_whether_it_adds_up(page: str) -> None:
    said = words(page)
    for row in (
        "impressions 1,562,000 100%",
        "− down-sampled negatives 330,267 21.1%",
        "− repeats 96,412 6.17%",
        "− no article 41 0.003%",
        "= samples 1,135,280 72.7%",
        "in train 1,021,870 65.4%",
    ):
        assert row in said
    assert "1,562,000 impressions = 1,135,280 samples + 426,720 dropped: every impression is accounted for." in said
    assert "Nothing was dropped for: no readable time, below the last click." in said
    unbalanced = replace(metrics(), accounting={"impressions": 10, "samples": 7, "repeated": 2})
    said = words(render(unbalanced, manifest()))
    assert "The account does not balance: 10 impressions, but 7 samples + 2 dropped; 1 impression missing." in said


def test_features_that_drifted_stand_first_with_the_reference_behind(page: str) -> None:
    names = re.findall(r'data-feature="(.*?)"', page)
    assert names[:4] == ["app_version", "user_clicks_7d", "article_clicks_1h", "article_author"]
    assert len(names) == 25
    assert 'class="card warns" id="feature-app_version"' in page
    histogram = re.search(r'<article[^>]*data-feature="user_clicks_7d".*?</article>', page, re.DOTALL)
    assert histogram is not None
    assert 'class="before"' in histogram[0]
    assert 'class="day"' in histogram[0]
    alone = render(metrics(), manifest())
    assert 'path class="before"' not in alone


def test_every_drawing_has_a_text_and_every_table_a_caption_and_heads(page: str) -> None:
    reader = Reader(page)
    for drawing in reader.all("svg"):
        assert drawing.get("aria-hidden") == "true" or (drawing["role"] == "img" and drawing["aria-label"])
    assert any("lowest" in (drawing.get("aria-label") or "") for drawing in reader.all("svg"))
    assert len(reader.all("table")) == len(reader.all("caption")) > 30
    assert all(head.get("scope") in ("col", "row") for head in reader.all("th"))
    ids = [attributes["id"] for _, attributes in reader.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = {link["href"] for link in reader.all("a")}
    assert links <= {f"#{name}" for name in ids}


def test_the_page_asks_nothing_of_any_network_and_runs_only_its_own_script(page: str) -> None:
    reader = Reader(page)
    assert not reader.all("link", "img", "iframe", "object", "form", "base")
    assert all("style" not in attributes and "src" not in attributes for _, attributes in reader.elements)
    assert not [name for _, attributes in reader.elements for name in attributes if name.startswith("on")]
    assert "url(" not in page
    assert "@import" not in page
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; ")
    for tag in ("style", "script"):
        inside = re.search(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        assert inside is not None
        digest = base64.b64encode(hashlib.sha256(inside[1].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy[1]


FORM = {"kind", "dtype", "standing", "verdict", "run_date", "created_at", "quantiles", "cdf", "compression"}
"""Keys whose values have a form of their own, which no data can change."""
NAMED_BY_DATA = set("samples labels splits by_split features views drift inputs versions delays".split())
"""Objects whose keys are names from the data."""


def poisoned(value: Any, key: str = "") -> Any:
    """A document in which every name and every text is an attack."""
    if key in FORM:
        return value
    if isinstance(value, dict):
        hurt = {name: poisoned(inside, name) for name, inside in value.items()}
        return {**hurt, EVIL: next(iter(hurt.values()))} if key in NAMED_BY_DATA and hurt else hurt
    if isinstance(value, list | tuple):
        return tuple(poisoned(item) for item in value)
    return value + EVIL if isinstance(value, str) else value


def test_names_and_values_from_the_data_cannot_write_into_the_page() -> None:
    hurt, before = (typed(Metrics, poisoned(asdict(day))) for day in (metrics(), metrics(calm=True)))
    parts = poisoned(asdict(manifest()))
    run = Manifest(**{**parts, "shards": tuple(Shard(**shard) for shard in parts["shards"])})
    page = render(hurt, run, before, title=EVIL)
    reader = Reader(page)
    assert len(reader.all("script")) == 1
    assert not reader.all("img")
    assert page.count("alert(1)") > 100
    assert "\u202e" not in page
    page.encode("utf-8")


def wide() -> FeatureFacts:
    """A column with many long values."""
    tops = tuple(TopValue(f"{'väl' * 100}{at}", 0.02, 0.1) for at in range(50))
    features = metrics().features
    splits = {split: replace(facts, top=tops) for split, facts in features["user_clicks_7d"].splits.items()}
    return replace(features["app_version"], splits=splits)


NAMES = [f"a_feature_with_a_rather_long_name_{at:03d}" for at in range(300)]


def huge_day(names: Iterable[str]) -> tuple[Metrics, Manifest]:
    """A day with these features, many findings, shards and inputs."""
    checks = tuple(check("nulls", name, "warns", 0.1, "x" * 200, "long " * 300) for name in NAMES * 3)
    huge = replace(metrics(), features=dict.fromkeys(names, wide()), checks=checks, drift={})
    many = replace(
        manifest(),
        shards=tuple(Shard("s.tfrecord", "train", at, 1, 1000 + at, 0) for at in range(1000)),
        inputs={f"source_{at}": {"files": 1, "missing_days": ["2019-06-01"] * 400} for at in range(3000)},
        config={"sources": {f"k{n}": "v" * 99 for n in range(2000)}},
    )
    return huge, many


@pytest.mark.thorough
def test_a_page_with_thousands_of_features_stays_small() -> None:
    extreme, many = huge_day(f"{'n' * 70}{at}" for at in range(9000))
    before, _ = huge_day(NAMES)
    assert len(render(extreme, many, before).encode()) < 2_000_000


@pytest.mark.thorough
def test_a_page_with_many_features_and_shards_stays_small_and_says_what_it_left_out() -> None:
    huge, many = huge_day(NAMES)
    page = render(huge, many, huge)
    assert len(page.encode()) < 2_000_000
    assert page.count("data-feature=") == 40
    said = words(page)
    assert "The first 40 features have a chart; the rest follow in the same order." in said
    assert "a_feature_with_a_rather_long_name_239" in said
    assert "60 more are not shown here; metrics.json lists them all." in said
    assert "2,800 more are not shown here; metrics.json lists them all." in said


def test_features_without_a_chart_are_found_by_their_link() -> None:
    day = metrics()
    features = {f"{name}_{at}": feature for name, feature in day.features.items() for at in range(5)}
    page = render(replace(day, features=features, drift={}), manifest())
    places = re.findall(r'id="feature-(\w+)"', page)
    assert sorted(places) == sorted(features)
    assert page.count("data-feature=") == 40


def test_the_saved_configuration_can_be_run_again(page: str) -> None:
    shown = Reader(page).text.split("Configuration\n", 1)[1].split("This generation", 1)[0]
    assert YAML(typ="safe").load(shown) == CONFIG
    assert "ctr-samples generate --config config.yaml --date 2019-06-05 --force" in page


@pytest.mark.parametrize(
    "text",
    [
        "user_profile 1,101,221 91.2% 97.0% (−5.80 points) 2 h 2 min 1 s, 10 min, 16 h 57 min, 29 d 23 h 2 h 2 min",
        "Canaries are impressions of the day with which the run tested the join itself",
        "If this change is expected, run it again with --accept click_rate, or change quality in the",
        "2.98% clicked: 33,832 of 1,135,280 samples, −0.43 points vs. before",
        "log loss of that prediction (lower is better) 0.1343",
        "accuracy of always predicting the more frequent class 97.0%",
        "read_ms train 30,450 1,171,309,921 38,467",
        "clicked 39,120 811 310 to 1, 2 to 0",
        "1105045287866466304 16,007 1.41%",
        "Based on 100,000 samples.",
        "samples identical to one with another label 0.04%",
        "The labels are not final",
    ],
)
def test_views_canaries_clicks_baseline_labels_users_and_duplicates_are_told(page: str, text: str) -> None:
    assert text in words(page)
