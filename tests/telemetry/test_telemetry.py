"""What a run tells other systems: lines of JSON, gauges, and OpenLineage events."""

from __future__ import annotations

import io
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
from rich.console import Console
from typer.testing import Result

from ctr_samples.cli.generate import listeners
from ctr_samples.config import CatalogSource, DatabaseSource, Source, load_config
from ctr_samples.config.source import ColumnarSource
from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.errors import InputError
from ctr_samples.job.many_days import DayOutcome
from ctr_samples.shards import Shard
from ctr_samples.telemetry.lineage import Lineage, dataset_of
from tests.support.command_line import invoke
from tests.support.manifests import RUN, manifest
from tests.support.tiny_days import write_days

FIRST = date(2019, 6, 5)


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_days(tmp_path_factory.mktemp("tiny"), FIRST, 2)


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
def test_lines_gauges_and_events_tell_what_became_of_each_day(
    spark: SparkSession, config: Path, tmp_path: Path, posted: list[dict[str, Any]]
) -> None:
    file, out = tmp_path / "ctr.prom", tmp_path / "out"

    def generate(*days: str) -> Result:
        told = ("--log-json", "--prometheus", file, "--lineage")
        return invoke("generate", "--config", config, "--set", f"output.path={out}", *told, *days)

    assert generate("--date", "2019-06-04").exit_code == 3
    assert 'ctr_samples_last_run_exit_code{sample_set="tiny_days"} 3' in file.read_text()
    done = generate("--from", "2019-06-04", "--to", "2019-06-05", "--keep-going")
    missing, made = map(json.loads, done.stderr.splitlines())
    assert missing["error"].startswith("sources.log: ")
    assert (missing["day"], missing["level"], missing["outcome"], missing["exit_code"], missing["kind"]) == (
        "2019-06-04", "error", "refused", 3, "InputError",
    )  # fmt: skip
    expected = {
        "day": "2019-06-05", "level": "info", "name": "tiny_days", "outcome": "published", "exit_code": 0, "generation": 1,
        "impressions": 24, "dropped": {}, "labels": {"clicked": 4.0}, "mature": True,
    }  # fmt: skip
    assert {key: made[key] for key in expected} == expected
    assert sum(made["samples"].values()) == 24
    assert made["manifest"] == f"{out}/dt=2019-06-05/manifests/00000001.json" == done.stdout.strip()
    text = file.read_text()
    assert 'ctr_samples_last_run_exit_code{sample_set="tiny_days"} 0' in text
    assert 'ctr_samples_impressions{sample_set="tiny_days"} 24' in text
    assert re.search(r'^ctr_samples_last_run_duration_seconds\{sample_set="tiny_days"\} [0-9.]+$', text, re.M)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ctr.prom", "out"]
    assert json.loads(generate("--date", "2019-06-05").stderr)["outcome"] == "unchanged"
    ends = [event for event in posted if event["eventType"] != "START"]  # the next day may begin before one ends
    assert len(posted) == 2 * len(ends)
    assert [event["eventType"] for event in ends] == ["FAIL", "FAIL", "COMPLETE", "COMPLETE"]
    assert ends[1]["run"]["facets"]["errorMessage"]["message"].startswith("sources.log: ")
    inputs = json.loads(Path(made["manifest"]).read_text())["inputs"]
    assert ends[2]["inputs"][0]["facets"]["version"]["datasetVersion"] == inputs["log"]["fingerprint"]


def test_a_directory_that_is_not_there_is_named_before_anything_is_made(config: Path, tmp_path: Path) -> None:
    out = ("--set", f"output.path={tmp_path}/out", "--prometheus", f"{tmp_path}/none/a.prom")
    done = invoke("generate", "--config", config, "--date", "2019-06-05", *out)
    assert done.exit_code == 2
    assert f"{tmp_path}/none is not a directory" in re.sub(r"\s+", " ", done.stderr)
    assert not (tmp_path / "out").exists()


def test_an_endpoint_is_told_what_was_published_and_from_what_or_why_a_day_failed(
    config: Path, posted: list[dict[str, Any]]
) -> None:
    lineage = Lineage.of(load_config(config, ["output.path=/samples"]).config)
    contract = ExampleContract((FeatureSpec("price", "float32"),))
    shards = (Shard("a", "train", 0, 24, 99, 0),)
    made = manifest(contract, name="tiny_days", inputs={"log": {"fingerprint": "f1"}}, shards=shards)
    lineage.begins(FIRST)
    lineage.ended(DayOutcome(FIRST, "published", manifest=made))
    lineage.begins(FIRST)
    lineage.ended(DayOutcome(FIRST, "refused", error=InputError("sources.log: no such file")))
    start, complete, _, failed = posted
    assert failed["eventType"] == "FAIL"
    assert failed["run"]["facets"]["errorMessage"]["message"] == "sources.log: no such file"
    assert (start["eventType"], complete["eventType"]) == ("START", "COMPLETE")
    assert start["run"]["runId"] == complete["run"]["runId"]
    assert complete["job"] == {"namespace": "ctr-samples", "name": "tiny_days", "facets": complete["job"]["facets"]}
    assert complete["run"]["facets"]["nominalTime"]["nominalStartTime"] == "2019-06-05T00:00:00.000Z"
    (log,) = complete["inputs"]
    assert (log["namespace"], log["name"]) == ("file", str(config.parent / "log"))
    assert log["facets"]["version"]["datasetVersion"] == "f1"
    (out,) = complete["outputs"]
    assert (out["namespace"], out["name"]) == ("file", "/samples")
    assert out["outputFacets"]["outputStatistics"]["rowCount"] == 24
    assert out["facets"]["version"]["datasetVersion"] == f"2019-06-05/00000001/{RUN}"
    assert [field["name"] for field in out["facets"]["schema"]["fields"]] == ["price"]


def test_an_endpoint_that_does_not_answer_is_warned_of(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "file")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__LOG_FILE_PATH", f"{config}/none/events")
    console, job = Console(file=io.StringIO(), width=200), load_config(config).config
    listeners(job, console, log_json=False, prometheus=None, lineage=True).begins(FIRST)
    assert "warning: Lineage could not tell of the run" in console.file.getvalue()  # type: ignore[attr-defined]


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
