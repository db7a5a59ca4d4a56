"""`ctr-samples trends`, on days that were published without Spark."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import Result

from ctr_samples.cli.generate import listeners
from ctr_samples.config import load_config
from tests.quality_report.published_days import made, run_directory
from tests.support.command_line import invoke
from tests.support.project import PROJECT


def call(*arguments: str | Path) -> Result:
    return invoke("trends", *arguments)


def days_on(page: str) -> list[str]:
    table = page[page.index('<section id="days">') :]
    return re.findall(r'<th scope="row">(?:<a href="[^"]+">)?([^<]+)', table)


def test_the_page_lies_in_the_sample_set_and_leads_to_each_report(tmp_path: Path) -> None:
    for day in ("2019-06-04", "2019-06-06"):
        made(tmp_path, day)
    result = call(tmp_path)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.strip() == str(tmp_path / "_trends.html")
    page = (tmp_path / "_trends.html").read_text("utf-8")
    assert days_on(page) == ["2019-06-06", "2019-06-05", "2019-06-04"]
    links = set(re.findall(r'href="(dt=[^"#]+)["#]', page))
    assert links == {str(run_directory(Path(), day, 1) / "report.html") for day in ("2019-06-04", "2019-06-06")}
    assert all((tmp_path / link).is_file() for link in links)


def test_a_page_elsewhere_leads_to_the_reports_by_their_whole_address(tmp_path: Path) -> None:
    made(tmp_path / "samples", "2019-06-04")
    assert call(tmp_path / "samples", "--output", tmp_path / "t.html").exit_code == 0
    page = (tmp_path / "t.html").read_text("utf-8")
    report = run_directory(tmp_path / "samples", "2019-06-04", 1) / "report.html"
    assert f'href="file://{report}"' in page
    assert not (tmp_path / "samples/_trends.html").exists()


def test_only_the_newest_days_are_shown_or_those_asked_for(tmp_path: Path) -> None:
    for day in ("2019-06-03", "2019-06-04", "2019-06-05"):
        made(tmp_path, day)
    call(tmp_path, "--days", "2")
    assert days_on((tmp_path / "_trends.html").read_text("utf-8")) == ["2019-06-05", "2019-06-04"]
    call(tmp_path, "--from", "2019-06-03", "--to", "2019-06-04")
    assert days_on((tmp_path / "_trends.html").read_text("utf-8")) == ["2019-06-04", "2019-06-03"]


def test_a_day_that_was_refused_or_is_damaged_is_shown_as_such(tmp_path: Path) -> None:
    for day in ("2019-06-03", "2019-06-04", "2019-06-05"):
        made(tmp_path, day)
    (tmp_path / "dt=2019-06-03/manifests/00000001.json").unlink()
    (tmp_path / "dt=2019-06-04/manifests/00000001.json").write_text("{")
    (run_directory(tmp_path, "2019-06-05", 1) / "metrics.json").unlink()
    assert call(tmp_path).exit_code == 0
    page = (tmp_path / "_trends.html").read_text("utf-8")
    assert "1 day passed" in page
    assert "1 day refused" in page
    assert "1 day damaged" in page
    assert "without metrics" in page


def test_a_directory_without_samples_is_said_in_one_sentence(tmp_path: Path) -> None:
    result = call(tmp_path)
    assert result.exit_code == 3
    assert "holds no samples; expected an output directory" in re.sub(r"\s+", " ", result.stderr)
    assert not (tmp_path / "_trends.html").exists()


def test_a_run_writes_the_page_anew_whatever_its_verdict_and_only_if_it_is_asked_to(tmp_path: Path) -> None:
    made(tmp_path, "2019-06-04")
    console = Console(stderr=True)
    for asked, there in (("null", False), ("30", True)):
        loaded = load_config(PROJECT / "conf/open_bandit.yaml", [f"output.path={tmp_path}", f"trends={asked}"])
        listeners(loaded.config, console, log_json=False, prometheus=None, lineage=False).done()
        assert (tmp_path / "_trends.html").exists() == there


def test_a_page_that_cannot_be_written_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loaded = load_config(PROJECT / "conf/open_bandit.yaml", [f"output.path={tmp_path}", "trends=30"])
    listeners(loaded.config, Console(stderr=True), log_json=False, prometheus=None, lineage=False).done()
    assert "warning: The page about many days was not written:" in capsys.readouterr().err
