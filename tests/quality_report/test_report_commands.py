"""`ctr-samples report` and `ctr-samples compare`, on days that were published without Spark."""

from __future__ import annotations

import re
import webbrowser
from pathlib import Path

import pytest
from typer.testing import Result

from ctr_samples.contract import ExampleContract
from ctr_samples.quality.metrics import Measured
from tests.quality_report.day_documents import metrics
from tests.quality_report.published_days import made, run_directory
from tests.support.command_line import invoke

NOTHING = ExampleContract(())


def call(*arguments: str | Path) -> Result:
    return invoke(*arguments)


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


def test_report_prints_the_page_of_the_newest_generation(root: Path) -> None:
    for arguments in (["--date", "2019-06-05"], []):
        result = call("report", root, *arguments)
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout == f"{run_directory(root, '2019-06-05', 2)}/report.html\n"


def test_report_prints_the_page_of_a_given_generation(root: Path) -> None:
    result = call("report", root, "--date", "2019-06-05", "--generation", "1")
    assert result.stdout == f"{run_directory(root, '2019-06-05', 1)}/report.html\n"


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (
            ["--date", "2019-06-07"],
            3,
            "has no samples of 2019-06-07; it has 2019-06-04 to 2019-06-05 (2 day(s)).",
        ),
        (["--date", "2019-06-05", "--generation", "7"], 3, "has no generation 7 of 2019-06-05; it has"),
        (["--date", "2019-06-05", "--generation", "7"], 3, "; it has 1, 2. Choose one of these."),
        (["--date", "2019-06-04", "--generation", "2"], 3, "; it has 1. Choose one of these."),
        (["--date", "tomorrow"], 2, "The date is 'tomorrow'; expected a day"),
        (["--open", "--metrics"], 2, "--open, --metrics and --prometheus are mutually exclusive; give only one."),
    ],
)
def test_what_is_not_there_is_told_in_a_sentence(root: Path, arguments: list[str], code: int, expected: str) -> None:
    result = call("report", root, *arguments)
    assert result.exit_code == code
    assert expected in sentence(result)
    assert result.stdout == ""


def test_a_directory_without_days_is_told(tmp_path: Path) -> None:
    result = call("report", tmp_path)
    assert result.exit_code == 3
    assert "holds no published day; expected an output directory of `ctr-samples generate`." in sentence(result)


def test_a_directory_of_something_else_by_days_is_told(tmp_path: Path) -> None:
    (tmp_path / "dt=2019-06-05").mkdir()
    (tmp_path / "dt=2019-06-05/part-0.json").write_text("{}")
    assert "holds no published day; expected an output directory of" in sentence(call("report", tmp_path))


def test_a_generation_without_a_page_is_told(root: Path) -> None:
    (run_directory(root, "2019-06-05", 2) / "report.html").unlink()
    result = call("report", root)
    assert result.exit_code == 3
    assert "Generation 2 of 2019-06-05 has no report.html" in sentence(result)
    assert "Run the day again with --force." in sentence(result)


def test_a_later_run_that_was_refused_is_named_with_its_page(root: Path) -> None:
    refused = run_directory(root, "2019-06-05", 3)
    refused.mkdir()
    assert "not published" not in call("report", root).stderr
    (refused / "report.html").write_text("")
    result = call("report", root)
    assert result.stdout == f"{run_directory(root, '2019-06-05', 2)}/report.html\n"
    assert sentence(result) == f"A later run of 2019-06-05 was not published; its report is {refused}/report.html"


def test_a_later_day_that_was_refused_is_named_with_its_page(root: Path) -> None:
    refused = run_directory(root, "2019-06-07", 1)
    refused.mkdir(parents=True)
    (refused / "report.html").write_text("")
    result = call("report", root)
    assert result.stdout == f"{run_directory(root, '2019-06-05', 2)}/report.html\n"
    assert sentence(result) == f"A later run of 2019-06-07 was not published; its report is {refused}/report.html"
    assert call("report", root, "--date", "2019-06-05").stderr == ""


def test_a_first_day_that_was_refused_leads_to_its_page(tmp_path: Path) -> None:
    refused = run_directory(tmp_path, "2019-06-06", 1)
    refused.mkdir(parents=True)
    (refused / "report.html").write_text("")
    run_directory(tmp_path, "2019-06-07", 1).mkdir(parents=True)  # of a run that died
    result = call("report", tmp_path)
    assert result.exit_code == 3
    assert f"a run was not published; its report is {refused}/report.html" in sentence(result)


def test_a_day_of_which_all_runs_were_refused_leads_to_the_page(root: Path) -> None:
    refused = run_directory(root, "2019-06-06", 1)
    refused.mkdir(parents=True)
    (refused / "report.html").write_text("")
    result = call("report", root, "--date", "2019-06-06")
    assert result.exit_code == 3
    expected = f"has no samples of 2019-06-06: a run was not published; its report is {refused}/report.html"
    assert expected in sentence(result)


def test_metrics_are_printed_as_they_are(root: Path) -> None:
    result = call("report", root, "--metrics")
    assert result.stdout == (run_directory(root, "2019-06-05", 2) / "metrics.json").read_text()


def test_metrics_are_printed_for_prometheus(root: Path) -> None:
    result = call("report", root, "--prometheus")
    assert 'ctr_samples_samples{sample_set="toutiao_ctr",split="train"} 1021870\n' in result.stdout


REFUSED = 'ctr_samples_refused_run_date_timestamp_seconds{sample_set="toutiao_ctr"}'


def test_prometheus_hears_of_a_day_that_was_refused_and_not_of_one_that_was_published_since(root: Path) -> None:
    assert "refused" not in call("report", root, "--prometheus").stdout
    refused = run_directory(root, "2019-06-07", 1)
    refused.mkdir(parents=True)
    (refused / "report.html").write_text("")
    lines = call("report", root, "--prometheus").stdout.splitlines()
    assert f"{REFUSED} 1559865600" in lines
    assert 'ctr_samples_samples{sample_set="toutiao_ctr",split="train"} 1021870' in lines


def test_prometheus_hears_of_a_first_day_that_was_refused(tmp_path: Path) -> None:
    refused = run_directory(tmp_path, "2019-06-07", 1)
    refused.mkdir(parents=True)
    (refused / "report.html").write_text("")
    (refused / "metrics.json").write_bytes(metrics("2019-06-07").to_json())
    assert call("report", tmp_path, "--prometheus").stdout.splitlines()[-1] == f"{REFUSED} 1559865600"
    (refused / "metrics.json").write_text("{")
    nameless = REFUSED.replace("toutiao_ctr", "")
    assert call("report", tmp_path, "--prometheus").stdout.splitlines()[-1] == f"{nameless} 1559865600"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not a metrics document (Expecting property name"),
        ("[]", "is not a metrics document (it is a list of 0, expected an object); run the day again with --force."),
        ('{"format": 3}', "is not a metrics document (it has no 'name'); run the day again with --force."),
        (
            '{"format": 2}',
            "has format 2, but this release reads format 3; use the release that wrote it, or run the day again with --force.",
        ),
        ("\ud800", "is not a metrics document ("),
    ],
)
@pytest.mark.parametrize("arguments", [("report", "--prometheus"), ("compare", "2019-06-04", "2019-06-05")])
def test_metrics_that_cannot_be_read_are_named_in_one_sentence(
    root: Path, text: str, said: str, arguments: tuple[str, ...]
) -> None:
    file = run_directory(root, "2019-06-05", 2) / "metrics.json"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    result = call(arguments[0], root, *arguments[1:])
    assert result.exit_code == 3
    assert f"{file} {said}" in sentence(result)


def test_metrics_of_another_format_are_printed_all_the_same(root: Path) -> None:
    (run_directory(root, "2019-06-05", 2) / "metrics.json").write_text('{"format": 2}')
    assert call("report", root, "--metrics").stdout == '{"format": 2}'


def test_metrics_that_are_no_text_are_told(root: Path) -> None:
    file = run_directory(root, "2019-06-05", 2) / "metrics.json"
    file.write_bytes(b"\xff\xfe")
    result = call("report", root, "--metrics")
    assert result.exit_code == 3
    assert f"{file} is not text; run the day again with --force." in sentence(result)


@pytest.mark.parametrize(("there", "said"), [(True, ""), (False, "No browser could be opened here; ")])
def test_a_page_is_opened_in_a_browser(root: Path, there: bool, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: bool(opened.append(url)) or there)
    result = call("report", root, "--open")
    assert result.exit_code == 0
    assert opened == [(run_directory(root, "2019-06-05", 2) / "report.html").as_uri()]
    assert sentence(result).startswith(said)
    assert bool(sentence(result)) == bool(said)


def test_a_page_in_an_object_store_is_not_opened(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ctr_samples.shards import storage

    monkeypatch.setattr(storage.LocalStorage, "locate", lambda self, path: f"s3://bucket/{path}")
    result = call("report", root, "--open")
    assert result.exit_code == 2
    assert "--open needs a local file; s3://bucket/dt=2019-06-05/" in sentence(result)


def test_compare_writes_a_page_about_the_second_day(
    root: Path, moved: list[tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    result = call("compare", root, "2019-06-04", "2019-06-05")
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
    result = call("compare", root, "2019-06-05", "2019-06-05", "--generation-a", "1", "--output", place)
    assert (result.exit_code, result.stdout) == (0, f"{place}\n")
    page = place.read_text("utf-8")
    assert "<h1>toutiao_ctr 2019-06-05, generation 2 compared with generation 1</h1>" in page
    assert "before: 2019-06-05, generation 1" in page


def test_compare_computes_the_drift_of_its_two_days(root: Path, tmp_path: Path) -> None:
    place = tmp_path / "page.html"
    assert call("compare", root, "2019-06-04", "2019-06-05", "-o", place).exit_code == 0
    page = place.read_text("utf-8")
    assert page.count("drift 0.000") > 20, "both days have the same distributions"


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (["2019-06-05", "2019-06-05"], 2, "Both are generation 2 of 2019-06-05; expected two different ones."),
        (["2019-06-01", "2019-06-05"], 3, "has no samples of 2019-06-01;"),
        (["2019-06-04", "2019-06-05", "--generation-b", "9"], 3, "has no generation 9 of 2019-06-05; it has"),
        (
            ["2019-06-04", "2019-06-05", "-o", "/nowhere/at/all.html"],
            2,
            "Cannot write /nowhere/at/all.html: No such file",
        ),
    ],
)
def test_compare_tells_what_is_not_there(
    root: Path, moved: list[tuple[str, str]], arguments: list[str], code: int, expected: str
) -> None:
    result = call("compare", root, *arguments)
    assert result.exit_code == code
    assert expected in sentence(result)


def test_a_rollback_prints_its_manifest_and_has_the_report_of_the_earlier_generation(root: Path) -> None:
    done = call("rollback", root, "2019-06-05", "--to", "1")
    assert (done.exit_code, done.stdout) == (0, f"{root}/dt=2019-06-05/manifests/00000003.json\n")
    assert sentence(done) == (
        "Published generation 3 of 2019-06-05 with the samples of generation 1: 1 shard(s), 10 records."
    )
    page = run_directory(root, "2019-06-05", 1) / "report.html"
    assert call("report", root).stdout == f"{page}\n"
    metrics = call("report", root, "--prometheus").stdout.splitlines()
    assert [line.split()[-1] for line in metrics if "_generation{" in line] == ["3"]


def test_a_rollback_that_cannot_be_is_said_with_its_exit_code(root: Path) -> None:
    same = call("rollback", root, "2019-06-05", "--to", "2")
    assert (same.exit_code, sentence(same)) == (
        2,
        "error: Readers already see generation 2 of 2019-06-05; choose an earlier one.",
    )
    assert call("rollback", root, "2019-06-05", "--to", "9").exit_code == 3
    assert call("rollback", root, "2019-06-31", "--to", "1").exit_code == 2
    assert call("rollback", root, "2019-06-05").exit_code == 2


def test_an_earlier_generation_has_its_report_though_the_newest_manifest_is_damaged(root: Path) -> None:
    (root / "dt=2019-06-05/manifests/00000002.json").write_text("{")
    assert call("report", root, "--date", "2019-06-05").exit_code == 3
    assert call("report", root, "--date", "2019-06-05", "--generation", "1").exit_code == 0


def test_a_report_is_copied_to_a_file(root: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.html"
    assert call("report", root, "--date", "2019-06-05", "--output", copy).stdout.strip() == str(copy)
    assert copy.read_bytes() == (run_directory(root, "2019-06-05", 2) / "report.html").read_bytes()


def test_measuring_all_records_is_for_files_without_a_manifest(root: Path) -> None:
    result = call("report", root, "--all")
    assert result.exit_code == 2
    assert "--all is for files without a manifest" in sentence(result)
