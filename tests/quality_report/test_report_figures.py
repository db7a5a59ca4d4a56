"""Figures in words, and histograms from what was kept of a distribution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from ctr_samples.quality.feature_facts import Curve
from ctr_samples.quality.html import Chart, PageTable
from ctr_samples.quality.metrics import ClickRate, Clicks, HourCounts
from ctr_samples.quality.report import wording
from ctr_samples.quality.report.charts import bar, columns, histogram_of, round_top
from ctr_samples.quality.report.contents import clicks, labels
from ctr_samples.quality.report.features import collisions
from tests.quality_report.day_documents import metrics, values
from tests.support.manifests import manifest


@pytest.mark.parametrize(
    ("flips", "told"),
    [
        ({"flipped_to_1": 0, "flipped_to_0": 0}, "none"),
        ({"flipped_to_1": 3, "flipped_to_0": 0}, "3 to 1"),
        ({"flipped_to_1": 0, "flipped_to_0": 0, "changed": 2}, "2 to another value"),
        ({"not_compared": "too many"}, "not compared"),
    ],
)
def test_the_page_says_which_labels_flipped_and_how(flips: dict[str, object], told: str) -> None:
    tables = label_tables({"clicked": {"actions": 9, "orphans": 4, "flips": {"against": 1, **flips}}})
    assert next(iter(tables["Actions of the day"].rows))[-1] == told


def label_tables(counts: dict[str, dict[str, object]]) -> dict[str, PageTable]:
    """The tables about labels, by their captions."""
    parts = labels(metrics(), manifest(labels=counts))
    return {part.caption: part for part in parts if isinstance(part, PageTable)}


def hour_charts(rate: ClickRate) -> list[Chart]:
    """The charts of a click rate."""
    parts = clicks(replace(metrics(), click_rate=rate), None, "")
    return [part for part in parts if isinstance(part, Chart)]


def cdf(at: list[float], below: list[float]) -> Curve:
    """A curve without jumps but the first, or one of integers, which has nothing between its points."""
    under = below[:-1] if all(isinstance(one, int) for one in at) else below[1:]
    return Curve(tuple(at), (0.0, *under), tuple(below))


@pytest.mark.parametrize(
    ("in_words", "value", "said"),
    [
        # A share that is not all never reads as all.
        *[(wording.share, *case) for case in [
            (None, "–"), (0, "0%"), (1, "100%"), (0.0342, "3.42%"), (0.342, "34.2%"), (0.99996, "99.996%"),
            (0.9999999, "99.999%"), (0.00003, "0.003%"), (1e-9, "<0.0001%"),
        ]],
        # A number has four digits that matter.
        *[(wording.number, *case) for case in [
            (None, "–"), (0, "0"), (3.0, "3"), (1234567.0, "1,234,567"), (0.12345, "0.1235"), (1234.56, "1,234.6"),
            (-12345.6, "-12,346"), (1e-7, "1e-07"), (3.4e38, "3.4e+38"),
        ]],
        # A span has two units.
        *[(wording.span, *case) for case in [
            (0.25, "0.25 s"), (59, "59 s"), (60, "1 min"), (431.2, "7 min 11 s"), (3599.9, "60 min"), (7320, "2 h 2 min"),
            (2_590_011, "29 d 23 h"), (-7200, "−2 h"),
        ]],
        # What cannot be seen is written out.
        *[(wording.shown, *case) for case in [("a\u202eb\n", "a\\u202eb\\n"), ("", "(empty)"), ("x" * 200, "x" * 79 + "…")]],
    ],
)  # fmt: skip
def test_a_figure_in_words_does_not_mislead(in_words: Callable[[Any], str], value: object, said: str) -> None:
    assert in_words(value) == said


@pytest.mark.parametrize(
    ("ids", "distinct", "nulls", "said"),
    [
        (99, 10, 0, "10 of 99 ids stand for about 10 values, of which 9.18% share an id"),
        (99, 11, 5, "10 of 99 ids stand for about 10 values, of which 9.18% share an id"),
        (30, 26, 0, "26 of 30 ids stand for about 59 values, of which 86.2% share an id"),
        (3, 3, 0, "all 3 ids are in use: values share ids; use more `hash_buckets`, or a vocabulary"),
        (1000, 0, 0, "hashed to 1,000 ids"),
        (10**9, 7, 0, "7 of 1,000,000,000 ids stand for about 7 values, of which <0.0001% share an id"),
    ],
)
def test_the_page_says_how_many_values_share_the_ids_of_a_hash(ids: int, distinct: int, nulls: int, said: str) -> None:
    facts = replace(values(["a"], 1000, 0.0), distinct=float(distinct), nulls=nulls)
    assert collisions(ids, facts) == said


@pytest.mark.parametrize(
    ("curve", "before", "bins", "reach", "day", "day_before"),
    [
        # A value of many rows is drawn where it stands.
        (
            Curve((0.5, 1.0, 4.5), (0.0, 0.2, 0.3), (0.1, 0.2, 1.0)), None, 8,
            (0.5, 4.5), (0.2, *[0.1 / 7] * 6, 0.1 / 7 + 0.7), (),
        ),
        (cdf([0.5, 1.0, 4.0], [0.0, 0.5, 1.0]), None, 7, (0.5, 4.0), (0.5, *[0.5 / 6] * 6), ()),
        # Most values are the least one: their share stands at the first point of the curve.
        (cdf([0.0, 0.5, 2.0], [0.7, 0.8, 1.0]), None, 4, (0.0, 2.0), (0.8, *[0.2 / 3] * 3), ()),
        # A column reaches over the day and the reference.
        (
            cdf([0.5, 1.0], [0.0, 1.0]), cdf([3.0, 3.5], [0.0, 1.0]), 6,
            (0.5, 3.5), (1, 0, 0, 0, 0, 0), (0, 0, 0, 0, 0, 1),
        ),
        # Whole numbers over a small range have a column each.
        (
            cdf([0, 1, 3], [0.6, 0.9, 1.0]), cdf([0, 2], [0.5, 1.0]), 40,
            (0, 3), (0.6, 0.3, 0.0, 0.1), (0.5, 0.0, 0.5, 0.0),
        ),
    ],
)  # fmt: skip
def test_a_histogram_has_the_share_of_each_column(
    curve: Curve, before: Curve | None, bins: int, reach: tuple[float, float], day: Sequence[float], day_before: Sequence[float]
) -> None:  # fmt: skip
    found = histogram_of(curve, before, bins=bins)
    assert (found.low, found.high) == reach
    assert found.day == pytest.approx(day)
    assert found.before == pytest.approx(day_before)


def test_an_outlier_hides_nothing() -> None:
    at = [step / 10 + 0.05 for step in range(100)] + [1e9]
    found = histogram_of(cdf(at, [(step + 1) / 101 for step in range(101)]), None)
    assert found.high < 11
    assert not found.logarithmic


def test_what_reaches_far_beyond_its_median_has_a_logarithmic_axis() -> None:
    found = histogram_of(cdf([0.1, 1.5, 10.5, 1000.5], [0.0, 0.5, 0.9, 1.0]), None)
    assert found.logarithmic
    assert found.middle < 100
    assert sum(found.day) == pytest.approx(1.0)


def test_a_column_that_has_most_values_is_cut_so_that_the_others_are_seen() -> None:
    found = histogram_of(cdf([0, 1, 2, 3], [0.9, 0.94, 0.97, 1.0]), None)
    assert found.top == pytest.approx(0.06)
    assert found.cut
    even = histogram_of(cdf([0, 1, 2, 3], [0.5, 0.7, 0.9, 1.0]), None)
    assert even.top == pytest.approx(0.5)
    assert not even.cut
    assert not histogram_of(cdf([7], [1.0]), None).cut


@pytest.mark.parametrize(
    ("now", "before", "said"),
    [(103, 100, "+3.0%"), (99, 100, "−1.0%"), (100.001, 100, ""), (5, 0, ""), (None, 1, ""), (1, None, "")],
)
def test_a_change_that_rounds_to_nothing_is_not_told(now: float | None, before: float | None, said: str) -> None:
    assert wording.change(now, before) == said


def test_shares_differ_in_points() -> None:
    assert wording.moved(0.0298, 0.0341) == "−0.43 points"
    assert wording.moved(0.5, 0.50001) == ""


def test_a_column_of_one_value_is_drawn() -> None:
    assert sum(histogram_of(cdf([7], [1.0]), None).day) == pytest.approx(1.0)
    assert sum(histogram_of(cdf([0.25], [1.0]), None).day) == pytest.approx(1.0)


@pytest.mark.parametrize(("highest", "top"), [(0, 1), (0.041, 0.05), (1, 1), (1.01, 1.5), (9, 10), (730, 800)])
def test_an_axis_ends_at_a_round_number(highest: float, top: float) -> None:
    assert round_top(highest) == pytest.approx(top)


def test_a_share_that_is_there_is_seen_and_none_leaves_the_drawing() -> None:
    assert 'width="0.4"' in bar(1e-9)
    assert "<rect" not in bar(0.0)
    assert '<rect class="day" x="99.6" y="0" width="0.4" height="10"/>' in bar(0.001, start=1.0 - 1e-9)
    assert '<rect class="day" x="0" y="0" width="100" height="10"/>' in bar(17.0)
    drawn = columns([0.5, None, 2.0], [1.0, 0.0, 1.0], top=1.0, label='"a" < b')
    assert 'd="M0.22 100V50h.56V100zM2.22 100V0h.56V100z"' in drawn
    assert 'd="M0 100V0h1V100h1V0h1V100z"' in drawn
    assert 'aria-label="&#34;a&#34; &lt; b"' in drawn


def test_hours_with_few_samples_are_drawn_as_outlines_and_named() -> None:
    by_hour = tuple(
        HourCounts(samples, positives, hour=hour)
        for hour, (samples, positives) in enumerate([(10_000, 500), (30, 3), *[(10_000, 400)] * 22])
    )
    rate = ClickRate("clicked", {"train": Clicks(230_030, 9303)}, by_hour)
    (chart,) = hour_charts(rate)
    assert chart.note == "Outlined: too few samples to tell the rate of the hour (01:00)."
    assert chart.drawing.count("M1.22 ") == 1
    assert '<path class="vague" d="M1.22 ' in chart.drawing


def test_each_label_has_a_chart_of_its_own() -> None:
    by_hour = tuple(HourCounts(1000, 100, hour=hour) for hour in range(24))
    rate = ClickRate("clicked", {}, by_hour, positives_by_hour={"bought": (10, *[20] * 23)})
    charts = hour_charts(replace(rate, by_split={"train": Clicks(24_000, 2400)}))
    assert [chart.title for chart in charts] == ["clicked by hour of impression", "bought by hour of impression"]
    assert "lowest 1.00% at 00:00, highest 2.00% at 01:00" in charts[1].drawing


def test_a_day_without_clicks_names_no_hours() -> None:
    by_hour = tuple(HourCounts(5, 0, hour=hour) for hour in range(24))
    assert [chart.note for chart in hour_charts(ClickRate("clicked", {"train": Clicks(120, 0)}, by_hour))] == [""]


def test_delays_are_a_histogram_up_to_the_window() -> None:
    counted = {"actions": 4, "delays": {"before": 0, "10s": 3, "30m": 1}}
    tables = label_tables({"clicked": counted, "liked": {"delays": {"1m": 0}}})
    assert [caption for caption in tables if caption.startswith("Delays")] == ["Delays of clicked"]
    assert [row[:3] for row in tables["Delays of clicked"].rows] == [
        ("before the impression", "0", "0%"),
        ("up to 10s", "3", "75.0%"),
        ("10s to 30m, the end of the window", "1", "25.0%"),
    ]
