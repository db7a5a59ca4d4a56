"""`ctr-samples compare-served` as it is used: its page, documents, exit codes, and what it proposes."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import timedelta
from pathlib import Path

import jsonschema
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from ctr_samples.cli import app
from ctr_samples.errors import AccessDenied
from ctr_samples.job.day_status import trends_page
from ctr_samples.quality.served import Cause, Compared, Coverage, Pair, Proposal, Served
from ctr_samples.shards import open_storage
from ctr_samples.shards.storage.local import LocalStorage
from tests.served.served_day import SHOWN, Day
from tests.served.server import Faults
from tests.support.project import PROJECT

pytestmark = pytest.mark.thorough


SCHEMA = PROJECT / "ctr_samples/quality/served.schema.json"


@pytest.fixture
def late(day: Day) -> Path:
    """A log whose user rows are two hours late."""
    path = day.root / "late.parquet"
    pq.write_table(pa.Table.from_pylist(day.served(Faults(late={"user": timedelta(hours=2)}))), path)
    return path


def run(day: Day, log: Path, *more: str) -> tuple[int, str, str]:
    arguments = ["compare-served", str(day.root / "out"), "--date", "2019-06-05", "--served", str(log)]
    done = CliRunner().invoke(app, [*arguments, *more])
    return done.exit_code, done.stdout, done.stderr


def test_a_log_beyond_the_limits_ends_with_3_and_a_page(spark: SparkSession, day: Day, late: Path) -> None:
    code, said, beside = run(day, late, "--propose", str(day.root / "proposed.yaml"))
    assert code == 3, beside
    assert "is served 2h late in" in beside
    assert "with `available_after: 2h` of `user` agreement would be 100.0%" in beside
    page = Path(said.strip())
    assert page.name == "served.html"
    assert "Beyond the limits" in page.read_text()
    proposed = yaml.safe_load((day.root / "proposed.yaml").read_text())
    assert proposed == {"views": {"user": {"available_after": "2h"}}}
    jsonschema.validate(json.loads(page.with_suffix(".json").read_text()), json.loads(SCHEMA.read_text()))


def test_the_comparison_is_a_document_gauges_and_a_line_in_trends(spark: SparkSession, day: Day, late: Path) -> None:
    code, said, _ = run(day, late, "--json", "--no-causes")
    assert code == 3
    found = Served.from_json(said)
    assert found.coverage.matched == SHOWN
    assert Served.from_json(found.to_json()) == found
    assert found.features["age"].unexplained is None
    _, gauges, _ = run(day, late, "--prometheus", "--no-causes")
    assert (
        f'ctr_samples_served_different_ratio{{sample_set="served",feature="age"}} {found.features["age"].share!r}'
        in gauges
    )
    assert 'ctr_samples_served_lines{sample_set="served",kind="matched"} 6000' in gauges
    assert "Samples whose served value differs" in trends_page(open_storage(day.root / "out"), None, None)


def test_an_equal_log_ends_with_0(spark: SparkSession, day: Day) -> None:
    pq.write_table(pa.Table.from_pylist(day.served()), day.root / "equal.parquet")
    code, _, beside = run(day, day.root / "equal.parquet")
    assert (code, "0 of the features differ anywhere" in " ".join(beside.split())) == (0, True)


def closed(*_: object) -> None:
    raise AccessDenied("Cannot write served.json: Read-only file system.")


def test_samples_that_may_only_be_read_are_compared_and_the_page_goes_elsewhere(
    spark: SparkSession, day: Day, late: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalStorage, "new_file", closed)
    monkeypatch.setattr(LocalStorage, "put_new", closed)
    code, said, beside = run(day, late, "-o", str(tmp_path / "page.html"))
    assert (code, said) == (3, f"{tmp_path / 'page.html'}\n")
    assert "The comparison is not kept beside the samples: Cannot write served.json: Read-only" in beside
    assert "Beyond the limits" in (tmp_path / "page.html").read_text()
    code, said, _ = run(day, late, "--json", "--no-causes")
    assert (code, Served.from_json(said).coverage.matched) == (3, SHOWN)


def test_without_a_place_for_the_page_the_result_is_told_before_the_error(
    spark: SparkSession, day: Day, late: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalStorage, "new_file", closed)
    code, said, beside = run(day, late, "--no-causes")
    assert (code, said) == (2, "")
    assert "`served.limits.different` is 0.01" in beside
    assert beside.endswith("Read-only file system. Or give --output, which writes the page elsewhere.\n")


def test_a_comparison_that_cannot_be_read_is_named_in_trends(spark: SparkSession, day: Day, late: Path) -> None:
    run(day, late, "--no-causes")
    (document,) = (day.root / "out").rglob("served.json")
    document.write_text(document.read_text().replace('"served": ', '"other": ', 1))
    page = trends_page(open_storage(day.root / "out"), None, None)
    assert "without what was served: served.json is damaged; run `ctr-samples compare-served` again" in page


def test_the_schema_is_that_of_the_document() -> None:
    schema = json.loads(SCHEMA.read_text())
    classes = {"": Served, **{one.__name__: one for one in (Cause, Compared, Coverage, Pair, Proposal)}}
    for name, kind in classes.items():
        described = schema["$defs"][name] if name else schema
        assert list(described["properties"]) == [one.name for one in fields(kind)]


def test_outputs_exclude_each_other(day: Day, late: Path) -> None:
    code, _, beside = run(day, late, "--json", "--prometheus")
    assert code == 2
    assert "mutually exclusive" in beside
