"""The page about many days in a real browser: alone, on narrow and wide screens, by keyboard, with enough contrast."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest

from ctr_samples.quality.trends import DayPoint, figures_of, render
from tests.quality_report.day_documents import manifest, metrics
from tests.quality_report.headless_browser import LOW_CONTRAST, Browser


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty days, of which the 20th is missing and each ninth was accepted or refused."""
    points = []
    for at in range(40):
        day = str(date(2019, 6, 1) + timedelta(days=at))
        document = metrics(day, calm=at % 9 != 0)
        findings = tuple(finding for finding in document.checks if finding.standing != "passed")
        figures = figures_of(document, manifest())
        link = f"dt={day}/data/r/report.html"
        made = DayPoint(day, document.verdict, "published", link, 3, figures, findings, frozenset({"clicked"}))
        points.append(DayPoint(day, "missing", "missing") if at == 19 else made)
    file = tmp_path_factory.mktemp("page") / "_trends.html"
    file.write_text(render("toutiao_ctr", points), "utf-8")
    return file


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1440])
def test_the_page_is_alone_fits_and_can_be_read(tab: Browser, page: Path, width: int, dark: bool) -> None:
    tab.open(page, width, dark=dark)
    assert tab.requests == [page.as_uri()]
    assert tab.complaints == []
    assert tab.value("document.documentElement.scrollWidth") <= width
    assert tab.value("document.querySelector('svg.line').getBoundingClientRect().height") > 40
    assert tab.value(LOW_CONTRAST) == ""


ABOUT = "document.getElementById('about').textContent"
SAMPLES = """[...document.querySelectorAll('.small')].find((e) => e.querySelector('.of')?.textContent === 'samples')
    .querySelector('.now').textContent"""


def test_a_day_is_chosen_by_keyboard_and_leads_to_its_report(tab: Browser, page: Path) -> None:
    tab.open(page, 1440)
    tab.value("document.getElementById('at').focus()")
    for _ in range(2):
        tab.call("Input.dispatchKeyEvent", type="keyDown", key="ArrowLeft", code="ArrowLeft", windowsVirtualKeyCode=37)
        tab.call("Input.dispatchKeyEvent", type="keyUp", key="ArrowLeft", code="ArrowLeft", windowsVirtualKeyCode=37)
    assert tab.value(ABOUT) == "2019-07-08: published, passed"
    assert tab.value("document.querySelector('#about a').getAttribute('href')") == "dt=2019-07-08/data/r/report.html"
    assert tab.value(SAMPLES) == "1,130,000"


def test_a_day_is_chosen_by_a_click_on_a_line(tab: Browser, page: Path) -> None:
    tab.open(page, 390)
    tab.value("""
        const line = document.querySelector("svg.line"), box = line.getBoundingClientRect();
        const at = {bubbles: true, clientX: box.left + box.width * 19.5 / 40, clientY: box.top};
        line.dispatchEvent(new PointerEvent("pointerdown", at));
    """)
    assert tab.value(ABOUT) == "2019-06-20: missing, missing"
    assert tab.value(SAMPLES) == "–"


def test_features_are_found_by_a_part_of_their_name(tab: Browser, page: Path) -> None:
    tab.open(page, 1440)
    tab.value("""
        const box = document.getElementById("filter");
        box.value = "CLICK_rate";
        box.dispatchEvent(new Event("input"));
    """)
    assert tab.value("document.getElementById('found').textContent") == "3 of 25"


def test_without_script_all_is_there_but_the_choice_of_a_day(tab: Browser, page: Path) -> None:
    tab.open(page, 1440, script=False)
    assert tab.value("document.querySelectorAll('#days tbody tr').length") == 40
    assert tab.value("document.querySelector('.cursor').offsetHeight") == 0
