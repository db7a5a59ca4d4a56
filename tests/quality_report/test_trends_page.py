"""The page about many days: what it shows of each, in which order, and how large it gets."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date, timedelta

import pytest

from ctr_samples.quality.metrics import ValueRate
from ctr_samples.quality.report.features import anchor_of
from ctr_samples.quality.trends import (
    HEIGHT,
    DayPoint,
    features_of,
    figures_of,
    findings_of,
    line,
    names_of,
    rates_of,
    render,
    steps,
    table_of,
    verdicts_in_words,
)
from tests.quality_report.day_documents import manifest, metrics
from tests.quality_report.trend_days import point


def shown_by(drawn: str) -> tuple[str, ...]:
    """The name and the newest value of a line."""
    return tuple(re.findall('<span class="(?:of|now)">(.*?)</span>', drawn))


def test_a_line_is_level_for_a_day_and_interrupted_where_a_day_has_no_value() -> None:
    assert steps([1.0, 1.0, 0.5, None, 0.0], 1.0) == f"M0 0h2v{HEIGHT // 2}h1M4 {HEIGHT}h1"
    assert steps([None, None], 1.0) == ""
    assert steps([7.0], 1.0) == "M0 0h1"  # not above its frame


def test_a_chart_says_its_newest_lowest_and_highest_value() -> None:
    drawn = line("clicked", [0.02, 0.031, None], "share")
    assert shown_by(drawn) == ("clicked", "3.10%")
    assert '<span class="top-of" aria-hidden="true">4.00%</span>' in drawn
    assert 'aria-label="clicked: 3.10% on the last day with a value; lowest 2.00%, highest 3.10%"' in drawn
    assert shown_by(line("x", [None], "count")) == ("x", "–")


def test_the_figures_of_a_day_are_those_of_its_documents() -> None:
    figures = figures_of(metrics(), manifest())
    assert figures["volume"] == {"impressions": 1_562_000, "samples": 1_135_280}
    assert figures["dropped"]["repeated"] == 96_412 / 1_562_000
    assert figures["rate"]["clicked"] == (30_450 + 3_391) / 1_135_280
    assert figures["orphans"]["clicked"] == 811 / 39_120
    assert figures["matched"]["user_profile"] == 0.912
    assert figures["age"]["article_counts"] == 301
    assert figures["missing"]["weekday"] == (1_021_870 // 310) / 1_021_870
    assert figures["drift"]["app_version"] == 0.42
    assert figures["run"]["run time"] == 431.2
    assert figures["run"]["written"] == 741_337_840


def test_labels_that_changed_are_a_share_of_the_samples() -> None:
    run = manifest()
    flipped = run.labels["clicked"] | {"flips": {"against": 2, "flipped_to_1": 1_000, "flipped_to_0": 135}}
    object.__setattr__(run, "labels", {"clicked": flipped, "read_ms": {"flips": {"against": 2, "not_compared": "x"}}})
    assert figures_of(metrics(), run)["flips"] == {"clicked": 1_135 / 1_135_280}


def test_the_feature_with_the_highest_drift_of_any_day_comes_first() -> None:
    days = [
        point("2019-06-04", drift={"calm": 0.02, "jumped": 0.4, "empty": 0.0}, missing={"empty": 0.9, "calm": 0.0}),
        point("2019-06-05", drift={"calm": 0.03, "jumped": 0.01, "empty": 0.0}, missing={"empty": 0.2, "calm": 0.0}),
    ]
    cards, hidden = features_of(days, 2)
    assert [(card.name, re.findall("highest .*? on [0-9-]+", card.__html__())) for card in cards] == [
        ("jumped", ["highest 0.4 on 2019-06-04"]),
        ("calm", ["highest 0.03 on 2019-06-05"]),
    ]
    assert hidden == 1
    cards, _ = features_of(days, 3)
    assert ["missing share of" in card.__html__() for card in cards] == [False, False, True]


def test_a_name_of_one_day_only_has_a_line_too() -> None:
    days = [point("2019-06-04", dropped={"old": 0.1}), point("2019-06-05", dropped={"new": 0.2})]
    assert names_of(days, "dropped") == ["new", "old"]


def test_only_a_label_that_is_0_or_1_is_a_share() -> None:
    days = [point("2019-06-05", rate={"clicked": 0.25, "read_ms": 0.5}, flags=frozenset({"clicked"}))]
    assert [shown_by(drawn) for drawn in rates_of(days)] == [("clicked", "25.0%"), ("read_ms", "0.5")]


def test_a_finding_of_many_days_is_one_line_with_its_last_day() -> None:
    findings = metrics().checks
    days = [
        point("2019-06-04", findings=findings, page="dt=2019-06-04/data/r/report.html"),
        point("2019-06-05", findings=findings, page="dt=2019-06-05/data/r/report.html"),
        point("2019-06-06"),
    ]
    listed = {(row[0], row[1]): row[2:4] for row in findings_of(days).rows}
    assert listed["click_rate", "clicked"] == ("2 days", '<a href="dt=2019-06-05/data/r/report.html">2019-06-05</a>')


def test_the_verdicts_are_counted_in_words() -> None:
    days = [DayPoint("2019-06-03", "missing", "missing"), point("2019-06-04"), point("2019-06-05")]
    assert verdicts_in_words(days) == {"passed": "2 days passed", "missing": "1 day missing"}


def test_the_table_has_the_newest_day_first_and_all_of_them() -> None:
    days = [DayPoint("2019-06-03", "damaged", "damaged: <b>"), point("2019-06-04", rate={"clicked": 0.5})]
    rows = table_of(days).rows
    assert [row[0] for row in rows] == ["2019-06-04", "2019-06-03"]
    assert rows[1][1:3] == ("damaged", "–")


def test_a_value_of_the_data_is_no_markup_and_no_link_leaves_the_page() -> None:
    days = [
        point("2019-06-04", drift={"<script>alert(1)</script>": 0.1}),
        DayPoint("2019-06-05", "damaged", "<b>x</b>"),
    ]
    page = render("x", days)
    assert "<script>alert" not in page
    assert "<b>x" not in page
    assert set(re.findall(r'(?:href|src)="([^"#]+)"', page)) == set()


def test_a_page_without_a_published_day_says_so() -> None:
    page = render("x", [DayPoint("2019-06-05", "missing", "missing")])
    assert "No day is published." in page
    assert "0 of 1 day published" in page


def many(days: int, features: int) -> list[DayPoint]:
    """Days on which each figure of each feature is another one than the day before."""
    return [
        point(
            str(date(2019, 1, 1) + timedelta(days=at)),
            drift={f"feature_{n}": (at * 37 + n * 11) % 97 / 97 for n in range(features)},
            missing={f"feature_{n}": (at * 53 + n * 7) % 89 / 89 for n in range(features)},
        )
        for at in range(days)
    ]


@pytest.mark.thorough
def test_400_days_of_300_features_stay_below_three_megabytes_with_all_of_them_drawn() -> None:
    page = render("x", many(400, 300))
    assert len(page.encode()) < 3_000_000
    assert page.count("data-feature=") == 300


def test_features_that_do_not_fit_are_counted() -> None:
    page = render("x", many(3, 1010))
    assert len(page.encode()) < 3_000_000
    assert page.count("data-feature=") == 1000
    assert "10 features that drifted less are not drawn." in page


def test_the_highest_drift_leads_to_the_feature_on_the_page_of_its_day() -> None:
    days = [point("2019-06-04", drift={"a b": 0.2}), point("2019-06-05", drift={"a b": 0.4})]
    days = [replace(day, page=f"dt={day.day}/report.html") for day in days]
    ((card,), _) = features_of(days, 10)
    assert anchor_of("a b") == "feature-a.20.b"
    assert 'highest 0.4 on <a href="dt=2019-06-05/report.html#feature-a.20.b">2019-06-05</a>' in card.__html__()


def test_the_rates_of_frequent_values_are_figures_of_a_day() -> None:
    arms = (ValueRate(400, 20, "b"), ValueRate(300, 3, "a"), ValueRate(10, 1, None), ValueRate(5, 0, None, others=True))
    day = metrics()
    assert day.click_rate is not None
    figures = figures_of(replace(day, click_rate=replace(day.click_rate, by_column={"arm": arms})), manifest())
    assert figures["rate_by"] == {"arm b": 0.05, "arm a": 0.01, "arm without a value": 0.1}
