"""The whole job with its output in an object store, as in conf/production.yaml: from another process, over HTTP."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from moto.server import ThreadedMotoServer

PROJECT = Path(__file__).parent.parent.parent


def own_name_is_known() -> bool:
    try:
        socket.gethostbyname(socket.gethostname())
    except OSError:
        return False
    return True


@pytest.fixture
def bucket() -> Iterator[dict[str, str]]:
    """The environment that leads to a bucket ``samples`` on loopback."""
    server = ThreadedMotoServer("127.0.0.1", 0)
    server.start()
    host, port = server.get_host_and_port()
    access = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret-of-the-test",
        "AWS_REGION": "us-east-1",
    }
    boto3.client(
        "s3",
        endpoint_url=access["AWS_ENDPOINT_URL"],
        aws_access_key_id="key",
        aws_secret_access_key="secret-of-the-test",
        region_name="us-east-1",
    ).create_bucket(Bucket="samples")
    yield access
    server.stop()


def call(access: dict[str, str], *arguments: str) -> str:
    environ = {**os.environ, **access, "BUCKET": "samples"}
    command = [sys.executable, "-m", "ctr_samples", *arguments]
    done = subprocess.run(command, cwd=PROJECT, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "secret-of-the-test" not in done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.skipif(not own_name_is_known(), reason="Spark, given AWS credentials, looks up the name of its machine")
def test_a_day_is_published_to_a_bucket_and_read_back(bucket: dict[str, str]) -> None:
    place = "s3://samples/open_bandit"
    config = ["--config", "conf/open_bandit.yaml", "--date", "2019-11-26"]
    said = call(bucket, "generate", *config, "--set", "output.path='s3://${BUCKET}/open_bandit'")
    assert f"{place}/dt=2019-11-26/manifests/00000001.json" in said
    assert "4 shard(s), 1,300 records" in call(bucket, "verify", place)
    assert "s3://samples/open_bandit/dt=2019-11-26/data/" in call(bucket, "paths", place, "--split", "eval")
    assert "item_click_rate" in call(bucket, "show", place)
