"""Labels in the configuration: the sentences for what is wrong, and the plan in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctr_samples.config import explain, load_config
from tests.support.minimal_config import MINIMAL, problem, written


def plan(tmp_path: Path, *overrides: str) -> str:
    """The plan in words."""
    return explain(load_config(written(tmp_path, MINIMAL), overrides).config)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "labels.clicked.reduce=first",
            "labels.clicked: `reduce: sum`, `max` and `first` need `value`; `reduce: any` takes none.",
        ),
        ("impressions.skip_above=clicked", "impressions: `skip_above` needs positions: set `explode` or `position`."),
        (
            "labels.clicked.orphans=synthesize",
            "labels.clicked.orphans: found 'synthesize', expected 'drop' or 'quarantine': an impression made from a click "
            "would have no position and no list, and would always be clicked, so a model would learn to recognise it by what "
            "it lacks.",
        ),
        ("labels.clicked.orphans=keep", "labels.clicked.orphans: found 'keep', expected 'drop' or 'quarantine'."),
        ("labels.clicked.reduce=last", "labels.clicked.reduce: found 'last', expected 'any', 'sum', 'max' or 'first'."),
        (
            "labels.clicked.skew=2h",
            "labels.clicked: found more than 1h in `skew`, expected the few seconds by which clocks disagree.",
        ),
    ],
)
def test_a_label_that_cannot_be_says_what_was_found_and_expected(tmp_path: Path, override: str, message: str) -> None:
    assert problem(tmp_path, MINIMAL, override).partition(": ")[2] == message


def test_skip_above_names_a_label_of_any(tmp_path: Path) -> None:
    position = "impressions.position=place"
    assert problem(tmp_path, MINIMAL, position, "impressions.skip_above=clickd") == (
        "c.yaml:5: impressions.skip_above: there is no label 'clickd'; did you mean 'clicked'?"
    )
    summed = "labels.clicked={source: log, window: 30m, value: v, reduce: sum}"
    assert problem(tmp_path, MINIMAL, position, "impressions.skip_above=clicked", summed) == (
        "c.yaml:5: impressions.skip_above: label 'clicked' has a value; expected a label with `reduce: any`."
    )
    assert "  of a list with clicked, those below its last position are dropped\n" in plan(
        tmp_path, position, "impressions.skip_above=clicked"
    )


def test_a_skew_needs_the_day_before_of_actions_and_impressions(tmp_path: Path) -> None:
    sources = (
        "sources={log: {format: parquet, path: 'log/{date}', days_after: 1, days_before: 0}, "
        "clicks: {format: parquet, path: 'clicks/{date}', days_after: 1, days_before: 0}}"
    )
    label = "labels.clicked={source: clicks, time: t, user: u, article: a, window: 30m, skew: 2s}"
    found = (
        "found 0, but with `labels.clicked.skew: 2s` an action may come before the midnight that begins the run date"
    )
    assert [line.partition("sources.")[2] for line in problem(tmp_path, MINIMAL, sources, label).splitlines()] == [
        f"clicks.days_before: {found}; set `sources.clicks.days_before: 1`.",
        f"log.days_before: {found}; set `sources.log.days_before: 1`.",
    ]
    plan(tmp_path, sources.replace("days_before: 0", "days_before: 1"), label)


def test_the_plan_says_which_keys_are_tried_and_what_is_tolerated(tmp_path: Path) -> None:
    said = plan(tmp_path, "impressions.request=request_id", "labels.clicked.skew=2s")
    assert (
        "  label clicked: 1 if there is a row of log where click = 1, within 30m after the last impression of the same request "
        "and article, or, if it has no request id, of the same user and article (up to 2s before it, if none was shown "
        "before)\n"
    ) in said
