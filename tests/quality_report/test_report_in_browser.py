"""The page in a real browser: nothing is asked of the network, nothing is refused, nothing leaves the screen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ctr_samples.quality.report import Contents, render, render_files
from ctr_samples.records.foreign import ForeignFile
from tests.quality_report.day_documents import manifest, metrics
from tests.quality_report.headless_browser import LOW_CONTRAST, Browser


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "report.html"
    evil = "<img src=http://127.0.0.1:9/a onerror=alert(1)>"
    day = metrics()
    day = replace(day, features={**day.features, evil: day.features["channel"]})
    file.write_text(render(day, manifest(), metrics("2019-06-04", generation=1, calm=True)), "utf-8")
    return file


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1440])
def test_the_page_is_alone_and_fits(tab: Browser, page: Path, width: int, dark: bool) -> None:
    tab.open(page, width, dark=dark)
    assert tab.requests == [page.as_uri()]
    assert tab.complaints == []
    assert tab.value("document.documentElement.scrollWidth") <= width
    assert tab.value("document.querySelector('.plotted svg').getBoundingClientRect().height") > 100


def test_no_table_is_cut_on_a_wide_screen(tab: Browser, page: Path) -> None:
    tab.open(page, 1440)
    cut = (
        "[...document.querySelectorAll('.scroll')].filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.ariaLabel)"
    )
    assert tab.value(cut) == []


@pytest.mark.parametrize("dark", [False, True])
def test_all_letters_have_enough_contrast(tab: Browser, page: Path, dark: bool) -> None:
    tab.open(page, 1440, dark=dark)
    assert tab.value(LOW_CONTRAST) == ""


def test_features_are_found_by_name(tab: Browser, page: Path) -> None:
    tab.open(page, 1440)
    visible = "[...document.querySelectorAll('[data-feature]')].filter((card) => card.offsetHeight > 0).length"
    assert tab.value(visible) == 26
    tab.value("""
        const box = document.getElementById("filter");
        box.value = "CLICK_rate";
        box.dispatchEvent(new Event("input"));
    """)
    assert tab.value(visible) == 3
    assert tab.value("document.getElementById('found').textContent") == "3 of 26"


def test_without_script_all_is_there_but_the_filter(tab: Browser, page: Path) -> None:
    tab.open(page, 1440, script=False)
    assert tab.value("document.querySelectorAll('[data-feature]').length") == 26
    assert tab.value("document.querySelector('.filter').offsetHeight") == 0


@pytest.mark.parametrize("width", [390, 1440])
def test_the_page_about_files_is_alone_and_fits(tab: Browser, tmp_path: Path, width: int) -> None:
    page = tmp_path / "files.html"
    files = [ForeignFile(f"train/part-{number}", 100 + number, 7) for number in range(3)]
    damaged = ForeignFile(
        "a-long-name-of-a-directory/part-0", 9, 0, damage="/x/part-0: After 0 records, at byte 0, damage."
    )
    page.write_text(render_files("/x", [*files, damaged], Contents(21, metrics().features)), "utf-8")
    tab.open(page, width)
    assert tab.requests == [page.as_uri()]
    assert tab.complaints == []
    assert tab.value("document.documentElement.scrollWidth") <= width
    assert tab.value(LOW_CONTRAST) == ""
