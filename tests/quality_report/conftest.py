"""A browser for the tests of pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.quality_report.headless_browser import CHROMIUM, Browser, browser


@pytest.fixture(scope="session")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """The one tab of a headless browser."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium here")
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened
