"""The format through a real Spark Connect server, which runs in a process of its own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.project import PROJECT

pytest.importorskip("grpc_status", reason="Spark Connect's client is not installed")

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
_SECONDS = 120


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The address of a server with two cores, whose workers are this environment."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    conf = {
        "spark.connect.grpc.binding.port": port,
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": 2,
        "spark.sql.warehouse.dir": tmp_path / "warehouse",
    }
    settings = [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
    submit = [str(Path(sys.executable).with_name("spark-submit")), "--master", "local[2]", *settings]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(PROJECT)}
    with (tmp_path / "server.log").open("w") as log:
        process = subprocess.Popen(
            [*submit, "--class", SERVER, "spark-internal"], cwd=tmp_path, env=environment, stdout=log, stderr=log
        )
        try:
            _await_port(port, process, tmp_path / "server.log")
            yield f"sc://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(_SECONDS)


def _await_port(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)  # nothing tells when a port opens
    raise AssertionError(log.read_text()[-4000:])


@pytest.mark.slow
def test_the_format_works_through_a_server_and_joins_and_runs_say_why_they_do_not(server: str, tmp_path: Path) -> None:
    client = [sys.executable, str(Path(__file__).with_name("connect_client.py")), server, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), "TZ": "UTC"}
    done = subprocess.run(client, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["session"].startswith("pyspark.sql.connect")
    assert seen["read"] == [[n, float(n), [n, n + 1], str(n % 2)] for n in range(100)]
    assert seen["published"] == 200
    why = "cannot run through Spark Connect: it needs Spark's JVM beside it."
    assert [said.split(" Take ")[0] for said in seen["said"]] == [
        f"A join or an expression of ctr-samples {why}",
        f"The job {why}",
    ]
