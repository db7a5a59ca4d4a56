"""What a run tells other systems: lines of JSON, gauges, and OpenLineage events."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import date
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import Result

from ctr_samples.config import CatalogSource, DatabaseSource, Source
from ctr_samples.config.source import ColumnarSource
from ctr_samples.telemetry.lineage import dataset_of
from tests.support.command_line import invoke
from tests.support.tiny_days import write_days

FIRST = date(2019, 6, 5)
NO_LOG = "2019-06-01"


@pytest.fixture(scope="module")
def config(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_days(tmp_path_factory.mktemp("tiny"), FIRST, 2)


def generate(config: Path, out: Path, *more: str) -> Result:
    return invoke("generate", "--config", str(config), "--set", f"output.path={out}", *more)


@pytest.mark.thorough
def test_a_collector_of_logs_reads_a_line_for_each_day(config: Path, tmp_path: Path) -> None:
    done = generate(config, tmp_path, "--from", NO_LOG, "--to", "2019-06-05", "--log-json", "--keep-going")
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line["day"] for line in lines] == [f"2019-06-0{day}" for day in range(1, 6)]
    missing, made = lines[0], lines[-1]
    assert (missing["level"], missing["outcome"], missing["exit_code"], missing["kind"]) == (
        "error", "refused", 3, "InputError",
    )  # fmt: skip
    assert missing["error"].startswith("sources.log: ")
    told = (
        "level",
        "name",
        "outcome",
        "exit_code",
        "generation",
        "impressions",
        "samples",
        "dropped",
        "labels",
        "mature",
    )
    assert {key: made[key] for key in told} == {
        "level": "info", "name": "tiny_days", "outcome": "published", "exit_code": 0, "generation": 1,
        "impressions": 24, "samples": made["samples"], "dropped": {}, "labels": {"clicked": 4.0}, "mature": True,
    }  # fmt: skip
    assert sum(made["samples"].values()) == 24
    assert made["manifest"] == f"{tmp_path}/dt=2019-06-05/manifests/00000001.json" == done.stdout.strip()
    again = generate(config, tmp_path, "--date", "2019-06-05", "--log-json")
    assert json.loads(again.stderr)["outcome"] == "unchanged"


@pytest.mark.thorough
def test_prometheus_finds_the_last_run_in_a_file_that_is_replaced_at_once(config: Path, tmp_path: Path) -> None:
    file = tmp_path / "ctr.prom"
    refused = generate(config, tmp_path / "out", "--date", NO_LOG, "--prometheus", str(file))
    assert refused.exit_code == 3
    assert 'ctr_samples_last_run_exit_code{sample_set="tiny_days"} 3' in file.read_text()
    assert generate(config, tmp_path / "out", "--date", "2019-06-05", "--prometheus", str(file)).exit_code == 0
    text = file.read_text()
    assert 'ctr_samples_last_run_exit_code{sample_set="tiny_days"} 0' in text
    assert 'ctr_samples_impressions{sample_set="tiny_days"} 24' in text
    assert re.search(r'^ctr_samples_last_run_duration_seconds\{sample_set="tiny_days"\} [0-9.]+$', text, re.M)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ctr.prom", "out"]


def test_a_directory_that_is_not_there_is_named_before_anything_is_made(config: Path, tmp_path: Path) -> None:
    done = generate(config, tmp_path / "out", "--date", "2019-06-05", "--prometheus", f"{tmp_path}/none/a.prom")
    assert done.exit_code == 2
    assert f"{tmp_path}/none is not a directory" in re.sub(r"\s+", " ", done.stderr)
    assert not (tmp_path / "out").exists()


@pytest.fixture
def posted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    """What an endpoint of OpenLineage is sent."""
    events: list[dict[str, Any]] = []

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            events.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(201)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Endpoint) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("OPENLINEAGE_URL", f"http://127.0.0.1:{server.server_port}")
        yield events
        server.shutdown()


@pytest.mark.thorough
def test_an_endpoint_is_told_what_a_day_was_made_from_and_what_was_published(
    config: Path, tmp_path: Path, posted: list[dict[str, Any]]
) -> None:
    assert generate(config, tmp_path, "--date", "2019-06-05", "--lineage").exit_code == 0
    start, complete = posted
    assert (start["eventType"], complete["eventType"]) == ("START", "COMPLETE")
    assert start["run"]["runId"] == complete["run"]["runId"]
    assert complete["job"] == {"namespace": "ctr-samples", "name": "tiny_days", "facets": complete["job"]["facets"]}
    assert complete["run"]["facets"]["nominalTime"]["nominalStartTime"] == "2019-06-05T00:00:00.000Z"
    (log,) = complete["inputs"]
    assert (log["namespace"], log["name"]) == ("file", str(config.parent / "log"))
    manifest = json.loads((tmp_path / "dt=2019-06-05/manifests/00000001.json").read_text())
    assert log["facets"]["version"]["datasetVersion"] == manifest["inputs"]["log"]["fingerprint"]
    (out,) = complete["outputs"]
    assert (out["namespace"], out["name"]) == ("file", str(tmp_path))
    assert out["outputFacets"]["outputStatistics"]["rowCount"] == 24
    assert out["facets"]["version"]["datasetVersion"] == f"2019-06-05/00000001/{manifest['run_id']}"
    assert "price" in [field["name"] for field in out["facets"]["schema"]["fields"]]


def test_an_endpoint_is_told_why_a_day_failed(config: Path, tmp_path: Path, posted: list[dict[str, Any]]) -> None:
    assert generate(config, tmp_path, "--date", NO_LOG, "--lineage").exit_code == 3
    assert [event["eventType"] for event in posted] == ["START", "FAIL"]
    assert posted[1]["run"]["facets"]["errorMessage"]["message"].startswith("sources.log: ")


@pytest.mark.thorough
def test_an_endpoint_that_does_not_answer_fails_no_run(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "file")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__LOG_FILE_PATH", f"{config}/none/events")
    done = generate(config, tmp_path, "--date", "2019-06-05", "--lineage")
    assert done.exit_code == 0
    assert "warning: Lineage could not tell of the run" in done.stderr


@pytest.mark.parametrize(
    ("source", "dataset"),
    [
        (ColumnarSource(format="parquet", path="s3://logs/feed/dt={date}"), ("s3://logs", "feed")),
        (ColumnarSource(format="parquet", path="hdfs://nn:9000/logs/{date}/{hour}"), ("hdfs://nn:9000", "logs")),
        (CatalogSource(format="table", table="shop.clicks"), ("spark", "shop.clicks")),
        (
            DatabaseSource(format="jdbc", url="jdbc:postgresql://me:secret@db:5432/shop?password=x", table="users"),
            ("postgresql://db:5432", "shop.users"),
        ),
    ],
    ids=["object store", "hdfs", "table", "database"],
)
def test_a_dataset_has_the_name_that_others_give_it(source: Source, dataset: tuple[str, str]) -> None:
    assert dataset_of(source) == dataset
