"""`ctr-samples report` and `ctr-samples compare`, on days that were published without Spark."""

from __future__ import annotations

import re
import webbrowser
from pathlib import Path

import pytest
from typer.testing import Result

from ctr_samples.quality.metrics import Measured
from tests.quality_report.day_documents import metrics
from tests.quality_report.published_days import made, run_directory
from tests.support.command_line import invoke


def sentence(result: Result) -> str:
    assert "Traceback" not in result.stderr
    return re.sub(r"\s+", " ", result.stderr).strip()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made(tmp_path, "2019-06-04")
    made(tmp_path, "2019-06-05", 1)
    made(tmp_path, "2019-06-05", 2)
    return tmp_path


@pytest.fixture
def moved(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Takes the place of the drift's computation; remembers of which days it was asked."""
    asked: list[tuple[str, str]] = []

    def drifts(now: Measured, before: Measured) -> dict[str, float]:
        asked.append((now.run_date, before.run_date))
        return {"weekday": 0.777, "channel": 0.5}

    monkeypatch.setattr("ctr_samples.job.published.drifts", drifts)
    return asked


def page_of(root: Path, day: str, generation: int) -> str:
    return f"{run_directory(root, day, generation)}/report.html"


def refused(root: Path, day: str, generation: int = 1) -> Path:
    """A run that wrote its page and was not published."""
    directory = run_directory(root, day, generation)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "report.html").write_text("")
    return directory


@pytest.mark.parametrize(
    ("arguments", "generation"),
    [(["--date", "2019-06-05"], 2), ([], 2), (["--date", "2019-06-05", "--generation", "1"], 1)],
)
def test_report_prints_the_page_of_the_newest_generation_or_a_given_one(
    root: Path, arguments: list[str], generation: int
) -> None:
    result = invoke("report", root, *arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == f"{page_of(root, '2019-06-05', generation)}\n"


@pytest.mark.parametrize(
    ("command", "arguments", "code", "expected"),
    [
        ("report", "--date 2019-06-07", 3, "has no samples of 2019-06-07; it has 2019-06-04 to 2019-06-05 (2 day(s))."),
        ("report", "--date 2019-06-05 --generation 7", 3, "has no generation 7 of 2019-06-05; it has 1, 2. Choose one"),
        ("report", "--date tomorrow", 2, "The date is 'tomorrow'; expected a day"),
        ("report", "--open --metrics", 2, "--open, --metrics and --prometheus are mutually exclusive; give only one."),
        ("report", "--all", 2, "--all is for files without a manifest"),
        ("compare", "2019-06-05 2019-06-05", 2, "Both are generation 2 of 2019-06-05; expected two different ones."),
        ("compare", "2019-06-01 2019-06-05", 3, "has no samples of 2019-06-01;"),
        ("compare", "2019-06-04 2019-06-05 --generation-b 9", 3, "has no generation 9 of 2019-06-05; it has"),
        ("compare", "2019-06-04 2019-06-05 -o /nowhere/all.html", 2, "Cannot write /nowhere/all.html: No such file"),
        ("rollback", "2019-06-05 --to 2", 2, "Readers already see generation 2 of 2019-06-05; choose an earlier one."),
        ("rollback", "2019-06-05 --to 9", 3, "has no generation 9 of 2019-06-05; it has"),
        ("rollback", "2019-06-31 --to 1", 2, "The date is '2019-06-31', which is not in the calendar."),
        ("rollback", "2019-06-05", 2, "--to"),
    ],
)
def test_what_cannot_be_is_told_in_a_sentence(
    root: Path, command: str, arguments: str, code: int, expected: str
) -> None:
    result = invoke(command, root, *arguments.split())
    assert (result.exit_code, result.stdout) == (code, "")
    assert expected in sentence(result)


def test_a_directory_without_days_or_with_days_of_something_else_is_told(tmp_path: Path) -> None:
    (tmp_path / "logs/dt=2019-06-05").mkdir(parents=True)
    (tmp_path / "logs/dt=2019-06-05/part-0.json").write_text("{}")
    (tmp_path / "empty").mkdir()
    for place, end in (("logs", ", or TFRecord files and where"), ("empty", ".")):
        result = invoke("report", tmp_path / place)
        assert result.exit_code == 3
        assert f"holds no published day; expected an output directory of `ctr-samples generate`{end}" in sentence(
            result
        )


def test_a_generation_without_a_page_is_told(root: Path) -> None:
    (run_directory(root, "2019-06-05", 2) / "report.html").unlink()
    result = invoke("report", root)
    assert result.exit_code == 3
    assert "Generation 2 of 2019-06-05 has no report.html" in sentence(result)
    assert "Run the day again with --force." in sentence(result)


@pytest.mark.parametrize(("day", "generation"), [("2019-06-05", 3), ("2019-06-07", 1)])
def test_a_later_run_that_was_refused_is_named_with_its_page(root: Path, day: str, generation: int) -> None:
    run_directory(root, day, generation).mkdir(parents=True)
    assert "not published" not in invoke("report", root).stderr
    page = refused(root, day, generation) / "report.html"
    result = invoke("report", root)
    assert result.stdout == f"{page_of(root, '2019-06-05', 2)}\n"
    assert sentence(result) == f"A later run of {day} was not published; its report is {page}"
    of_its_day = invoke("report", root, "--date", "2019-06-05").stderr
    assert bool(of_its_day) == (day == "2019-06-05")


def test_a_first_day_that_was_refused_leads_to_its_page(tmp_path: Path) -> None:
    page = refused(tmp_path, "2019-06-06") / "report.html"
    run_directory(tmp_path, "2019-06-07", 1).mkdir(parents=True)  # of a run that died
    result = invoke("report", tmp_path)
    assert result.exit_code == 3
    assert f"a run was not published; its report is {page}" in sentence(result)


def test_a_day_of_which_all_runs_were_refused_leads_to_the_page(root: Path) -> None:
    page = refused(root, "2019-06-06") / "report.html"
    result = invoke("report", root, "--date", "2019-06-06")
    assert result.exit_code == 3
    assert f"has no samples of 2019-06-06: a run was not published; its report is {page}" in sentence(result)


@pytest.mark.parametrize("text", [None, '{"format": 2}'])
def test_metrics_are_printed_as_they_are_whatever_their_format(root: Path, text: str | None) -> None:
    file = run_directory(root, "2019-06-05", 2) / "metrics.json"
    file.write_text(file.read_text() if text is None else text)
    assert invoke("report", root, "--metrics").stdout == file.read_text()


REFUSED = 'ctr_samples_refused_run_date_timestamp_seconds{sample_set="toutiao_ctr"}'


def test_prometheus_hears_of_the_newest_day_and_of_one_that_was_refused_since(root: Path) -> None:
    sample = 'ctr_samples_samples{sample_set="toutiao_ctr",split="train"} 1021870'
    lines = invoke("report", root, "--prometheus").stdout.splitlines()
    assert sample in lines
    assert not [line for line in lines if "refused" in line]
    refused(root, "2019-06-07")
    assert {sample, f"{REFUSED} 1559865600"} <= {*invoke("report", root, "--prometheus").stdout.splitlines()}


def test_prometheus_hears_of_a_first_day_that_was_refused(tmp_path: Path) -> None:
    document = refused(tmp_path, "2019-06-07") / "metrics.json"
    document.write_bytes(metrics("2019-06-07").to_json())
    assert invoke("report", tmp_path, "--prometheus").stdout.splitlines()[-1] == f"{REFUSED} 1559865600"
    document.write_text("{")
    nameless = REFUSED.replace("toutiao_ctr", "")
    assert invoke("report", tmp_path, "--prometheus").stdout.splitlines()[-1] == f"{nameless} 1559865600"


@pytest.mark.parametrize("arguments", [("report", "--prometheus"), ("compare", "2019-06-04", "2019-06-05")])
def test_metrics_that_cannot_be_read_are_named_in_one_sentence(root: Path, arguments: tuple[str, ...]) -> None:
    file = run_directory(root, "2019-06-05", 2) / "metrics.json"
    file.write_text("{")
    result = invoke(arguments[0], root, *arguments[1:])
    assert result.exit_code == 3
    assert f"{file} is not a metrics document (Expecting property name" in sentence(result)


def test_metrics_that_are_no_text_are_told(root: Path) -> None:
    file = run_directory(root, "2019-06-05", 2) / "metrics.json"
    file.write_bytes(b"\xff\xfe")
    result = invoke("report", root, "--metrics")
    assert result.exit_code == 3
    assert f"{file} is not text; run the day again with --force." in sentence(result)


@pytest.mark.parametrize(("there", "said"), [(True, ""), (False, "No browser could be opened here; ")])
def test_a_page_is_opened_in_a_browser(root: Path, there: bool, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: bool(opened.append(url)) or there)
    result = invoke("report", root, "--open")
    assert result.exit_code == 0
    assert opened == [(run_directory(root, "2019-06-05", 2) / "report.html").as_uri()]
    assert sentence(result).startswith(said)
    assert bool(sentence(result)) == bool(said)


def test_a_page_in_an_object_store_is_not_opened(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ctr_samples.shards import storage

    monkeypatch.setattr(storage.LocalStorage, "locate", lambda self, path: f"s3://bucket/{path}")
    result = invoke("report", root, "--open")
    assert result.exit_code == 2
    assert "--open needs a local file; s3://bucket/dt=2019-06-05/" in sentence(result)


def test_compare_writes_a_page_about_the_second_day(
    root: Path, moved: list[tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    result = invoke("compare", root, "2019-06-04", "2019-06-05")
    assert (result.exit_code, result.stderr) == (0, "")
    place = root / "_compare-2019-06-04-g1-2019-06-05-g2.html"
    assert result.stdout == f"{place}\n"
    assert list((tmp_path / "elsewhere").iterdir()) == []
    page = place.read_text("utf-8")
    assert "<h1>toutiao_ctr 2019-06-05 compared with 2019-06-04</h1>" in page
    assert "before: 2019-06-04, generation 1" in page
    assert moved == [("2019-06-05", "2019-06-04")]
    assert re.findall(r'data-feature="(.*?)"', page)[:2] == ["weekday", "channel"]


def test_compare_takes_two_generations_of_a_day(root: Path, moved: list[tuple[str, str]], tmp_path: Path) -> None:
    place = tmp_path / "page.html"
    result = invoke("compare", root, "2019-06-05", "2019-06-05", "--generation-a", "1", "--output", place)
    assert (result.exit_code, result.stdout) == (0, f"{place}\n")
    page = place.read_text("utf-8")
    assert "<h1>toutiao_ctr 2019-06-05, generation 2 compared with generation 1</h1>" in page
    assert "before: 2019-06-05, generation 1" in page


def test_compare_computes_the_drift_of_its_two_days(root: Path, tmp_path: Path) -> None:
    place = tmp_path / "page.html"
    assert invoke("compare", root, "2019-06-04", "2019-06-05", "-o", place).exit_code == 0
    page = place.read_text("utf-8")
    assert page.count("drift 0.000") > 20, "both days have the same distributions"


def test_a_rollback_prints_its_manifest_and_has_the_report_of_the_earlier_generation(root: Path) -> None:
    done = invoke("rollback", root, "2019-06-05", "--to", "1")
    assert (done.exit_code, done.stdout) == (0, f"{root}/dt=2019-06-05/manifests/00000003.json\n")
    assert sentence(done) == (
        "Published generation 3 of 2019-06-05 with the samples of generation 1: 1 shard(s), 10 records."
    )
    page = run_directory(root, "2019-06-05", 1) / "report.html"
    assert invoke("report", root).stdout == f"{page}\n"
    metrics = invoke("report", root, "--prometheus").stdout.splitlines()
    assert [line.split()[-1] for line in metrics if "_generation{" in line] == ["3"]


def test_an_earlier_generation_has_its_report_though_the_newest_manifest_is_damaged(root: Path) -> None:
    (root / "dt=2019-06-05/manifests/00000002.json").write_text("{")
    assert invoke("report", root, "--date", "2019-06-05").exit_code == 3
    assert invoke("report", root, "--date", "2019-06-05", "--generation", "1").exit_code == 0


def test_a_report_is_copied_to_a_file(root: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.html"
    assert invoke("report", root, "--date", "2019-06-05", "--output", copy).stdout.strip() == str(copy)
    assert copy.read_bytes() == (run_directory(root, "2019-06-05", 2) / "report.html").read_bytes()
