"""The whole job with its output in an object store, as in conf/production.yaml: from another process, over HTTP."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from pathlib import Path

import boto3
import pytest
from moto.server import ThreadedMotoServer

from ctr_samples.shards import latest_manifest, open_storage
from tests.job.partial_days import shards_of, write_config, write_log
from tests.support.project import PROJECT


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


@pytest.mark.slow
@pytest.mark.skipif(not own_name_is_known(), reason="Spark, given AWS credentials, looks up the name of its machine")
def test_two_nights_at_once_on_one_empty_state_in_a_bucket_publish_the_samples_of_the_logs(
    bucket: dict[str, str], tmp_path: Path
) -> None:
    day = date(2019, 6, 5)
    for n in range(-3, 1):
        write_log(tmp_path, day + timedelta(days=n), "UTC")

    def shards(out: str) -> list[bytes]:
        config = write_config(tmp_path, out, views=["item"])
        config.write_text(config.read_text().replace(f"{tmp_path}/partials", "s3://samples/partials"))
        call(bucket, "generate", "--config", str(config), "--date", str(day))
        manifest = latest_manifest(open_storage(tmp_path / out), day)
        assert manifest is not None
        return shards_of(manifest, tmp_path / out)

    with ThreadPoolExecutor(2) as nights:
        one, two = nights.map(shards, ["one", "two"])
    assert one == two == shards("plain")
    kept = call(bucket, "partials", "s3://samples/partials")
    assert re.search(r"item +[0-9a-f]{16} +2019-06-02 +2019-06-05 +4 +12 ", kept), (
        "four days, each with its three files"
    )
