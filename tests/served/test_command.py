"""`ctr-samples compare-served` as it is used: its page, documents, exit codes, and what it proposes."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from pyspark.sql import SparkSession

from ctr_samples.errors import AccessDenied
from ctr_samples.job.day_status import trends_page
from ctr_samples.quality.served import Cause, Compared, Coverage, Pair, Proposal, Served
from ctr_samples.shards import open_storage
from ctr_samples.shards.storage.local import LocalStorage
from tests.served.served_day import Day, small_lines
from tests.served.server import Faults
from tests.support.command_line import invoke
from tests.support.project import PROJECT
from tests.support.whole_runs import write_rows

SCHEMA = PROJECT / "ctr_samples/quality/served.schema.json"


@pytest.fixture
def wrong(small: Path) -> Path:
    """A log with 50 wrong numbers."""
    write_rows(small / "wrong.json", small_lines(wrong=50))
    return small / "wrong.json"


def run(out: Path, log: Path, *more: str) -> tuple[int, str, str]:
    done = invoke("compare-served", out, "--date", "2019-06-05", "--served", log, *more)
    return done.exit_code, done.stdout, done.stderr


def run_small(log: Path, *more: str) -> tuple[int, str, str]:
    return run(log.parent / "out", log, "--config", str(log.parent / "c.yaml"), "--no-causes", *more)


def share(lines: list[dict[str, Any]], right: list[dict[str, Any]], name: str) -> float:
    return float(np.mean([a[name] != b[name] for a, b in zip(lines, right, strict=True)]))


@pytest.mark.thorough
def test_a_late_store_is_named_with_its_delay_on_the_page_and_in_trends(spark: SparkSession, day: Day) -> None:
    path, lines = day.root / "late.parquet", day.served(Faults(late={"user": timedelta(hours=3)}))
    pq.write_table(pa.Table.from_pylist(lines), path)
    code, said, beside = run(day.root / "out", path, "--propose", str(day.root / "proposed.yaml"))
    assert code == 3, beside
    assert "is served 3h late in" in beside
    assert "with `available_after: 3h` of `user` agreement would be 100.0%" in beside
    page = Path(said.strip())
    assert page.name == "served.html"
    assert "Beyond the limits" in page.read_text()
    proposed = yaml.safe_load((day.root / "proposed.yaml").read_text())
    assert proposed == {"views": {"user": {"available_after": "3h"}}}
    document = page.with_suffix(".json").read_text()
    jsonschema.validate(json.loads(document), json.loads(SCHEMA.read_text()))
    found = Served.from_json(document)
    assert {name for name, one in found.features.items() if one.differ} == {"age", "score", "fit", "product"}
    for name in ("age", "score", "fit", "product"):
        one = found.features[name]
        assert one.share == pytest.approx(share(lines, day.served(), name), abs=1e-9)
        assert one.causes[0].name == "late row", one.causes
        assert one.causes[0].share > 0.99
        assert "3h late in" in one.causes[0].sentence
        assert one.unexplained is not None
        assert one.unexplained < 0.01
    storage = open_storage(day.root / "out")
    assert "Samples whose served value differs" in trends_page(storage, None, None)
    page.with_suffix(".json").write_text(document.replace('"served": ', '"other": ', 1))
    damaged = "without what was served: served.json is damaged; run `ctr-samples compare-served` again"
    assert damaged in trends_page(storage, None, None)


def test_the_comparison_is_a_document_and_gauges(wrong: Path) -> None:
    code, said, _ = run_small(wrong, "--json")
    assert code == 3
    found = Served.from_json(said)
    assert found.coverage.matched == 500
    assert Served.from_json(found.to_json()) == found
    assert found.features["number"].unexplained is None
    _, gauges, _ = run_small(wrong, "--prometheus")
    assert 'ctr_samples_served_different_ratio{sample_set="tiny",feature="number"} 0.1\n' in gauges
    assert 'ctr_samples_served_lines{sample_set="tiny",kind="matched"} 500' in gauges


def test_an_equal_log_ends_with_0_and_outputs_exclude_each_other(small: Path) -> None:
    write_rows(small / "equal.json", small_lines())
    code, _, beside = run_small(small / "equal.json")
    assert (code, "0 of the features differ anywhere" in " ".join(beside.split())) == (0, True)
    code, _, beside = run_small(small / "equal.json", "--json", "--prometheus")
    assert (code, "mutually exclusive" in beside) == (2, True)


def closed(*_: object) -> None:
    raise AccessDenied("Cannot write served.json: Read-only file system.")


def test_samples_that_may_only_be_read_are_compared_and_the_page_goes_elsewhere(
    wrong: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalStorage, "new_file", closed)
    monkeypatch.setattr(LocalStorage, "put_new", closed)
    code, said, beside = run_small(wrong, "-o", str(tmp_path / "page.html"))
    assert (code, said) == (3, f"{tmp_path / 'page.html'}\n")
    assert "The comparison is not kept beside the samples: Cannot write served.json: Read-only" in beside
    assert "Beyond the limits" in (tmp_path / "page.html").read_text()
    code, said, _ = run_small(wrong, "--json")
    assert (code, Served.from_json(said).coverage.matched) == (3, 500)
    code, said, beside = run_small(wrong)
    assert (code, said) == (2, "")
    assert "`served.limits.different` is 0.01" in beside
    assert beside.endswith("Read-only file system. Or give --output, which writes the page elsewhere.\n")


def test_the_schema_is_that_of_the_document() -> None:
    schema = json.loads(SCHEMA.read_text())
    classes = {"": Served, **{one.__name__: one for one in (Cause, Compared, Coverage, Pair, Proposal)}}
    for name, kind in classes.items():
        described = schema["$defs"][name] if name else schema
        assert list(described["properties"]) == [one.name for one in fields(kind)]
